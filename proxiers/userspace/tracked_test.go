package userspace

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
	"proxylab/proxiers/xtables/fake"
)

type noFlows struct{}

func (noFlows) Sync(context.Context, services.Snapshot) (int, error) { return 0, nil }

// world is a proxier on fake tables. Its ports are real, and nothing leads to them.
type world struct {
	*Proxier
	v4, v6 *fake.Tables
	addrs  []netip.Addr
}

func newWorld(addrs ...netip.Addr) *world {
	w := &world{v4: fake.New(), v6: fake.New(), addrs: addrs}
	w.restart()
	return w
}

// restart is a new process on the same tables.
func (w *world) restart() {
	if w.Proxier != nil {
		_ = w.Close() // it has no error
	}
	w.Proxier = &Proxier{log: slog.New(slog.DiscardHandler), conns: newConnections(), portals: map[services.Key]*portal{},
		flows: noFlows{}, addrs: func() []netip.Addr { return w.addrs }, places: map[services.Family]place{}, told: map[services.Key]bool{},
		tables: []*tables{newTables(services.IPv4, w.v4), newTables(services.IPv6, w.v6)}}
}

func (w *world) text() string { return canonical(w.v4.Text()) + canonical(w.v6.Text()) }

// leads are the local ports that any rule leads to.
func (w *world) leads(t *rapid.T) map[uint16]bool {
	ports := map[uint16]bool{}
	for _, m := range portNumber.FindAllStringSubmatch(w.v4.Text()+w.v6.Text(), -1) {
		n, err := strconv.ParseUint(m[2], 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		ports[uint16(n)] = true
	}
	return ports
}

var portNumber = regexp.MustCompile(`(--to-ports |--to-destination \S+:)(\d+)`)

// canonical is the text of the tables with every local port replaced by what leads to it, because numbers are the
// kernel's choice, and with the rules of different Service ports in the order of these, because their order depends on
// history and decides nothing.
func canonical(text string) string {
	leads := map[string][]string{}
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := portNumber.FindStringSubmatch(line); m != nil {
			line = strings.Replace(line, m[0], m[1]+"PORT", 1)
			leads[m[2]] = append(leads[m[2]], line)
		}
		lines = append(lines, line)
	}
	names := map[string]string{}
	for number, rules := range leads {
		slices.Sort(rules)
		names[number] = strings.Join(rules, "; ")
	}
	order := map[string]string{} // by line
	for i, line := range lines {
		if section(line) != chainNonLocal {
			continue
		}
		for number, name := range names {
			if strings.Contains(line, " --dport "+number+" ") {
				lines[i] = strings.Replace(line, " --dport "+number+" ", " --dport ["+name+"] ", 1)
				order[lines[i]] = name
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int {
		return cmp.Or(cmp.Compare(section(a), section(b)), cmp.Compare(order[a], order[b]), cmp.Compare(service(a), service(b)))
	})
	return strings.Join(lines, "\n") + "\n"
}

var comment = regexp.MustCompile(`--comment (\S+)`)

// section keeps everything but rules of our chains in front, and these by chain.
func section(line string) string {
	fields := strings.Fields(line)
	if len(fields) > 1 && fields[0] == "-A" && isOurs(fields[1]) {
		return fields[1]
	}
	return ""
}

func service(line string) string {
	if section(line) == "" || strings.Contains(line, chainNonLocal) {
		return ""
	}
	match, _, _ := strings.Cut(line, " -m comment")
	return strings.Join(comment.FindStringSubmatch(line), "") + match
}

// Random objects of the API, through the tracker, by increments and with failing restores and crashes in between: the
// rules end up as if they had been written from scratch for what there is then.
func TestTrackedChangesEqualFromScratch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var addrs []netip.Addr
		if rapid.Bool().Draw(t, "the node's address is known") {
			addrs = []netip.Addr{netip.MustParseAddr("10.10.0.11"), netip.MustParseAddr("fd00:10:10::b")}
		}
		w := newWorld(addrs...)
		defer func() { _ = w.Close() }()
		fault := fake.NoFault
		w.v4.Fault = func([]byte) fake.Fault { return fault }
		w.v6.Fault = w.v4.Fault
		api := servicestest.New()
		pass := func(full bool) error { return api.Pass(full, w.Sync) }
		full := true
		for _, events := range servicestest.Rounds(1, 8).Draw(t, "rounds") {
			api.Do(events)
			fault = rapid.SampledFrom([]fake.Fault{0, 0, 0, fake.FailBefore, fake.FailBetween(1), fake.FailAfter}).Draw(t, "fault")
			err := pass(full)
			full = err != nil // as the runner does
			if rapid.IntRange(0, 5).Draw(t, "crash") == 0 {
				before := w.leads(t)
				w.restart()
				if err := w.findStale(context.Background()); err != nil || !maps.Equal(w.stale, before) {
					t.Fatalf("%v: rules lead to %v, known are %v", err, before, w.stale)
				}
				full = true
			} else if err == nil {
				compare(t, w, api.FromScratch())
			}
		}
		fault = fake.NoFault
		if err := pass(full); err != nil {
			t.Fatal(err)
		}
		compare(t, w, api.FromScratch())
	})
}

func compare(t *rapid.T, w *world, want services.Snapshot) {
	fresh := newWorld(w.addrs...)
	defer func() { _ = fresh.Close() }()
	report, err := fresh.Sync(context.Background(), want)
	if err != nil {
		t.Fatal(err)
	}
	if got, scratch := w.text(), fresh.text(); got != scratch {
		t.Fatalf("by increments:\n%s\nfrom scratch:\n%s", got, scratch)
	}
	got := w.objects(want)
	for what, n := range report.Objects {
		if got[what] != n {
			t.Fatalf("objects by increments %v, from scratch %v", got, report.Objects)
		}
	}
}

// The real tools and the real kernel end up with the same rules by increments as from scratch.
func TestKernelByIncrements(t *testing.T) {
	for _, backend := range []string{"legacy", "nft"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := bed.New(t, bed.Pods(0, 0))
			state := func() string {
				var all strings.Builder
				for _, tool := range []string{"iptables-", "ip6tables-"} {
					for _, table := range []string{"nat", "filter"} {
						all.WriteString(bed.WithoutCounters(b.MustExec(bed.Node, tool+backend+"-save", "-t", table)))
					}
				}
				return canonical(all.String())
			}
			bed.Replay{Proxier: backend, Sequences: 3, State: state, Harm: []func(){
				func() { // what is not there cannot be harmed
					_, _ = b.Exec(bed.Node, "*nat\n-F "+chainPortals+"\nCOMMIT\n", "iptables-"+backend+"-restore", "--noflush")
				},
				func() {
					if err := b.HoldXtablesLock(200 * time.Millisecond); err != nil {
						t.Error(err)
					}
				},
			}}.Run(b)
		})
	}
}
