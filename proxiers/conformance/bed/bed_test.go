package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

func TestMain(m *testing.M) {
	os.Exit(Main(m, map[string]Factory{
		"fake":   func(*slog.Logger) (runner.Proxier, error) { return &fake{}, nil },
		"broken": func(*slog.Logger) (runner.Proxier, error) { return nil, errors.New("kernel lacks everything") },
	}))
}

// fake reports what it was asked, and where it runs.
type fake struct{ last services.Snapshot }

func (f *fake) Sync(_ context.Context, want services.Snapshot) (runner.SyncReport, error) {
	f.last = want
	if len(want.Ports) == 0 {
		return runner.SyncReport{}, errors.New("nothing to do")
	}
	return runner.SyncReport{Full: want.Full, Objects: map[string]int{"services": len(want.Ports), "changed": len(want.Changed)}}, nil
}

func (f *fake) Cleanup(context.Context) error {
	text := fmt.Sprint(f.last.Ports[services.Key{Namespace: "test", Service: "web", Protocol: "TCP", Family: "IPv6"}])
	ns, _ := os.Readlink("/proc/self/ns/net")
	entries, _ := os.ReadDir("/run")
	return fmt.Errorf("%s in %s with %d files in /run", text, ns, len(entries))
}

func TestEveryPlaceReachesEveryBackend(t *testing.T) {
	b := New(t)
	for _, from := range []string{Node, Node2, Outside, Client, Client2, "local1", "remote2"} {
		for _, to := range []string{"local1", "local2", "remote1", "remote2"} {
			for _, v6 := range []bool{false, true} {
				addr := b.Pod(to).Addr(v6)
				a, err := b.DialTCP(from, netip.AddrPortFrom(addr, TCPPort))
				if err != nil || a.Pod != to {
					t.Errorf("TCP %s -> %s %s: %+v, %v", from, to, addr, a, err)
				}
				u, err := b.DialUDP(from, netip.AddrPortFrom(addr, UDPPort), 0)
				if err != nil || u.Pod != to {
					t.Errorf("UDP %s -> %s %s: %+v, %v", from, to, addr, u, err)
				}
				if from == Client && (a.Client.Addr() != b.Pod(Client).Addr(v6) || u.Client.Addr() != a.Client.Addr()) {
					t.Errorf("%s saw client %s by TCP and %s by UDP", to, a.Client, u.Client)
				}
			}
		}
	}
}

func TestSourceAddressAndPortAreTheAskedOnes(t *testing.T) {
	b := New(t, Pods(1, 0))
	for _, v6 := range []bool{false, true} {
		from := From{Place: Outside, Addr: OutsideAddr(2, v6), Port: 40000}
		want := netip.AddrPortFrom(from.Addr, from.Port)
		a, err := b.DialTCPFrom(from, netip.AddrPortFrom(b.Pod("local1").Addr(v6), TCPPort))
		if err != nil || a.Client != want {
			t.Errorf("TCP: %+v, %v", a, err)
		}
		u, err := b.OpenUDP(from, netip.AddrPortFrom(b.Pod("local1").Addr(v6), UDPPort))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := u.Ask(); err != nil || a.Client != want {
			t.Errorf("UDP: %+v, %v", a, err)
		}
		_ = u.Close()
	}
}

func TestKindsOfFailure(t *testing.T) {
	b := New(t, Pods(1, 0))
	b.Timeout /= 3
	for _, v6 := range []bool{false, true} {
		pod := b.Pod("local1").Addr(v6)
		if _, err := b.DialTCP(Client, netip.AddrPortFrom(pod, 9)); Kind(err) != KindRefused {
			t.Errorf("closed TCP port: %q, %v", Kind(err), err)
		}
		if _, err := b.DialUDP(Client, netip.AddrPortFrom(pod, 9), 0); Kind(err) != KindRefused {
			t.Errorf("closed UDP port: %q, %v", Kind(err), err)
		}
	}
	b.MustExec("local1", "ip", "route", "add", "unreachable", "192.0.2.0/24")
	if _, err := b.DialTCP("local1", netip.MustParseAddrPort("192.0.2.1:80")); Kind(err) != KindNoRoute {
		t.Errorf("no route: %q, %v", Kind(err), err)
	}
	b.MustExec("local1", "ip", "link", "set", "eth0", "mtu", "1400") // still works
	b.MustExec(Node, "ip", "link", "set", "v-local1", "down")
	b.MustExec(Node, "ip", "route", "replace", "blackhole", b.Pod("local1").V4.String())
	if _, err := b.DialUDP(Client, netip.AddrPortFrom(b.Pod("local1").V4, UDPPort), 0); Kind(err) != KindTimeout {
		t.Errorf("dropped: %q, %v", Kind(err), err)
	}
	for err, want := range map[error]string{nil: "", io.EOF: KindEOF, errors.New("odd"): KindOther} {
		if got := Kind(err); got != want {
			t.Errorf("Kind(%v) = %q", err, got)
		}
	}
}

func TestOpenConnectionEchoes(t *testing.T) {
	b := New(t, Pods(0, 1))
	c, err := b.OpenTCP(From{Place: Client}, netip.AddrPortFrom(b.Pod("remote1").V4, TCPPort))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, line := range []string{"one", "", "three words here"} {
		if err := c.Echo(line); err != nil {
			t.Error(err)
		}
	}
}

func TestNodeHasItsOwnRunDirectory(t *testing.T) {
	b := New(t, Pods(0, 0))
	b.MustExec(Node, "touch", "/run/proxylab-bed-test")
	if _, err := os.Stat("/run/proxylab-bed-test"); err == nil {
		t.Error("a file of the node's /run is in the machine's /run")
	}
	if got := b.MustExec(Node, "ls", "/run"); got != "proxylab-bed-test\n" {
		t.Errorf("/run of the node: %q", got)
	}
}

func TestProxierRunsInTheNode(t *testing.T) {
	b := New(t, Pods(1, 1))
	p := b.Proxier("fake")
	ctx := t.Context()
	first := b.Snapshot(Service{Name: "web", IP: VIPs(1), Pods: []string{"local1", "remote1"}})
	report, err := p.Sync(ctx, first)
	want := runner.SyncReport{Full: true, Objects: map[string]int{"services": 2, "changed": 2}}
	if err != nil || !reflect.DeepEqual(report, want) {
		t.Errorf("%+v, %v", report, err)
	}
	next := b.Next(first, Service{Name: "web", IP: VIPs(1), Pods: []string{"local1", "remote1"}},
		Service{Name: "dns", Protocol: "UDP", IP: VIPs(2), Pods: []string{"local1"}})
	if report, err := p.Sync(ctx, next); err != nil || report.Full || report.Objects["changed"] != 2 || report.Objects["services"] != 4 {
		t.Errorf("%+v, %v", report, err)
	}
	var space string
	if err := b.RunInNode(func() (err error) {
		space, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	err = p.Cleanup(ctx)
	port := first.Ports[services.Key{Namespace: "test", Service: "web", Protocol: "TCP", Family: "IPv6"}]
	if got, want := fmt.Sprint(err), fmt.Sprintf("%v in %s with 0 files in /run", fmt.Sprint(port), space); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := p.Sync(ctx, services.Snapshot{}); err == nil || err.Error() != "nothing to do" {
		t.Errorf("error of the proxier: %v", err)
	}
	p.Kill()
	if _, err := p.Sync(ctx, first); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("after a kill: %v", err)
	}
}

func TestProxierThatCannotBeMade(t *testing.T) {
	b := New(t, Pods(0, 0))
	for name, want := range map[string]string{"broken": "kernel lacks everything", "unknown": "greeting"} {
		p, err := b.startProxier(name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if p != nil {
			p.Stop()
		}
	}
}

func TestSnapshotPieces(t *testing.T) {
	b := New(t, Pods(1, 1))
	s := b.Snapshot(Service{Name: "web", IP: VIPs(1), Draining: []string{"remote1", "local1"}, Edit: Edits(NodePort(30080), Affinity(5))})
	for _, p := range s.Ports {
		if len(p.ClusterEndpoints) != 2 || p.LocalEndpoints != nil || p.ClusterEndpoints[0].Ready || !p.HasAnyEndpoints ||
			p.NodePort != 30080 || p.AffinityTimeout != 5 || p.Port != 80 {
			t.Errorf("%+v", p)
		}
	}
	local := b.Snapshot(Service{Name: "web", IP: VIPs(1), Pods: []string{"remote1", "local1"}, Edit: func(p *services.ServicePort) { p.InternalLocal = true }})
	for _, p := range local.Ports {
		if p.ClusterEndpoints != nil || len(p.LocalEndpoints) != 1 {
			t.Errorf("%+v", p)
		}
	}
	gone := b.Next(s)
	if len(gone.Ports) != 0 || len(gone.Changed) != 2 || gone.Full {
		t.Errorf("%+v", gone)
	}
}

func TestParallelBedsAndNothingLeft(t *testing.T) {
	before := spaces(t)
	t.Run("beds", func(t *testing.T) {
		for range 3 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				b := New(t, Pods(1, 1))
				if _, err := b.DialTCP(Client, netip.AddrPortFrom(b.Pod("remote1").V4, TCPPort)); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if after := spaces(t); !slices.Equal(before, after) {
		t.Errorf("descriptors of namespaces before %v, after %v", before, after)
	}
	goleak.VerifyNone(t)
}

// spaces lists the descriptors of namespaces that this process holds.
func spaces(t *testing.T) (found []string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && (strings.HasPrefix(to, "net:") || strings.HasPrefix(to, "mnt:")) {
			found = append(found, to)
		}
	}
	return found
}
