package plane

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A connection that comes when its client has gone already says with its PROXY header who that was: it serves no other client.
func TestLateConnectionIsNobodyElses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go proxied(ln)
	at := ln.Addr().(*net.TCPAddr).AddrPort()
	p := newPool("p", func() {}, func(learned) {})
	if err := p.update(Pool{ID: "p", Protocol: "PROXY", Algorithm: "ROUND_ROBIN", AdminUp: true, Members: []Member{
		{ID: "m", Address: at.Addr(), Port: at.Port(), Weight: 1, AdminUp: true},
	}}, false); err != nil {
		t.Fatal(err)
	}
	tr := newMemberTransport()
	dialing, gate, arrived := make(chan struct{}, 32), make(chan struct{}), make(chan struct{}, 32)
	tr.own.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialing <- struct{}{}
		<-gate
		defer func() { arrived <- struct{}{} }()
		return dialMember(ctx, network, address)
	}
	ask := func(ctx context.Context, client string) (string, error) {
		e := &exchange{f: &frontend{connect: time.Minute, memberData: time.Minute}, pool: p,
			client: netip.MustParseAddrPort(client), vip: netip.MustParseAddrPort("192.0.2.1:80")}
		req, err := http.NewRequestWithContext(context.WithValue(ctx, exchangeKey{}, e), http.MethodGet, "http://member/", nil)
		if err != nil {
			return "", err
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return "", err
		}
		return resp.Header.Get("Client"), resp.Body.Close()
	}
	impatient, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := ask(impatient, "198.51.100.1:1001")
		gone <- err
	}()
	<-dialing
	leave()
	if err := <-gone; err == nil {
		t.Fatal("a client that has gone got an answer")
	}
	close(gate)
	<-arrived
	for range 20 { // what is done with a late connection comes after its arrival
		if who, err := ask(t.Context(), "198.51.100.2:1002"); err != nil || who != "198.51.100.2" {
			t.Fatalf("the member hears of %q, error %v", who, err)
		}
	}
}

// proxied is a member that tells whom the PROXY header of the connection names.
func proxied(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			r := bufio.NewReader(conn)
			line, err := r.ReadString('\n')
			fields := strings.Fields(line)
			if err != nil || len(fields) < 3 {
				return
			}
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nClient: " + fields[2] + "\r\n\r\n"))
		}()
	}
}
