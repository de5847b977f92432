package plane_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
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

// A member that does not even refuse is given up after the connect timeout, and the client gets another one.
func TestMemberConnectTimeout(t *testing.T) {
	s := newSpace(t)
	s.serve(t, "a", netip.MustParseAddrPort("10.10.0.21:9000"))
	member := func(id, a string) plane.Member {
		return plane.Member{ID: id, Address: netip.MustParseAddr(a), Port: 9000, Weight: 1, AdminUp: true}
	}
	s.planeOf(t, plane.Balancer{
		ID: "lb", AdminUp: true, VIPs: []netip.Addr{netip.MustParseAddr(vip4)},
		Listeners: []plane.Listener{{
			ID: "l", Protocol: "TCP", Port: port, AdminUp: true, DefaultPool: "p",
			Timeouts: plane.Timeouts{MemberConnect: 100 * time.Millisecond}, // the kernel gives up after three seconds
		}},
		Pools: []plane.Pool{{ID: "p", Protocol: "TCP", Algorithm: "ROUND_ROBIN", AdminUp: true,
			Members: []plane.Member{member("nobody", "10.10.0.99"), member("a", "10.10.0.21")}}},
	}, plane.Options{Names: []string{"lb1"}, Start: s.instances})
	began := time.Now()
	same(t, "answers", count(s.sequence(t, net.JoinHostPort(vip4, "8080"), outside[:1], 3, false)), map[string]int{"a": 3})
	t.Logf("three clients in %s", time.Since(began))
}

// An instance whose orchestrator has gone, whichever end of it is noticed first, ends and leaves no address behind.
func TestInstanceEndsWithItsOrchestrator(t *testing.T) {
	s := newSpace(t)
	for _, end := range []string{"input", "output"} {
		t.Run(end, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], plane.InstanceCommand, "--name", "lb1", "--interface", "eth0")
			proc, err := plane.StartCommand(cmd, func(cmd *exec.Cmd) error { return s.start("lb1", cmd) })
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(proc, `{"role":"active"}`)
			fmt.Fprintln(proc, `{"apply":[{"id":"lb","vips":["10.10.0.128","fd00:10:10::128"],"adminUp":true}]}`)
			lines := bufio.NewScanner(proc.Output())
			for lines.Scan() && !strings.Contains(lines.Text(), `"applied":1`) {
				continue
			}
			if got := s.vipsOf(t, "lb1"); got != "10.10.0.128/32 fd00:10:10::128/128" {
				t.Fatalf("VIPs: %q", got)
			}
			if end == "input" {
				err = proc.Close()
				for lines.Scan() {
					continue
				}
			} else {
				err = proc.Output().(io.Closer).Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := proc.Wait(); (err == nil) != (end == "input") {
				t.Error(err)
			}
			if got := s.vipsOf(t, "lb1"); got != "" {
				t.Errorf("VIPs: %q", got)
			}
		})
	}
}
