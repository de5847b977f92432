package plane_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"proxylab/lab/lbaas/plane"
)

// On IPv6, between namespaces: TCP and UDP, CIDRs that drop, and VIPs that come and go with their balancer.
func TestIPv6(t *testing.T) {
	s := newSpace(t)
	lb := plane.Balancer{
		ID: "lb", AdminUp: true, VIPs: []netip.Addr{netip.MustParseAddr(vip6)},
		Listeners: []plane.Listener{
			{ID: "tcp", Protocol: "TCP", Port: port, AdminUp: true, DefaultPool: "tcp"},
			{ID: "udp", Protocol: "UDP", Port: port, AdminUp: true, DefaultPool: "udp"},
		},
	}
	at := netip.MustParseAddrPort("[fd00:10:10::21]:9000")
	s.serve(t, "a", at)
	for _, protocol := range []string{"tcp", "udp"} {
		lb.Pools = append(lb.Pools, plane.Pool{
			ID: protocol, Protocol: map[string]string{"tcp": "TCP", "udp": "UDP"}[protocol], Algorithm: "LEAST_CONNECTIONS", AdminUp: true,
			Members: []plane.Member{{ID: "a", Address: at.Addr(), Port: at.Port(), Weight: 1, AdminUp: true}},
		})
	}
	set := s.planeOf(t, lb, plane.Options{Names: []string{"lb1"}, Start: s.instances})
	from := func(network, source string) (string, error) {
		d := net.Dialer{Timeout: 500 * time.Millisecond}
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
		if network == "udp" {
			d.LocalAddr = &net.UDPAddr{IP: net.ParseIP(source)}
		}
		c, err := s.dial(d, network, "[fd00:10:10::128]:8080")
		if err != nil {
			return "", err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(500 * time.Millisecond))
		if network == "udp" {
			_, _ = c.Write([]byte("?"))
		}
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		return string(buf[:min(n, 1)]), err
	}
	for _, network := range []string{"tcp", "udp"} {
		if who, err := from(network, "fd00:10:10::1"); who != "a" || err != nil {
			t.Errorf("%s: %q, %v", network, who, err)
		}
	}
	for i := range lb.Listeners {
		lb.Listeners[i].AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("fd00:10:10::2/128"), netip.MustParsePrefix("10.0.0.0/8")}
	}
	if err := set.Apply(t.Context(), []plane.Balancer{lb}); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"tcp", "udp"} {
		if who, err := from(network, "fd00:10:10::2"); who != "a" || err != nil {
			t.Errorf("%s: %q, %v", network, who, err)
		}
		var timeout net.Error
		if who, err := from(network, "fd00:10:10::1"); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s: not dropped but %q, %v", network, who, err)
		}
	}
	if got := s.vipsOf(t, "lb1"); got != "fd00:10:10::128/128" {
		t.Error(got)
	}
	if err := set.Apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := s.vipsOf(t, "lb1"); got != "" {
		t.Error(got)
	}
}

// What a killed instance has left on its link is removed by the next one.
func TestVIPsAreCleanedUp(t *testing.T) {
	s := newSpace(t)
	s.ip(t, "lb1", "addr add 10.10.0.199/32 dev eth0") // left by one that was killed
	s.planeOf(t, plane.Balancer{ID: "lb", AdminUp: true, VIPs: []netip.Addr{netip.MustParseAddr(vip4)}},
		plane.Options{Names: []string{"lb1"}, Start: s.instances})
	if got := s.vipsOf(t, "lb1"); got != vip4+"/32" {
		t.Error(got)
	}
}
