package nftables

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

// held is what the kernel has in our tables, one line for each chain, rule and element, sorted, in words that do not depend
// on history: numbers of endpoints that have affinity, and the chains that come with these, are left out.
func (n *node) held() string {
	var out []string
	for _, family := range []string{"ip", "ip6"} {
		where := ""
		for line := range strings.Lines(n.MustExec(bed.Node, "nft", "list", "table", family, Table)) {
			line = strings.TrimSpace(line)
			if f := strings.Fields(line); len(f) == 3 && f[2] == "{" {
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
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

var (
	affinityChain = regexp.MustCompile(`affinity-\d|remembered-\d|forget-\d|-slot-\d`)
	affinityGroup = regexp.MustCompile(`(affinity-\d+)-\d+`)
	numberOf      = regexp.MustCompile(`\d+( : )`)
)

// The real nft and the real kernel agree: random histories end with what a new process writes from scratch.
func TestIncrementalEqualsFromScratchInTheKernel(t *testing.T) {
	n := newNode(t, bed.Pods(0, 0))
	rapid.Check(t, func(rt *rapid.T) {
		want := services.Snapshot{Node: testNode, Full: true}
		for i := range 6 {
			want = genChange(rt, want)
			want.Full = i == 0
			if _, err := n.proxier.Sync(t.Context(), want); err != nil {
				rt.Fatal(err)
			}
		}
		got := n.held()
		if err := n.proxier.Cleanup(t.Context()); err != nil {
			rt.Fatal(err)
		}
		n.proxier.Stop()
		n.start()
		want.Full = true
		if _, err := n.proxier.Sync(t.Context(), want); err != nil {
			rt.Fatal(err)
		}
		if d := difference(got+"\n", n.held()+"\n"); d != "" {
			rt.Fatalf("by increments, and from scratch:\n%s", d)
		}
	})
}
