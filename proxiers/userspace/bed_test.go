package userspace

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

func TestMain(m *testing.M) {
	factories := map[string]bed.Factory{}
	for _, backend := range []string{"legacy", "nft"} {
		factories[backend] = func(log *slog.Logger) (runner.Proxier, error) {
			return New(Options{Backend: backend, Log: log})
		}
	}
	os.Exit(bed.Main(m, factories))
}

// eachBackend runs a test in a bed of its own for each back end that is installed.
func eachBackend(t *testing.T, test func(*testing.T, *bed.Bed, *bed.Proxier)) {
	for _, backend := range []string{"legacy", "nft"} {
		t.Run(backend, func(t *testing.T) {
			if _, err := exec.LookPath("iptables-" + backend + "-restore"); err != nil {
				t.Skip(err)
			}
			t.Parallel() // most of the time is waiting
			b := bed.New(t)
			test(t, b, b.Proxier(backend))
		})
	}
}

func sync1(t *testing.T, p *bed.Proxier, s services.Snapshot) runner.SyncReport {
	t.Helper()
	report, err := p.Sync(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// ask connects, or sends a datagram, and returns who answered or the kind of failure.
func ask(b *bed.Bed, proto corev1.Protocol, from bed.From, to netip.AddrPort) string {
	var a bed.Answer
	var err error
	if proto == corev1.ProtocolUDP {
		var u *bed.UDP
		if u, err = b.OpenUDP(from, to); err == nil {
			defer u.Close()
			a, err = u.Ask()
		}
	} else {
		a, err = b.DialTCPFrom(from, to)
	}
	if err != nil {
		return bed.Kind(err)
	}
	return a.Pod
}

func externals(v6 bool) (external, balancer netip.Addr) {
	if v6 {
		return netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	}
	return netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")
}

// exposed gives a port a node port, an external and a balancer address.
func exposed(nodePort uint16) func(*services.ServicePort) {
	return func(p *services.ServicePort) {
		external, balancer := externals(p.Family == services.IPv6)
		p.NodePort, p.ExternalIPs, p.LoadBalancerVIPs = nodePort, []netip.Addr{external}, []netip.Addr{balancer}
	}
}

var protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}

func TestReachability(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		var list []bed.Service
		for i, proto := range protocols {
			list = append(list,
				bed.Service{Name: fmt.Sprint("far", i), Protocol: proto, IP: bed.VIPs(byte(10 + i)), Pods: []string{"remote1"}, Edit: exposed(30080)},
				bed.Service{Name: fmt.Sprint("own", i), Protocol: proto, IP: bed.VIPs(byte(20 + i)), Pods: []string{"local1"}})
		}
		report := sync1(t, p, b.Snapshot(list...))
		if report.Objects["services"] != 8 || report.Objects["destinations"] != 8 || report.Objects["rules"] < 30 || !report.Full {
			t.Errorf("report: %+v", report)
		}
		for i, proto := range protocols {
			for _, v6 := range []bool{false, true} {
				external, balancer := externals(v6)
				targets := map[netip.AddrPort][]string{
					netip.AddrPortFrom(bed.VIP(byte(10+i), v6), 80): {bed.Client, bed.Node, "local1", bed.Outside},
					netip.AddrPortFrom(bed.NodeAddr(1, v6), 30080):  {bed.Client, bed.Node, bed.Outside, bed.Node2},
					netip.AddrPortFrom(external, 80):                {bed.Client, bed.Node, bed.Outside},
					netip.AddrPortFrom(balancer, 80):                {bed.Client, bed.Node, bed.Outside},
				}
				if !v6 {
					targets[netip.MustParseAddrPort("127.0.0.1:30080")] = []string{bed.Node}
				}
				for to, places := range targets {
					for _, from := range places {
						if got := ask(b, proto, bed.From{Place: from}, to); got != "remote1" {
							t.Errorf("%s from %s to %s: %s", proto, from, to, got)
						}
					}
				}
				if got := ask(b, proto, bed.From{Place: "local1"}, netip.AddrPortFrom(bed.VIP(byte(20+i), v6), 80)); got != "local1" {
					t.Errorf("%s of a pod to itself, IPv6 %v: %s", proto, v6, got)
				}
			}
		}
	})
}

// The node's side of a pod's link needs no address, as in many networks where pods are routed.
func TestPodOnALinkWithoutAddress(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		link := "v-" + bed.Client
		_, rest, _ := strings.Cut(b.MustExec(bed.Node, "ip", "-o", "link", "show", link), "link/ether ")
		mac, _, _ := strings.Cut(rest, " ")
		b.MustExec(bed.Node, "ip", "addr", "flush", "dev", link, "scope", "global")
		for _, gateway := range []string{"10.244.1.1", "fd00:10:244:1::1"} {
			b.MustExec(bed.Client, "ip", "neigh", "replace", gateway, "lladdr", mac, "dev", "eth0", "nud", "permanent")
		}
		b.MustExec(bed.Node, "ip", "route", "replace", b.Pod(bed.Client).V4.String(), "dev", link)
		b.MustExec(bed.Node, "ip", "route", "replace", b.Pod(bed.Client).V6.String(), "dev", link)
		var list []bed.Service
		for i, proto := range protocols {
			list = append(list, bed.Service{Name: "web", Protocol: proto, IP: bed.VIPs(byte(1 + i)), Pods: []string{"remote1"}, Edit: bed.NodePort(30080)})
		}
		sync1(t, p, b.Snapshot(list...))
		for i, proto := range protocols {
			for _, v6 := range []bool{false, true} {
				for _, to := range []netip.AddrPort{netip.AddrPortFrom(bed.VIP(byte(1+i), v6), 80), netip.AddrPortFrom(bed.NodeAddr(1, v6), 30080)} {
					if got := ask(b, proto, bed.From{Place: bed.Client}, to); got != "remote1" {
						t.Errorf("%s to %s: %s", proto, to, got)
					}
				}
			}
		}
	})
}

// Without a known address of the node, packets go to that of the interface that they came in by.
func TestNodeWithoutKnownAddress(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		s := b.Snapshot(bed.Service{Name: "web", IP: bed.VIPs(1), Pods: []string{"local1"}, Edit: bed.NodePort(30080)})
		s.Node.Addresses, s.Node.PodCIDRs = []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
		sync1(t, p, s)
		for _, v6 := range []bool{false, true} {
			for _, from := range []string{bed.Client, bed.Outside} {
				if got := ask(b, "TCP", bed.From{Place: from}, netip.AddrPortFrom(bed.VIP(1, v6), 80)); got != "local1" {
					t.Errorf("from %s, IPv6 %v: %s", from, v6, got)
				}
			}
		}
	})
}

func TestSpreadAffinityAndRefusal(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		all := []string{"local1", "local2", "remote1", "remote2"}
		web := bed.Service{Name: "web", IP: bed.VIPs(1), Pods: all, Edit: bed.NodePort(30080)}
		sticky := bed.Service{Name: "sticky", IP: bed.VIPs(2), Pods: all, Edit: bed.Affinity(time.Hour)}
		none := bed.Service{Name: "none", IP: bed.VIPs(3), Edit: bed.NodePort(30081)}
		noneUDP := bed.Service{Name: "none", Protocol: "UDP", IP: bed.VIPs(3), Edit: bed.NodePort(30081)}
		first := b.Snapshot(web, sticky, none, noneUDP)
		sync1(t, p, first)
		count := map[string]int{}
		for range 40 {
			count[ask(b, "TCP", bed.From{Place: bed.Client}, netip.AddrPortFrom(bed.VIP(1, false), 80))]++
		}
		for _, pod := range all {
			if count[pod] != 10 {
				t.Errorf("spread: %v", count)
				break
			}
		}
		chosen := map[string]string{}
		for _, from := range []string{bed.Client, bed.Client2} {
			for range 6 {
				got := ask(b, "TCP", bed.From{Place: from}, netip.AddrPortFrom(bed.VIP(2, true), 80))
				if chosen[from] == "" {
					chosen[from] = got
				}
				if got != chosen[from] {
					t.Errorf("%s was at %s, then at %s", from, chosen[from], got)
				}
			}
		}
		if chosen[bed.Client] == chosen[bed.Client2] {
			t.Errorf("both clients at %v", chosen)
		}
		refused(t, b, bed.KindRefused)

		none.Pods, noneUDP.Pods = []string{"local1"}, []string{"local1"}
		second := b.Next(first, web, sticky, none, noneUDP)
		if report := sync1(t, p, second); report.Full {
			t.Error("a full pass for one change")
		}
		refused(t, b, "local1")
		sync1(t, p, b.Next(second, web, sticky, bed.Service{Name: "none", IP: bed.VIPs(3), Edit: bed.NodePort(30081)}))
		for _, v6 := range []bool{false, true} {
			if got := ask(b, "TCP", bed.From{Place: bed.Client}, netip.AddrPortFrom(bed.VIP(3, v6), 80)); got != bed.KindRefused {
				t.Errorf("after the endpoint went: %s", got)
			}
		}
	})
}

// refused asks the Service without endpoints, everywhere.
func refused(t *testing.T, b *bed.Bed, want string) {
	t.Helper()
	for _, proto := range protocols {
		for _, v6 := range []bool{false, true} {
			for _, to := range []netip.AddrPort{netip.AddrPortFrom(bed.VIP(3, v6), 80), netip.AddrPortFrom(bed.NodeAddr(1, v6), 30081)} {
				for _, from := range []string{bed.Client, bed.Node, bed.Outside} {
					if got := ask(b, proto, bed.From{Place: from}, to); got != want {
						t.Errorf("%s from %s to %s: %s, want %s", proto, from, to, got, want)
					}
				}
			}
		}
	}
}

func TestStateOfFlows(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		dns := bed.Service{Name: "dns", Protocol: "UDP", IP: bed.VIPs(1), Pods: []string{"local1", "remote1"}}
		web := bed.Service{Name: "web", IP: bed.VIPs(2), Pods: []string{"remote1"}}
		late := bed.Service{Name: "late", Protocol: "UDP", IP: bed.VIPs(3), Pods: []string{"remote1"}}
		first := b.Snapshot(dns, web)
		sync1(t, p, first)
		for _, v6 := range []bool{false, true} {
			// A sender that is there before its Service.
			early, err := b.OpenUDP(bed.From{Place: bed.Client}, netip.AddrPortFrom(bed.VIP(3, v6), 80))
			if err != nil {
				t.Fatal(err)
			}
			defer early.Close()
			patience := b.Timeout
			b.Timeout = 200 * time.Millisecond
			if a, err := early.Ask(); err == nil {
				t.Errorf("nobody there, but %s answers", a.Pod)
			}
			b.Timeout = patience
			flows := map[string]*bed.UDP{}
			for len(flows) < 2 {
				u, err := b.OpenUDP(bed.From{Place: bed.Client}, netip.AddrPortFrom(bed.VIP(1, v6), 80))
				if err != nil {
					t.Fatal(err)
				}
				defer u.Close()
				a, err := u.Ask()
				if err != nil {
					t.Fatal(err)
				}
				flows[a.Pod] = u
			}
			open, err := b.OpenTCP(bed.From{Place: bed.Client}, netip.AddrPortFrom(bed.VIP(2, v6), 80))
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			dns.Pods, web.Pods = []string{"local1"}, []string{"local2"}
			report := sync1(t, p, b.Next(first, dns, web, late))
			if report.StaleFlows < 1 {
				t.Errorf("no flow was removed: %+v", report)
			}
			for was, u := range flows {
				if a, err := u.Ask(); err != nil || a.Pod != "local1" {
					t.Errorf("flow of %s: %s, %v", was, a.Pod, err)
				}
			}
			if a, err := early.Ask(); err != nil || a.Pod != "remote1" {
				t.Errorf("early sender: %s, %v", a.Pod, err)
			}
			if err := open.Echo("still here"); err != nil {
				t.Errorf("open TCP connection: %v", err)
			}
			dns.Pods, web.Pods = []string{"local1", "remote1"}, []string{"remote1"}
			sync1(t, p, first)
		}
	})
}

func TestPolicies(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		patience := b.Timeout
		local := func(sp *services.ServicePort) { sp.ExternalLocal, sp.InternalLocal = true, true }
		external := func(sp *services.ServicePort) { sp.ExternalLocal = true }
		ranges := func(sp *services.ServicePort) {
			sp.SourceRanges = []netip.Prefix{netip.PrefixFrom(bed.OutsideAddr(1, sp.Family == services.IPv6), map[bool]int{true: 128, false: 32}[sp.Family == services.IPv6])}
		}
		sync1(t, p, b.Snapshot(
			bed.Service{Name: "here", IP: bed.VIPs(1), Pods: []string{"local1", "remote1"}, Edit: bed.Edits(bed.NodePort(30081), local)},
			bed.Service{Name: "there", IP: bed.VIPs(2), Pods: []string{"remote1"}, Edit: bed.Edits(bed.NodePort(30082), local)},
			bed.Service{Name: "out", IP: bed.VIPs(3), Pods: []string{"remote1"}, Edit: bed.Edits(bed.NodePort(30083), external)},
			bed.Service{Name: "few", IP: bed.VIPs(4), Pods: []string{"remote1"}, Edit: bed.Edits(exposed(30084), ranges)},
			bed.Service{Name: "nobody", IP: bed.VIPs(5), Edit: bed.Edits(bed.NodePort(30085), local)}))
		for _, v6 := range []bool{false, true} {
			_, balancer := externals(v6)
			vip := func(n byte) netip.AddrPort { return netip.AddrPortFrom(bed.VIP(n, v6), 80) }
			nodePort := func(n uint16) netip.AddrPort { return netip.AddrPortFrom(bed.NodeAddr(1, v6), n) }
			for _, row := range []struct {
				from, want string
				n          int
				to         netip.AddrPort
			}{
				{bed.Client, "local1", 0, vip(1)}, {bed.Client, "local1", 0, vip(1)}, {bed.Node, "local1", 0, vip(1)},
				{bed.Outside, "local1", 0, nodePort(30081)}, {bed.Outside, "local1", 0, nodePort(30081)},
				{bed.Client, bed.KindTimeout, 0, vip(2)}, {bed.Outside, bed.KindTimeout, 0, nodePort(30082)},
				{bed.Client, "remote1", 0, nodePort(30082)}, {bed.Node, "remote1", 0, nodePort(30082)},
				{bed.Client, "remote1", 0, vip(3)}, {bed.Outside, bed.KindTimeout, 0, nodePort(30083)},
				{bed.Outside, "remote1", 1, netip.AddrPortFrom(balancer, 80)}, {bed.Outside, bed.KindTimeout, 2, netip.AddrPortFrom(balancer, 80)},
				{bed.Outside, "remote1", 2, nodePort(30084)}, {bed.Outside, "remote1", 2, vip(4)},
				{bed.Client, bed.KindRefused, 0, vip(5)}, {bed.Outside, bed.KindRefused, 0, nodePort(30085)},
			} {
				b.Timeout = patience
				if row.want == bed.KindTimeout { // is waited for
					b.Timeout = patience / 10
				}
				from := bed.From{Place: row.from}
				if row.n != 0 {
					from.Addr = bed.OutsideAddr(row.n, v6)
				}
				if got := ask(b, "TCP", from, row.to); got != row.want {
					t.Errorf("from %s %d to %s: %s, want %s", row.from, row.n, row.to, got, row.want)
				}
			}
		}
	})
}
