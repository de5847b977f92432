package iptables

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
	"proxylab/proxiers/xtables/fake"
)

type noFlows struct{ calls int }

func (f *noFlows) Sync(context.Context, services.Snapshot) (int, error) { f.calls++; return 0, nil }

// world is a proxier on fake tables.
type world struct {
	*Proxier
	v4, v6 *fake.Tables
	flows  *noFlows
	now    time.Time
	root   string
	chunk  int
}

type tb interface {
	Helper()
	Fatal(...any)
}

func newWorld(t tb, root string, threshold int) *world {
	t.Helper()
	w := &world{v4: fake.New(), v6: fake.New(), flows: &noFlows{}, now: time.Unix(1e9, 0), root: root}
	for _, name := range []string{sysctlRouteLocalnet, sysctlTCPLiberal} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.restart(threshold)
	return w
}

// restart is a new process on the same tables.
func (w *world) restart(threshold int) {
	w.Proxier = &Proxier{backend: "legacy", log: slog.New(slog.DiscardHandler), sys: sysctls{w.root}, flows: w.flows}
	for f, tables := range map[services.Family]*fake.Tables{services.IPv4: w.v4, services.IPv6: w.v6} {
		fam := w.addFamily(f, tables, true)
		fam.threshold, fam.batch.chunk = threshold, w.chunk
		fam.now = func() time.Time { return w.now }
	}
}

func (w *world) text() string { return canonical(w.v4.Text()) + canonical(w.v6.Text()) }

// canonical is tables' text with the rules of the shared chains sorted, because their order depends on history. The
// last rule of nat KUBE-SERVICES keeps its place.
func canonical(text string) string {
	var out, run []string
	flush := func() {
		slices.Sort(run)
		out, run = append(out, run...), run[:0]
	}
	for line := range strings.Lines(text) {
		shared := false
		for _, name := range sharedNames {
			shared = shared || strings.HasPrefix(line, "-A "+name+" ")
		}
		if shared && !strings.Contains(line, "must be the last") {
			run = append(run, line)
			continue
		}
		flush()
		out = append(out, line)
	}
	flush()
	return strings.Join(out, "")
}

// Whatever the history, failed restores among it, the tables end up as if they had been written from scratch.
func TestIncrementalEqualsFromScratch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.SampledFrom([]int{0, 6, 1000}).Draw(t, "threshold")
		w := newWorld(t, root, threshold)
		w.chunk = rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "chunk")
		w.restart(threshold)
		fault := fake.NoFault
		w.v4.Fault = func([]byte) fake.Fault { return fault }
		w.v6.Fault = w.v4.Fault
		want := services.Snapshot{Node: servicestest.Facts, Full: true}
		unsynced := map[services.Key]struct{}{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			full := want.Full || rapid.IntRange(0, 4).Draw(t, "full") == 0
			want = ports.Change(t, want)
			want.Full = full
			for k := range unsynced {
				want.Changed[k] = struct{}{}
			}
			fault = rapid.SampledFrom([]fake.Fault{0, 0, 0, fake.FailBefore, fake.FailBetween(1), fake.FailBetween(3), fake.FailAfter}).Draw(t, "fault")
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				w.restart(threshold)
				want.Full = true
			}
			_, err := w.Sync(context.Background(), want)
			clear(unsynced)
			if err != nil {
				// As the runner does: everything that changed is kept, and the next pass is a full one.
				for k := range want.Changed {
					unsynced[k] = struct{}{}
				}
				want.Full = true
			} else {
				want.Full = false
				compare(t, w, want, threshold)
			}
		}
		fault, want.Full, want.Changed = fake.NoFault, true, unsynced
		if _, err := w.Sync(context.Background(), want); err != nil {
			t.Fatal(err)
		}
		compare(t, w, want, threshold)
	})
}

func compare(t *rapid.T, w *world, want services.Snapshot, threshold int) {
	fresh := newWorld(t, w.root, threshold)
	// route_localnet is shared by both worlds: whoever comes second finds it switched on.
	want.Full = true
	report, err := fresh.Sync(context.Background(), want)
	if err != nil {
		t.Fatal(err)
	}
	drop := func(s string) string { return strings.ReplaceAll(s, ":"+chainLocalnetNote+" - [0:0]\n", "") }
	if got, scratch := drop(w.text()), drop(fresh.text()); got != scratch {
		t.Fatalf("by increments:\n%s\nfrom scratch:\n%s", got, scratch)
	}
	for _, f := range w.families {
		if d, err := f.verify(context.Background()); d != "" || err != nil {
			t.Fatalf("mirror of %s: %s %v", f.name, d, err)
		}
	}
	if got, _ := w.Sync(context.Background(), services.Snapshot{Node: want.Node, Ports: want.Ports}); got.Objects["rules"] !=
		report.Objects["rules"] || got.Objects["chains"] != report.Objects["chains"] {
		t.Fatalf("objects by increments %v, from scratch %v", got.Objects, report.Objects)
	}
}

func mustSync(t *testing.T, w *world, want services.Snapshot) {
	t.Helper()
	if _, err := w.Sync(context.Background(), want); err != nil {
		t.Fatal(err)
	}
}

// One endpoint of one among 10,000 Services is a handful of lines, without listing anything and without touching the
// filter table, in both layouts.
func TestPartialSyncWritesOnlyTheDifference(t *testing.T) {
	t.Parallel()
	for threshold, count := range map[int]int{LargeThreshold: 10_000, 1 << 30: 1000} {
		w := newWorld(t, t.TempDir(), threshold)
		want := servicestest.Many(count, 4)
		mustSync(t, w, want)
		restores, saves := len(w.v4.Inputs()), w.v4.Saves()
		next := servicestest.ReplaceEndpoint(want, 3)
		mustSync(t, w, next)
		inputs := w.v4.Inputs()[restores:]
		if len(inputs) != 1 {
			t.Fatalf("%d restores, want 1", len(inputs))
		}
		if n := strings.Count(inputs[0], "\n"); n > 15 || strings.Contains(inputs[0], "*filter") {
			t.Fatalf("%d lines:\n%s", n, inputs[0])
		}
		mustSync(t, w, services.Snapshot{Node: next.Node, Ports: next.Ports, Changed: next.Changed})
		if n := len(w.v4.Inputs()); n != restores+1 {
			t.Errorf("a sync that changes nothing made %d restores", n-restores-1)
		}
		if n := w.v4.Saves(); n != saves {
			t.Errorf("%d tables were listed", n-saves)
		}
	}
}

func TestAddedServiceIsInsertedBeforeTheTail(t *testing.T) {
	w := newWorld(t, t.TempDir(), 1000)
	want := servicestest.Many(100, 2)
	mustSync(t, w, want)
	next := servicestest.Many(101, 2)
	next.Full = false
	for k := range next.Ports {
		if want.Ports[k] == nil {
			next.Changed[k] = struct{}{}
		}
	}
	mustSync(t, w, next)
	inputs := w.v4.Inputs()
	if last := inputs[len(inputs)-1]; strings.Count(last, "\n") > 20 || !strings.Contains(last, "-I "+chainServices) {
		t.Errorf("%s", last)
	}
	rules, _ := w.v4.Rules(tableNat, chainServices)
	if len(rules) != 102 || !strings.Contains(rules[101], "must be the last") {
		t.Errorf("%d rules, the last is %q", len(rules), rules[len(rules)-1])
	}
}

// A periodic full pass finds nothing wrong and writes nothing; after somebody's flush it writes everything.
func TestFullPassRepairs(t *testing.T) {
	ctx := context.Background()
	for what, harm := range map[string]string{
		"table flushed":      "*nat\n-F KUBE-SERVICES\n-F KUBE-NODEPORTS\nCOMMIT\n",
		"one rule missing":   "*nat\n-F KUBE-POSTROUTING\nCOMMIT\n",
		"canary missing":     "*filter\n-X KUBE-PROXY-CANARY\nCOMMIT\n",
		"a rule too many":    "*filter\n-A KUBE-FORWARD -j DROP\nCOMMIT\n",
		"jump missing":       "*nat\n-F OUTPUT\nCOMMIT\n",
		"filter jump gone":   "*filter\n-F FORWARD\nCOMMIT\n",
		"stale chain came":   "*nat\n:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\nCOMMIT\n",
		"the hour is over":   "",
		"nothing at all":     "#",
		"a kubelet's rule":   "*filter\n-A KUBE-FIREWALL -j ACCEPT\nCOMMIT\n",
		"foreign rule added": "*nat\n:OTHER - [0:0]\n-I PREROUTING -j OTHER\nCOMMIT\n",
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, t.TempDir(), 1000)
			want := servicestest.Many(20, 2)
			mustSync(t, w, want)
			before := w.text()
			if harm == "" {
				w.now = w.now.Add(rewriteEvery)
			} else if err := w.v4.Restore(ctx, []byte(harm)); err != nil {
				t.Fatal(err)
			}
			harmless := slices.Contains([]string{"#"}, harm) || strings.Contains(what, "kubelet") || strings.Contains(what, "foreign")
			report, err := w.Sync(ctx, want)
			if err != nil {
				t.Fatal(err)
			}
			if report.Full == harmless {
				t.Errorf("written whole: %v", report.Full)
			}
			if !harmless && w.text() != before {
				t.Errorf("not repaired:\n%s", w.text())
			}
		})
	}
}

func TestStaleChainsOfAnEarlierProcessGo(t *testing.T) {
	w := newWorld(t, t.TempDir(), 1000)
	mustSync(t, w, servicestest.Many(20, 2))
	w.restart(1000)
	mustSync(t, w, servicestest.Many(3, 2))
	fresh := newWorld(t, t.TempDir(), 1000)
	mustSync(t, fresh, servicestest.Many(3, 2))
	if w.text() != fresh.text() {
		t.Errorf("left over:\n%s", w.text())
	}
}

func TestLoopbackNodePorts(t *testing.T) {
	w := newWorld(t, t.TempDir(), 1000)
	want := servicestest.Many(2, 1)
	mustSync(t, w, want)
	if w.sys.on(sysctlRouteLocalnet) {
		t.Error("route_localnet is on without a node port")
	}
	for k, sp := range want.Ports {
		changed := *sp
		changed.NodePort = 30080
		want.Ports[k], want.Changed[k], want.Full = &changed, struct{}{}, false
		break
	}
	mustSync(t, w, want)
	if !w.sys.on(sysctlRouteLocalnet) {
		t.Error("route_localnet is off with a node port")
	}
	if err := cleanTool(context.Background(), "fake", w.v4, w.sys, w.log); err != nil {
		t.Fatal(err)
	}
	if w.sys.on(sysctlRouteLocalnet) {
		t.Error("route_localnet is on after the clean-up")
	}
}
