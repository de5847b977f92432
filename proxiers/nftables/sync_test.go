package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/knftables"

	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
)

type noFlows struct{}

func (noFlows) Sync(context.Context, services.Snapshot) (int, error) { return 0, nil }

type fault int

const (
	none       fault = iota
	failBefore       // the kernel refuses
	failAfter        // nft is stopped after it handed the transaction over
)

// faulty is knftables' fake with faults, and the kernel as far as this proxier asks it directly.
type faulty struct {
	*knftables.Fake
	next  func() fault
	runs  []string
	count *uint32 // transactions, of all families
}

func (f *faulty) Run(ctx context.Context, tx *knftables.Transaction) error {
	kind := none
	if f.next != nil {
		kind = f.next()
	}
	if kind == failBefore {
		return errors.New("injected: refused")
	}
	if err := f.Fake.Run(ctx, tx); err != nil {
		return err
	}
	f.runs = append(f.runs, tx.String())
	*f.count++
	if kind == failAfter {
		return errors.New("injected: killed")
	}
	return nil
}

// world is a proxier on fake tables.
type world struct {
	*Proxier
	v4, v6 *faulty
	count  uint32
}

func newWorld() *world {
	w := &world{}
	w.v4 = &faulty{Fake: knftables.NewFake(knftables.IPv4Family, Table), count: &w.count}
	w.v6 = &faulty{Fake: knftables.NewFake(knftables.IPv6Family, Table), count: &w.count}
	w.restart()
	return w
}

// restart is a new process on the same tables.
func (w *world) restart() {
	w.Proxier = &Proxier{kernel: w, log: slog.New(slog.DiscardHandler), flows: noFlows{}}
	w.addFamily(services.IPv4, w.v4)
	w.addFamily(services.IPv6, w.v6)
}

func (w *world) table(v6 bool) *knftables.FakeTable {
	if v6 {
		return w.v6.Table
	}
	return w.v4.Table
}

func (w *world) generation() (uint32, error) { return w.count, nil }

func (w *world) chains(v6 bool) (names []string, err error) {
	if t := w.table(v6); t != nil {
		for name := range t.Chains {
			names = append(names, name)
		}
	}
	return names, nil
}

func (w *world) rules(v6 bool) (map[string]int, error) {
	n := map[string]int{}
	if t := w.table(v6); t != nil {
		for name, c := range t.Chains {
			n[name] = len(c.Rules)
		}
	}
	return n, nil
}

func (w *world) dump() string { return canonical(w.v4.Dump()) + canonical(w.v6.Dump()) }

// canonical sorts the text, and takes out what depends on history: which number an endpoint has. It complains, in the text,
// where numbers have gaps that they must not have.
func canonical(dump string) string {
	var out []string
	numbers := map[string][]int{}
	sticky := map[string]bool{} // destinations whose endpoints have gaps
	for line := range strings.Lines(dump) {
		if f := strings.Fields(line); len(f) > 4 && f[1] == "element" && strings.HasSuffix(f[4], "affinity-slots") {
			sticky[strings.TrimSuffix(f[4], "affinity-slots")+strings.Join([]string{f[6], f[8], f[10]}, " ")] = true
		}
	}
	for line := range strings.Lines(dump) {
		f := strings.Fields(line)
		if len(f) > 4 && f[1] == "element" && numberedStore(f[4]) {
			at := slices.Index(f, ":") - 1
			n, _ := strconv.Atoi(f[at])
			f[at] = "#"
			dest := f[4] + " " + strings.Join(f[6:at-1], " ")
			numbers[dest] = append(numbers[dest], n)
			if strings.Contains(f[at+3], "slot-") { // goto slot-3-60s
				f[at+3] = strings.Join(slices.DeleteFunc(strings.Split(f[at+3], "-"), isNumber), "-")
			}
			line = strings.Join(f, " ") + "\n"
		}
		// What chains there are for a service with affinity depends on how many numbers it has used.
		if strings.Contains(line, "affinity-") || strings.Contains(line, "remembered-") || strings.Contains(line, "forget-") || strings.Contains(line, "-slot-") {
			if len(f) > 1 && (f[1] == "chain" || f[1] == "rule") {
				continue
			}
			if i := strings.LastIndex(line, "affinity-"); i > 0 && len(f) > 4 && strings.HasSuffix(f[4], "service-ips") {
				line = line[:strings.LastIndex(line, "-")] + "-m }\n"
			}
		}
		out = append(out, line)
	}
	for dest, list := range numbers {
		slices.Sort(list)
		store, addr, _ := strings.Cut(dest, " ")
		local := strings.HasPrefix(store, "local-")
		if strings.HasSuffix(store, "-endpoints") {
			protocol := strings.TrimSuffix(strings.TrimPrefix(store, "local-"), "-endpoints")
			f := strings.Fields(addr)
			key := f[0] + " " + protocol + " " + f[2]
			if local {
				key = "local-" + key
			}
			if sticky[key] {
				continue
			}
		} else if strings.HasSuffix(store, "affinity-slots") {
			continue
		}
		for i, n := range list {
			if i != n {
				out = append(out, fmt.Sprintf("GAP in %s: %v\n", dest, list))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

func isNumber(s string) bool { _, err := strconv.Atoi(s); return err == nil }

func numberedStore(name string) bool {
	return strings.HasSuffix(name, "-endpoints") || strings.HasSuffix(name, "affinity-slots") || strings.HasSuffix(name, "affinity-picks")
}

// Whatever the history, failed transactions among it, the tables end up as if they had been written from scratch.
func TestIncrementalEqualsFromScratch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.v4.next = func() fault {
			return rapid.SampledFrom([]fault{none, none, none, failBefore, failAfter}).Draw(t, "fault")
		}
		w.v6.next = w.v4.next
		want := services.Snapshot{Node: servicestest.Facts, Full: true}
		unsynced := map[services.Key]struct{}{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			full := want.Full || rapid.IntRange(0, 4).Draw(t, "full") == 0
			want = ports.Change(t, want)
			want.Full = full
			for k := range unsynced {
				want.Changed[k] = struct{}{}
			}
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0:
				w.restart()
				want.Full = true
			case 1:
				w.count++ // somebody else's transaction
			case 2:
				tx := w.v4.NewTransaction()
				tx.Add(&knftables.Table{})
				tx.Add(&knftables.Chain{Name: "stray"})
				_ = w.v4.Fake.Run(context.Background(), tx)
				w.count++
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
				if !contains(err, "injected") {
					t.Fatal(err)
				}
			} else {
				want.Full = false
				compare(t, w, want)
			}
		}
		w.v4.next, w.v6.next, want.Full, want.Changed = nil, nil, true, unsynced
		if _, err := w.Sync(context.Background(), want); err != nil {
			t.Fatal(err)
		}
		compare(t, w, want)
	})
}

func compare(t *rapid.T, w *world, want services.Snapshot) {
	fresh := newWorld()
	want.Full = true
	report, err := fresh.Sync(context.Background(), want)
	if err != nil {
		t.Fatal(err)
	}
	if got, scratch := w.dump(), fresh.dump(); got != scratch || strings.Contains(got, "GAP") {
		t.Fatalf("by increments:\n%s\nfrom scratch:\n%s\ndifference:\n%s", got, scratch, difference(got, scratch))
	}
	for _, f := range w.families {
		if d := f.intact(); d != "" {
			t.Fatalf("mirror of %s: %s", f.name, d)
		}
	}
	got := map[string]int{}
	for _, f := range w.families {
		f.mirror.objects(got)
	}
	for _, what := range []string{"elements", "services", "destinations"} {
		if got[what] != report.Objects[what] {
			t.Fatalf("objects by increments %v, from scratch %v", got, report.Objects)
		}
	}
}

func difference(a, b string) string {
	x, y := slices.Collect(strings.Lines(a)), slices.Collect(strings.Lines(b))
	var out strings.Builder
	for _, l := range x {
		if !slices.Contains(y, l) {
			out.WriteString("- " + l)
		}
	}
	for _, l := range y {
		if !slices.Contains(x, l) {
			out.WriteString("+ " + l)
		}
	}
	return out.String()
}

func mustSync(t *testing.T, w *world, want services.Snapshot) {
	t.Helper()
	if _, err := w.Sync(context.Background(), want); err != nil {
		t.Fatal(err)
	}
}

// One endpoint replaced is two commands; one more is a handful. Nothing is listed and no chain is made that is there.
func TestPartialSyncWritesOnlyTheDifference(t *testing.T) {
	w := newWorld()
	want := servicestest.Many(30, 4)
	mustSync(t, w, want)
	next := servicestest.ReplaceEndpoint(want, 3)
	mustSync(t, w, next)
	last := w.v4.runs[len(w.v4.runs)-1]
	if n := strings.Count(last, "\n"); n != 2 {
		t.Errorf("%d commands:\n%s", n, last)
	}
	sp := *next.Ports[servicestest.ManyKey(3)]
	sp.ClusterEndpoints = append(slices.Clone(sp.ClusterEndpoints), servicestest.ManyEndpoint(999))
	next.Ports[sp.Key] = &sp
	mustSync(t, w, next)
	last = w.v4.runs[len(w.v4.runs)-1]
	if n := strings.Count(last, "\n"); n > 6 || !strings.Contains(last, "tcp-endpoints-5") {
		t.Errorf("%d commands:\n%s", n, last)
	}
	runs := len(w.v4.runs) + len(w.v6.runs)
	mustSync(t, w, services.Snapshot{Node: next.Node, Ports: next.Ports, Changed: next.Changed})
	mustSync(t, w, services.Snapshot{Node: next.Node, Ports: next.Ports, Full: true})
	if n := len(w.v4.runs) + len(w.v6.runs) - runs; n != 0 {
		t.Errorf("syncs that change nothing made %d transactions", n)
	}
}

// The rules are as many for 100 Services as for 4.
func TestRulesDoNotGrow(t *testing.T) {
	count := func(n int) (rules, chains int) {
		w := newWorld()
		r, err := w.Sync(t.Context(), servicestest.Many(n, 4))
		if err != nil {
			t.Fatal(err)
		}
		return r.Objects["rules"], r.Objects["chains"]
	}
	rules, chains := count(4)
	if r, c := count(100); r != rules || c != chains {
		t.Errorf("%d rules and %d chains for 4 Services, %d and %d for 100", rules, chains, r, c)
	}
}

func TestGroup(t *testing.T) {
	in := "add table ip t\nadd element ip t m { a . 1 : goto x }\nadd element ip t m { b . 1 : goto y }\nadd element ip t s { c }\n" +
		"delete element ip t m { a . 1 }\nadd element ip t m { d . 1 : drop }\n"
	want := "add table ip t\nadd element ip t m { a . 1 : goto x, b . 1 : goto y }\nadd element ip t s { c }\n" +
		"delete element ip t m { a . 1 }\nadd element ip t m { d . 1 : drop }\n"
	if got := groupText(in); got != want {
		t.Errorf("%s", got)
	}
	long := strings.Repeat("add element ip t s { c }\n", groupMax+1)
	if got := groupText(long); strings.Count(got, "\n") != 2 || strings.Count(got, "c") != groupMax+1 {
		t.Errorf("%s", got)
	}
}
