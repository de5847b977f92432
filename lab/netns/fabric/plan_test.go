package fabric

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var label = rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?`)

// validLab draws names that ValidName takes.
func validLab(t *rapid.T) string {
	return label.Filter(func(s string) bool { return ValidName(s) == nil }).Draw(t, "lab")
}

// A namespace's name tells whose it is, whatever labs, nodes and pods are called.
func TestNamesTellTheirOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lab := validLab(t)
		p := Plan{Lab: lab, Count: 3}
		paths := map[string]bool{Path(lab): false}
		for _, n := range p.Nodes() {
			paths[NodePath(lab, n.Name)] = false
		}
		pod := rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?`).Draw(t, "pod")
		paths[PodPath(lab, label.Draw(t, "namespace"), pod)] = true
		for path, isPod := range paths {
			if got, gotPod := owner(filepath.Base(path)); got != lab || gotPod != isPod {
				t.Fatalf("%s belongs to %q (pod: %v), it was made for %q", path, got, gotPod, lab)
			}
			if len(filepath.Base(path)) > 255 {
				t.Fatalf("%s is too long", path)
			}
		}
	})
}

func TestPodsHaveDifferentNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z]{1,3}(-[a-z]{1,3}){1,4}`).Draw(t, "text")
		seen := map[string]bool{}
		for i := range text {
			if text[i] == '-' {
				path := PodPath("x", text[:i], text[i+1:])
				if seen[path] {
					t.Fatalf("two pods have %s", path)
				}
				seen[path] = true
			}
		}
		long := strings.Repeat("y", 200)
		if PodPath("x", "a", long+"1") == PodPath("x", "a", long+"2") {
			t.Fatal("two long names are one")
		}
	})
}

func TestWhatIsNotOurs(t *testing.T) {
	for _, name := range []string{"", "x", "proxylab", "proxylab-", "proxylab-x", "proxylab-ipt-nft", "proxylab-x-node", "proxylab-x-node0", "proxylab--fabric", "cni-1"} {
		if lab, _ := owner(name); lab != "" {
			t.Errorf("%q belongs to lab %q", name, lab)
		}
	}
	if err := removeNamed("/run/netns/cni-1"); err == nil {
		t.Error("would remove another program's namespace")
	}
}

func TestPlanHasNoAddressTwice(t *testing.T) {
	p := Plan{Lab: "x", Count: MaxNodes}
	seen := map[string]string{Fabric4.Addr().String(): "fabric", Fabric6.Addr().String(): "fabric"}
	take := func(who string, addrs ...interface{ String() string }) {
		for _, a := range addrs {
			if other := seen[a.String()]; other != "" {
				t.Errorf("%s and %s both have %s", other, who, a)
			}
			seen[a.String()] = who
		}
	}
	for _, n := range p.Nodes() {
		take(n.Name, n.Addr4.Addr(), n.Addr6.Addr(), n.Pods4, n.Pods6)
		if !Fabric4.Masked().Contains(n.Addr4.Addr()) || !Fabric6.Masked().Contains(n.Addr6.Addr()) {
			t.Errorf("%s is outside the fabric", n.Name)
		}
		for number := 2; number <= 254; number++ {
			a := n.Pod(number)
			if !n.Pods4.Contains(a.V4) || !n.Pods6.Contains(a.V6) || n.Number(a) != number {
				t.Fatalf("%s: pod %d is %v", n.Name, number, a)
			}
		}
	}
	n := p.Nodes()[11]
	if got := strings.Join([]string{n.Addr4.String(), n.Addr6.String(), n.Pods4.String(), n.Pods6.String()}, " "); got != "10.10.0.22/24 fd00:10:10::16/64 10.244.12.0/24 fd00:10:244:12::/64" {
		t.Errorf("node12 has %s", got)
	}
	if _, err := p.Node("node201"); err == nil {
		t.Error("found a node that is not there")
	}
}
