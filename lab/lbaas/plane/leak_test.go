package plane_test

import (
	"io"
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"proxylab/lab/lbaas/plane"
)

// Whatever was carried: nothing runs on behind a closed data plane, nor behind a balancer that is gone.
func TestNothingIsLeftRunning(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Run("plane", func(t *testing.T) {
		r := newRig(t)
		lb := r.balancer("TCP", newServer(t, "a").Member)
		lb.Pools[0].Monitor = monitor("TCP")
		udp, web := newUDPServer(t, "u"), newWeb(t, "w")
		for i, protocol := range []string{"UDP", "HTTP", "TERMINATED_HTTPS"} {
			id := protocol
			members := []plane.Member{udp}
			if protocol != "UDP" {
				members = []plane.Member{web}
			}
			lb.Pools = append(lb.Pools, plane.Pool{ID: id, Protocol: protocol, Algorithm: "ROUND_ROBIN", AdminUp: true, Members: members})
			lb.Listeners = append(lb.Listeners, plane.Listener{ID: id, Protocol: protocol, Port: uint16(port + 1 + i), AdminUp: true, DefaultPool: id})
		}
		r.apply(lb)
		c := r.dial()
		at := func(p uint16) string { return netip.AddrPortFrom(r.vip, p).String() }
		r.get(browser(t), "http://"+at(port+2)+"/")
		r.get(browser(t), "https://"+at(port+3)+"/")
		r.apply(plane.Balancer{ID: "lb", AdminUp: true, VIPs: lb.VIPs}) // listeners gone, the connection stays
		c.echoes(t, "still there")
		r.apply(lb)
		r.dial()
		if err := r.set.Apply(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c.r); err == nil {
			t.Log("closed in good order")
		}
	})
	goleak.VerifyNone(t, ignore)
}
