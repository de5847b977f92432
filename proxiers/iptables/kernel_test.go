package iptables

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
	"proxylab/proxiers/xtables/fake"
)

var probability = regexp.MustCompile(`(--probability 0\.\d{6})\d+`)

// comparable drops what differs although the rules are the same: counters, comments of the tool, digits that a float has
// not got, and how the back ends print a match without a difference.
func comparable(save string) string {
	var out []string
	for line := range strings.Lines(save) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, ":") {
			line, _, _ = strings.Cut(line, " [")
		}
		out = append(out, probability.ReplaceAllString(line, "$1"))
	}
	return strings.Join(out, "\n")
}

// What the real tools print of the real kernel is what the fake has: rules are written in the form that iptables-save
// uses, and the fake interprets what the kernel got.
func TestKernelHoldsWhatTheFakeHolds(t *testing.T) {
	eachOf(t, variants, func(n *node) {
		everything := func(s bed.Service) bed.Service {
			return with(s, bed.NodePort(30080), bed.Affinity(time.Hour), externalLocal, ofFamily(func(p *services.ServicePort, v6 bool) {
				p.NodePort += uint16(p.Service[0])
				p.HealthCheckNodePort = 31000
				p.ExternalIPs = []netip.Addr{external(1, v6)}
				p.LoadBalancerVIPs = []netip.Addr{external(2, v6)}
				p.SourceRanges = []netip.Prefix{netip.PrefixFrom(bed.OutsideAddr(1, v6), 24).Masked()}
			}))
		}
		list := []bed.Service{
			everything(web("local1", "local2", "remote1")), web0("plain", 3, "local1", "remote1", "remote2"), web0("none", 4),
			with(web0("inside", 5, "remote1"), internalLocal), everything(dns("remote2")),
			{Name: "sctp", IP: bed.VIPs(6), Protocol: corev1.ProtocolSCTP, ServerPort: 9999, Pods: []string{"local1", "remote2"}},
		}
		n.Sync(list[1:]...)
		n.Sync(list...)
		threshold := 1000
		if strings.HasSuffix(n.variant, "/compact") {
			threshold = 0
		}
		w := newWorld(t, t.TempDir(), threshold)
		first := n.Snapshot(list[1:]...)
		mustSync(t, w, first)
		mustSync(t, w, n.Next(first, list...))
		for f, tables := range map[services.Family]*fake.Tables{services.IPv4: w.v4, services.IPv6: w.v6} {
			backend := backendOf(n.variant)
			for _, table := range []string{tableNat, tableFilter} {
				kernel := n.MustExec(bed.Node, xtables.Command(f, backend, "save"), "-t", table)
				var faked strings.Builder
				_ = tables.Save(t.Context(), table, func(line []byte) bool { faked.Write(append(line, '\n')); return true })
				got, want := sortedLines(comparable(kernel)), sortedLines(comparable(faked.String()))
				if got != want {
					t.Errorf("%s %s %s: kernel:\n%s\nfake:\n%s", n.variant, f, table, got, want)
				}
			}
		}
	})
}

func sortedLines(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func web0(name string, vip byte, pods ...string) bed.Service {
	return bed.Service{Name: name, Port: "http", IP: bed.VIPs(vip), Pods: pods}
}

// The real tools and the real kernel end up with the same rules by increments as from scratch.
func TestKernelByIncrements(t *testing.T) {
	for _, v := range backends {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			b := bed.New(t, bed.Pods(0, 0))
			n := &node{Host: &bed.Host{Bed: b, Name: v}, t: t, variant: v}
			harm := func(lines ...string) func() {
				return func() {
					for _, l := range lines { // what is not there cannot be harmed
						_, _ = b.Exec(bed.Node, l, n.tool("restore"), "--noflush")
					}
				}
			}
			bed.Replay{Proxier: v, Sequences: 3, State: func() string { return canonical(n.saved()) }, Harm: []func(){
				harm("*nat\n-F KUBE-SERVICES\nCOMMIT\n"), harm("*nat\n-F PREROUTING\nCOMMIT\n", "*filter\n-F KUBE-SERVICES\nCOMMIT\n"),
				harm("*filter\n-F FORWARD\nCOMMIT\n", "*filter\n-X KUBE-PROXY-CANARY\nCOMMIT\n"),
				func() {
					if err := b.HoldXtablesLock(200 * time.Millisecond); err != nil {
						t.Error(err)
					}
				},
			}}.Run(b)
		})
	}
}

// saved is what the back end in use has in the tables of this proxier.
func (n *node) saved() string {
	var out strings.Builder
	backend := backendOf(n.variant)
	for _, f := range []services.Family{services.IPv4, services.IPv6} {
		for _, table := range []string{tableNat, tableFilter} {
			out.WriteString(comparable(n.MustExec(bed.Node, xtables.Command(f, backend, "save"), "-t", table)) + "\n")
		}
	}
	return out.String()
}
