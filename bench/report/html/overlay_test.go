package html

import (
	"bytes"
	"strings"
	"testing"

	"proxylab/bench/events/eventstest"
)

func viewOf(t *testing.T, log []byte) *View {
	t.Helper()
	v, err := ReadFile(written(t, log))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestOverlayHasTheCurvesOfBoth(t *testing.T) {
	base, with := viewOf(t, short()), viewOf(t, bytes.ReplaceAll(short(), []byte("nftables"), []byte("ipvs")))
	groups, err := Overlay(base, with)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 1 || groups[0].Title != "Load web" || len(groups[0].Figures) != 3 {
		t.Fatalf("%+v", groups)
	}
	for _, f := range groups[0].Figures {
		var names []string
		for _, k := range f.Legend {
			names = append(names, k.Name)
			if k.Thin != strings.HasSuffix(k.Name, ", base") {
				t.Errorf("%s: %q is thin: %v", f.Title, k.Name, k.Thin)
			}
		}
		if got := strings.Join(names, "; "); got != "iptables, base; nftables, base; iptables, new; ipvs, new" {
			t.Errorf("%s: the curves are %s", f.Title, got)
		}
		if thin, thick := strings.Count(string(f.Wide), `stroke-width="0.8"`), strings.Count(string(f.Wide), `stroke-width="1.8"`); thin < 2 || thick < 2 {
			t.Errorf("%s: %d thin and %d thick lines:\n%s", f.Title, thin, thick, f.Wide)
		}
	}
}

// TestOverlayOfDifferentRuns: loads that only one of them has are left out, and so are the marks of steps that are not the same.
func TestOverlayOfDifferentRuns(t *testing.T) {
	real := viewOf(t, eventstest.Log(t))
	groups, err := Overlay(viewOf(t, short()), real)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 1 || groups[0].Title != "Load web" {
		t.Errorf("%d groups", len(groups))
	}
	if strings.Contains(string(groups[0].Figures[0].Wide), "stroke-dasharray=\"1,3\"") {
		t.Error("steps are marked")
	}
	if groups, err = Overlay(real, real); err != nil || len(groups) != 4 {
		t.Fatalf("%d groups of one run with itself: %v", len(groups), err)
	}
	if !strings.Contains(string(groups[0].Figures[0].Wide), "stroke-dasharray=\"1,3\"") {
		t.Errorf("no step is marked:\n%s", groups[0].Figures[0].Wide)
	}
	if groups, err = Overlay(viewOf(t, nil), real); err != nil || len(groups) != 0 {
		t.Errorf("%d groups with an empty log: %v", len(groups), err)
	}
}
