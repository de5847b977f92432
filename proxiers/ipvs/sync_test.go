package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"proxylab/proxiers/ipvs/fake"
	"proxylab/proxiers/ipvs/kernel"
	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// world is a node without a kernel.
type world struct {
	*fake.Kernel
	v4, v6  *fake.Tables
	proxier *Proxier
	clock   time.Time
}

type noFlows struct{}

func (noFlows) Sync(context.Context, services.Snapshot) (int, error) { return 0, nil }

func newWorld() *world {
	w := &world{Kernel: fake.New(), clock: time.Unix(1e9, 0)}
	for _, a := range append([]netip.Addr{netip.MustParseAddr("10.10.0.99")}, servicestest.Facts.Addresses...) {
		w.Local[a] = "eth0"
	}
	if err := w.AddServer(kernel.Server{Key: key("TCP 10.10.0.99:8443"), Scheduler: "wlc"}); err != nil {
		panic(err)
	}
	w.v4, w.v6 = w.Tables(), w.Tables()
	w.restart()
	return w
}

func (w *world) restart() {
	w.proxier = newProxier(w.Kernel.Kernel(), noFlows{}, quiet)
	w.proxier.now = func() time.Time { return w.clock }
	w.proxier.addFamily(services.IPv4, w.v4, true)
	w.proxier.addFamily(services.IPv6, w.v6, true)
}

func (w *world) text(draining bool) string {
	return w.Text(draining) + "\n" + w.v4.Text() + w.v6.Text()
}

func snapshot(ports map[services.Key]*services.ServicePort, changed map[services.Key]struct{}, full bool) services.Snapshot {
	return services.Snapshot{Node: servicestest.Facts, Ports: maps.Clone(ports), Changed: maps.Clone(changed), Full: full}
}

var errInjected = errors.New("injected")

// Whatever happened before, a sync that succeeds leaves what a first sync would have made, but for servers that drain;
// what is not of this mode is untouched, and a clean-up leaves what was there before.
func TestAnySequenceEndsInTheSameState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		before := w.text(true)
		want, changed, full := map[services.Key]*services.ServicePort{}, map[services.Key]struct{}{}, true
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				sp := ports.Port(rapid.IntRange(0, 15).Draw(t, "service")).Draw(t, "port")
				changed[sp.Key] = struct{}{}
				if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
					delete(want, sp.Key)
				} else {
					want[sp.Key] = sp
				}
			}
			switch rapid.IntRange(0, 9).Draw(t, "trouble") {
			case 0:
				w.restart()
				full = true
			case 1:
				full = true
			}
			left := 1000
			if rapid.Bool().Draw(t, "fails") {
				left = rapid.IntRange(0, 30).Draw(t, "after")
			}
			w.Fail = func(string) error {
				if left--; left < 0 {
					return errInjected
				}
				return nil
			}
			_, err := w.proxier.Sync(context.Background(), snapshot(want, changed, full))
			w.Fail = nil
			if full = err != nil; full {
				continue
			}
			changed = map[services.Key]struct{}{}
			compare(t, w, want)
		}
		if _, err := w.proxier.Sync(context.Background(), snapshot(want, changed, true)); err != nil {
			t.Fatal(err)
		}
		compare(t, w, want)
		if err := clean(context.Background(), w.Kernel.Kernel(), func() error { return w.proxier.removeRules(context.Background()) }); err != nil {
			t.Fatal(err)
		}
		if after := w.text(true); after != before {
			t.Fatalf("left behind:\n%s", difference(before, after))
		}
	})
}

func compare(t *rapid.T, w *world, ports map[services.Key]*services.ServicePort) {
	t.Helper()
	scratch := newWorld()
	if _, err := scratch.proxier.Sync(context.Background(), snapshot(ports, nil, true)); err != nil {
		t.Fatal(err)
	}
	if a, b := w.text(false), scratch.text(false); a != b {
		t.Fatalf("not as from scratch (-), but (+):\n%s", difference(b, a))
	}
	if ok, err := w.proxier.Intact(context.Background()); !ok || err != nil {
		t.Fatalf("intact: %v, %v", ok, err)
	}
}

func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out []string
	for _, l := range x {
		if !slices.Contains(y, l) {
			out = append(out, "- "+l)
		}
	}
	for _, l := range y {
		if !slices.Contains(x, l) {
			out = append(out, "+ "+l)
		}
	}
	return strings.Join(out, "\n")
}

func webPort(endpoints ...int) *services.ServicePort {
	sp := &services.ServicePort{Key: services.Key{Namespace: "test", Service: "web", Protocol: corev1.ProtocolTCP, Family: services.IPv4},
		ClusterIP: netip.MustParseAddr("10.96.0.1"), Port: 80, HasAnyEndpoints: len(endpoints) > 0}
	for _, i := range endpoints {
		sp.ClusterEndpoints = append(sp.ClusterEndpoints, servicestest.Endpoint(i, false))
	}
	return sp
}

func (w *world) sync(t *testing.T, full bool, list ...*services.ServicePort) {
	t.Helper()
	ports, changed := map[services.Key]*services.ServicePort{}, map[services.Key]struct{}{}
	for _, sp := range list {
		ports[sp.Key], changed[sp.Key] = sp, struct{}{}
	}
	if _, err := w.proxier.Sync(t.Context(), snapshot(ports, changed, full)); err != nil {
		t.Fatal(err)
	}
}

// A partial pass asks for nothing and writes only what is different.
func TestPartialPassIsSmall(t *testing.T) {
	w := newWorld()
	w.sync(t, true, webPort(1, 4))
	clear(w.Calls)
	w.sync(t, false, webPort(1, 4, 5))
	if want := map[string]int{"add destination": 1}; !maps.Equal(w.Calls, want) {
		t.Errorf("%v, want %v", w.Calls, want)
	}
}

func (w *world) weight(t *testing.T, n int) string {
	t.Helper()
	list, err := w.Destinations(key("TCP 10.96.0.1:80"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if d.Addr == servicestest.Endpoint(n, false).Addr {
			return fmt.Sprint(d.Weight)
		}
	}
	return "gone"
}

func TestDrainingEnds(t *testing.T) {
	w := newWorld()
	expect := func(when string, want string) {
		t.Helper()
		if got := w.weight(t, 4); got != want {
			t.Errorf("%s: %s, not %s", when, got, want)
		}
	}
	look := func() {
		t.Helper()
		if ok, err := w.proxier.Intact(t.Context()); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	}
	connect := func(active, inactive int) {
		t.Helper()
		if err := w.Connect(key("TCP 10.96.0.1:80"), servicestest.Endpoint(4, false).Addr, active, inactive); err != nil {
			t.Fatal(err)
		}
	}
	w.sync(t, true, webPort(1, 4))
	w.sync(t, false, webPort(1))
	expect("idle", "gone")
	w.sync(t, false, webPort(1, 4))
	connect(1, 0)
	w.sync(t, false, webPort(1))
	expect("with a connection", "0")
	w.sync(t, false, webPort(1, 4))
	expect("back", "1")
	w.sync(t, false, webPort(1))
	connect(0, 1)
	look()
	expect("with a connection that closes", "0")
	w.restart()
	w.sync(t, true, webPort(1))
	expect("after a restart", "0")
	w.clock = w.clock.Add(DefaultDrainLimit / 2)
	w.sync(t, true, webPort(1))
	look()
	expect("half the time later", "0")
	w.clock = w.clock.Add(DefaultDrainLimit / 2)
	look()
	expect("after the limit", "gone")
	w.sync(t, false, webPort(1, 4))
	expect("there again", "1")
	if err := w.UpdateDestination(key("TCP 10.96.0.1:80"), servicestest.Endpoint(4, false).Addr, 0); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.sync(t, true, webPort(1, 4))
	expect("after a restart with a weight of 0", "1")
}

// Somebody removes something: Intact says so, and a full pass puts it back.
func TestDamageIsSeen(t *testing.T) {
	for name, harm := range map[string]func(*world) error{
		"server":  func(w *world) error { return w.DeleteServer(key("TCP 10.96.0.1:80")) },
		"address": func(w *world) error { return w.DeleteAddr(Link, netip.MustParseAddr("10.96.0.1")) },
		"link":    func(w *world) error { return w.Remove(Link) },
		"entry": func(w *world) error {
			return w.Kernel.Kernel().Sets.Restore(context.Background(), []byte("del KUBE-CLUSTER-IP 10.96.0.1,tcp:80\n"))
		},
		"rules": func(w *world) error {
			return w.v4.Restore(context.Background(), []byte("*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n"))
		},
		"jump": func(w *world) error {
			return w.v6.Restore(context.Background(), []byte("*filter\n:INPUT - [0:0]\nCOMMIT\n"))
		},
		"node address": func(w *world) error { w.Local[netip.MustParseAddr("10.10.0.12")] = "eth1"; return nil },
	} {
		w := newWorld()
		w.sync(t, true, webPort(1, 4))
		if ok, err := w.proxier.Intact(t.Context()); !ok || err != nil {
			t.Fatalf("%s: %v, %v", name, ok, err)
		}
		before := w.text(true)
		if err := harm(w); err != nil {
			t.Fatal(err)
		}
		if ok, err := w.proxier.Intact(t.Context()); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		w.sync(t, true, webPort(1, 4))
		after := w.text(true)
		if name == "link" { // the note went with it: settings are as they should be by now
			continue
		}
		if after != before {
			t.Errorf("%s: %s", name, difference(before, after))
		}
	}
}

func TestNames(t *testing.T) {
	for f, want := range map[services.Family]string{services.IPv4: "KUBE-LOAD-BALANCER-SOURCE-CIDR", services.IPv6: "KUBE-6-LOAD-BALANCER-SOURCE-CID"} {
		if got := setName(f, setSourceCIDR); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	for release, want := range map[string]bool{"5.8.0-1": true, "5.9": false, "5.10.0": false, "4.19.0-27-amd64": true, "6.1.176": false, "?": false} {
		if got := older(release, 5, 9); got != want {
			t.Errorf("%s: %v", release, got)
		}
	}
	if err := CheckScheduler("xx"); err == nil || !strings.Contains(err.Error(), "rr, wrr, lc, wlc, sh, dh, mh, sed, nq, lblc, lblcr, fo, ovf") {
		t.Errorf("%v", err)
	}
}
