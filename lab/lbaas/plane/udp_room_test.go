package plane

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// Flows are bounded: the longest silent makes room, and its client, when it speaks again, gets a flow again.
func TestUDPFlowsAreBounded(t *testing.T) {
	member, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	go func() {
		buf := make([]byte, 100)
		for {
			n, from, err := member.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = member.WriteTo(buf[:n], from)
		}
	}()
	at := member.LocalAddr().(*net.UDPAddr).AddrPort()
	p := newPool("p", func() {}, func(learned) {})
	if err := p.update(Pool{ID: "p", Protocol: "UDP", Algorithm: "ROUND_ROBIN", AdminUp: true,
		Members: []Member{{ID: "m", Address: at.Addr(), Port: at.Port(), Weight: 1, AdminUp: true}}}, true); err != nil {
		t.Fatal(err)
	}
	f, err := newFrontend(Listener{ID: "l", Protocol: "UDP", Port: 8080, AdminUp: true, DefaultPool: "p"}, map[string]*pool{"p": p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newListener("l", false, func(learned) {})
	defer l.close(true)
	l.update(f, []netip.Addr{netip.MustParseAddr("127.211.0.1")})
	s := l.sockets[netip.MustParseAddr("127.211.0.1")].(*udpSocket)
	s.mu.Lock()
	s.room = 4
	s.mu.Unlock()
	var clients []net.Conn
	for range 10 {
		c, err := net.Dial("udp", "127.211.0.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	for round := range 3 {
		for i, c := range clients {
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			text := fmt.Sprint(round, i)
			buf := make([]byte, 100)
			if _, err := c.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Read(buf); err != nil || string(buf[:n]) != text {
				t.Fatalf("%q, %v", buf[:n], err)
			}
			if n := s.active(); n > 4 {
				t.Fatal(n, "flows")
			}
		}
	}
	if n := p.picker.Inflight("m"); n != 4 {
		t.Errorf("the member counts %d flows", n)
	}
}
