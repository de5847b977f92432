package nftables

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
)

// held is what the kernel has in our tables, one line for each chain, rule and element, sorted, in words that do not depend
// on history: numbers of endpoints that have affinity, and the chains that come with these, are left out.
func (n *node) held() string {
	var out []string
	family, where := "", ""
	for line := range strings.Lines(n.MustExec(bed.Node, "nft", "list", "ruleset")) {
		line = strings.TrimSpace(line)
		if f := strings.Fields(line); len(f) == 4 && f[0] == "table" {
			family, where = f[1]+" "+f[2], ""
		} else if len(f) == 3 && f[2] == "{" {
			where = f[1]
		}
		if strings.Contains(where, "affinity") || affinityChain.MatchString(where) {
			continue
		}
		line = strings.TrimSuffix(strings.TrimPrefix(line, "elements = { "), " }")
		for part := range strings.SplitSeq(line, ", ") {
			part = strings.TrimSuffix(part, ",")
			if strings.HasSuffix(where, "-endpoints") {
				part = numberOf.ReplaceAllString(part, "#$1")
			}
			if part == "" {
				continue // where nft puts an empty line is a matter of order
			}
			out = append(out, family+" "+where+": "+affinityGroup.ReplaceAllString(part, "$1"))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

var (
	affinityChain = regexp.MustCompile(`affinity-\d|remembered-\d|forget-\d|-slot-\d`)
	affinityGroup = regexp.MustCompile(`(affinity-\d+)-\d+`)
	numberOf      = regexp.MustCompile(`\d+( : )`)
)

// The real nft and the real kernel agree: random histories, the same in every run, end with what a new process writes from
// scratch. TestIncrementalEqualsFromScratch tries many more, with failures, against tables in memory.
func TestIncrementalEqualsFromScratchInTheKernel(t *testing.T) {
	n := newNode(t, bed.Pods(0, 0))
	history := rapid.Custom(func(t *rapid.T) (list []services.Snapshot) {
		want := services.Snapshot{Node: servicestest.Facts}
		for i := range 6 {
			want = ports.Change(t, want)
			want.Full = i == 0
			list = append(list, want)
		}
		return list
	})
	for seed := range 12 {
		var want services.Snapshot
		for _, want = range history.Example(seed) {
			if _, err := n.Running.Sync(t.Context(), want); err != nil {
				t.Fatalf("history %d: %v", seed, err)
			}
		}
		got := n.held()
		if err := n.Running.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.Running.Stop()
		n.Start()
		want.Full = true
		if _, err := n.Running.Sync(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if d := difference(got+"\n", n.held()+"\n"); d != "" {
			t.Fatalf("history %d, by increments, and from scratch:\n%s", seed, d)
		}
	}
}
