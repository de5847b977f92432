package plane

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

// A connection that comes when its client has gone already says with its PROXY header who that was: it serves no other client.
func TestLateConnectionIsNobodyElses(t *testing.T) {
	member := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Client", r.RemoteAddr) // as the PROXY header says
	}))
	member.Listener = &proxyproto.Listener{Listener: member.Listener}
	member.Start()
	defer member.Close()
	p := poolOf(t, "PROXY", member.Listener)
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
		if who, err := ask(t.Context(), "198.51.100.2:1002"); err != nil || who != "198.51.100.2:1002" {
			t.Fatalf("the member hears of %q, error %v", who, err)
		}
	}
}

// poolOf is a pool with one member, m.
func poolOf(t *testing.T, protocol string, member net.Listener) *pool {
	t.Helper()
	at := member.Addr().(*net.TCPAddr).AddrPort()
	p := newPool("p", func() {}, func(learned) {})
	if err := p.update(Pool{ID: "p", Protocol: protocol, Algorithm: "LEAST_CONNECTIONS", AdminUp: true, Members: []Member{
		{ID: "m", Address: at.Addr(), Port: at.Port(), Weight: 1, AdminUp: true},
	}}, false); err != nil {
		t.Fatal(err)
	}
	return p
}

// A client that goes in the middle of an answer does not count as a connection of its member for ever.
func TestAbortedAnswersAreNotCountedOn(t *testing.T) {
	member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	defer member.Close()
	l := newListener("l", false, func(learned) {})
	defer l.cancel()
	p := poolOf(t, "HTTP", member.Listener)
	l.conf.Store(&frontend{pool: p, clientData: time.Minute, connect: time.Minute, memberData: time.Minute})
	balancer := httptest.NewUnstartedServer(newForwarder(l, netip.MustParseAddrPort("192.0.2.1:80")))
	balancer.Config.ErrorLog = log.New(io.Discard, "", 0)
	balancer.Start()
	defer balancer.Close()
	for range 5 {
		resp, err := http.Get(balancer.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadFull(resp.Body, make([]byte, 1<<20))
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); p.picker.Inflight("m") > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the member still has %d connections, the pool thinks", p.picker.Inflight("m"))
		}
	}
}
