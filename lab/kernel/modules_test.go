package kernel

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const someDep = `kernel/net/netfilter/x_tables.ko:
kernel/net/netfilter/xt_nat.ko: kernel/net/netfilter/nf_nat.ko kernel/net/netfilter/nf_conntrack.ko kernel/net/netfilter/x_tables.ko
kernel/net/netfilter/nf_nat.ko: kernel/net/netfilter/nf_conntrack.ko
kernel/net/netfilter/nf_conntrack.ko:
kernel/net/netfilter/ipvs/ip_vs.ko: kernel/net/netfilter/nf_conntrack.ko
kernel/a.ko: kernel/b.ko
kernel/b.ko: kernel/a.ko
`

func TestModulesInOrder(t *testing.T) {
	m, err := readModules("/m", strings.NewReader(someDep))
	if err != nil {
		t.Fatal(err)
	}
	var loaded []string
	m.load = func(file string) error {
		loaded = append(loaded, strings.TrimPrefix(file, "/m/kernel/"))
		switch {
		case strings.HasSuffix(file, "x_tables.ko"):
			return unix.EEXIST // loaded already is fine
		case strings.HasSuffix(file, "ip_vs.ko"):
			return unix.ENOMEM
		}
		return nil
	}
	for _, pattern := range []string{"xt_*", "a", "ip_vs", "ip_vs", "missing"} {
		for _, file := range m.matching(pattern) {
			if err := m.ensure(file); (pattern == "ip_vs") != errors.Is(err, unix.ENOMEM) {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	want := []string{"net/netfilter/nf_conntrack.ko", "net/netfilter/nf_nat.ko", "net/netfilter/x_tables.ko",
		"net/netfilter/xt_nat.ko", "b.ko", "a.ko", "net/netfilter/ipvs/ip_vs.ko"}
	if !slices.Equal(loaded, want) {
		t.Errorf("loaded %v\nwant   %v", loaded, want)
	}
}
