package report

import (
	"fmt"
	"strings"
	"testing"
)

func TestFindingsGolden(t *testing.T) {
	same(t, "run.findings.txt", []byte(findingsText(Fold(fourProxiers(1, 4).seq()))))
	same(t, "repeated.findings.txt", []byte(findingsText(Fold(fourProxiers(3, 2).seq()))))
}

func findingsText(r *Result) string {
	var out strings.Builder
	for _, f := range Findings(r) {
		fmt.Fprintf(&out, "%d %s: %s\n    %s\n", f.Weight, f.Proxier, f.Text, f.Evidence)
	}
	return out.String()
}

func TestNothingFoundInNothing(t *testing.T) {
	if f := Findings(NewFolder().Result()); len(f) != 0 {
		t.Errorf("%v", f)
	}
}

// TestEveryFindingHasItsEvidence, and the weightiest come first.
func TestEveryFindingHasItsEvidence(t *testing.T) {
	last := Broken
	for _, f := range Findings(Fold(fourProxiers(3, 2).seq())) {
		if f.Text == "" || f.Evidence == "" || f.Weight < last {
			t.Errorf("%+v", f)
		}
		last = f.Weight
	}
}

func TestSectionsAreTheTable(t *testing.T) {
	r := Fold(fourProxiers(1, 4).seq())
	proxiers, sections := Sections(r)
	if len(proxiers) != 4 || len(sections) < 4 {
		t.Fatalf("%d proxiers, %d sections", len(proxiers), len(sections))
	}
	table := Table(r, TableOptions{Width: 120})
	for _, s := range sections {
		for _, row := range s.Rows {
			if len(row.Cells) != len(proxiers) {
				t.Errorf("%s, %s: %d cells", s.Title, row.Label, len(row.Cells))
			}
			if first, _, _ := strings.Cut(row.Label, " "); !strings.Contains(table, first) {
				t.Errorf("%q is not in the table", row.Label)
			}
		}
	}
}
