package userspace

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

// Affinity ends with its timeout, for UDP as for TCP.
func TestAffinityEnds(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		all := []string{"local1", "local2", "remote1"}
		for i, proto := range protocols {
			to := netip.AddrPortFrom(bed.VIP(byte(1+i), false), 80)
			sync1(t, p, b.Snapshot(bed.Service{Name: "web", Protocol: proto, IP: bed.VIPs(byte(1 + i)), Pods: all, Edit: bed.Affinity(time.Second)}))
			first := ask(b, proto, bed.From{Place: bed.Client}, to)
			if again := ask(b, proto, bed.From{Place: bed.Client}, to); again != first {
				t.Errorf("%s: at %s, then at %s", proto, first, again)
			}
			time.Sleep(1100 * time.Millisecond) // what is tested is that time passes
			if then := ask(b, proto, bed.From{Place: bed.Client}, to); then == first {
				t.Errorf("%s: still at %s although it is another's turn", proto, then)
			}
		}
	})
}

// A UDP flow whose Service is scaled to zero is refused, and goes on when there is an endpoint again.
// https://issues.k8s.io/139628
func TestUDPScaledToZero(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		dns := bed.Service{Name: "dns", Protocol: "UDP", IP: bed.VIPs(1), Pods: []string{"remote1"}, Edit: bed.NodePort(30053)}
		var last services.Snapshot
		var flows []*bed.UDP
		for i, to := range []netip.AddrPort{netip.AddrPortFrom(bed.VIP(1, false), 80), netip.AddrPortFrom(bed.VIP(1, true), 80),
			netip.AddrPortFrom(bed.NodeAddr(1, false), 30053), netip.AddrPortFrom(bed.NodeAddr(1, true), 30053)} {
			u, err := b.OpenUDP(bed.From{Place: []string{bed.Client, bed.Outside}[i/2]}, to)
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			flows = append(flows, u)
		}
		for _, pods := range [][]string{{"remote1"}, nil, {"local1"}, nil, {"remote1"}} {
			dns.Pods = pods
			next := b.Next(last, dns)
			next.Full = last.Ports == nil
			sync1(t, p, next)
			last = next
			want := strings.Join(append(pods, map[int]string{0: bed.KindRefused}[len(pods)]), "")
			for i, u := range flows {
				a, err := u.Ask()
				if got := a.Pod + bed.Kind(err); got != want {
					t.Errorf("flow %d with %v: %s", i, pods, got)
				}
			}
		}
	})
}

// While the process is restarted, clients are refused at once, never left waiting and never answered by another Service.
func TestRestartUnderTraffic(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		s := b.Snapshot(bed.Service{Name: "one", IP: bed.VIPs(1), Pods: []string{"local1"}}, bed.Service{Name: "two", IP: bed.VIPs(2), Pods: []string{"remote1"}})
		sync1(t, p, s)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i, want := range []string{"local1", "remote1"} {
			for _, v6 := range []bool{false, true} {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						switch got := ask(b, "TCP", bed.From{Place: bed.Client}, netip.AddrPortFrom(bed.VIP(byte(1+i), v6), 80)); got {
						case want, bed.KindRefused, bed.KindReset, bed.KindEOF:
						default:
							t.Errorf("of Service %d: %s", i+1, got)
						}
					}
				})
			}
		}
		backend := strings.TrimPrefix(t.Name(), "TestRestartUnderTraffic/")
		for range 5 {
			p.Kill()
			p.Stop()
			p = b.Proxier(backend)
			sync1(t, p, s)
			for i, want := range []string{"local1", "remote1"} {
				if got := ask(b, "TCP", bed.From{Place: bed.Client}, netip.AddrPortFrom(bed.VIP(byte(1+i), false), 80)); got != want {
					t.Errorf("after a restart: %s", got)
				}
			}
		}
		close(stop)
		wg.Wait()
	})
}

// What a crash of another version left goes, whatever its rules look like and in the other back end too; foreign rules stay.
func TestCleanupOfAnotherVersion(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		for _, tool := range []string{"iptables-legacy", "iptables-nft", "ip6tables-legacy", "ip6tables-nft"} {
			if _, err := b.Exec(bed.Node, anotherVersion, tool+"-restore", "--noflush"); err != nil {
				t.Fatal(err)
			}
		}
		sync1(t, p, b.Snapshot(bed.Service{Name: "web", IP: bed.VIPs(1), Pods: []string{"local1"}}))
		if err := p.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := b.IptablesRules()
		if strings.Contains(after, "KUBE-PORTALS") || strings.Contains(after, "KUBE-NODEPORT-") || strings.Count(after, ":FOREIGN") != 4 ||
			strings.Count(after, "-A PREROUTING -j FOREIGN") != 4 {
			t.Errorf("after the clean-up:\n%s", after)
		}
	})
}

const anotherVersion = `*nat
:KUBE-PORTALS-CONTAINER - [0:0]
:KUBE-PORTALS-HOST - [0:0]
:KUBE-NODEPORT-CONTAINER - [0:0]
:KUBE-NODEPORT-HOST - [0:0]
:FOREIGN - [0:0]
-A PREROUTING -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-CONTAINER
-A PREROUTING -m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts" -j KUBE-NODEPORT-CONTAINER
-A PREROUTING -j FOREIGN
-A OUTPUT -m comment --comment "handle ClusterIPs" -j KUBE-PORTALS-HOST
-A KUBE-PORTALS-CONTAINER -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 40000
-A KUBE-NODEPORT-HOST -p tcp -m tcp --dport 30080 -j KUBE-PORTALS-HOST
COMMIT
*filter
:KUBE-NODEPORT-NON-LOCAL - [0:0]
-A INPUT -m comment --comment "Ensure that non-local NodePort traffic can flow" -j KUBE-NODEPORT-NON-LOCAL
-A KUBE-NODEPORT-NON-LOCAL -p tcp -m tcp --dport 40000 -m conntrack --ctstate NEW -j ACCEPT
COMMIT
`
