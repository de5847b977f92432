package userspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"proxylab/proxiers/services"
)

// found is what one table of one back end has of this mode.
type found struct {
	tool   tool
	table  string
	chains []string
	jumps  []string // rules of other chains that lead to ours, as iptables-save prints them
}

// Cleanup implements runner.Proxier: it removes the rules and closes what serves them.
func (p *Proxier) Cleanup(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced = false
	err := Cleanup(ctx)
	for key, portal := range p.portals {
		portal.close()
		delete(p.portals, key)
	}
	return err
}

// Cleanup removes the chains of this mode, and the jumps to them, from this network namespace: from both back ends and
// both families, whoever made them, and nothing else. It is safe to repeat.
func Cleanup(ctx context.Context) error {
	all, err := survey(ctx)
	errs := []error{err}
	for _, f := range all {
		errs = append(errs, f.tool.restore(ctx, f.removal()))
	}
	return errors.Join(errs...)
}

// Leftovers says what of this mode is in this network namespace, as "iptables-legacy nat KUBE-PORTALS-HOST".
func Leftovers(ctx context.Context) ([]string, error) {
	all, err := survey(ctx)
	var left []string
	for _, f := range all {
		for _, c := range f.chains {
			left = append(left, f.tool.name+" "+f.table+" "+c)
		}
	}
	return left, err
}

// survey looks through the back ends that are installed.
func survey(ctx context.Context) ([]found, error) {
	var all []found
	var errs []error
	for _, backend := range []string{"legacy", "nft"} {
		for _, family := range []services.Family{services.IPv4, services.IPv6} {
			t, err := newTool(family, backend)
			if err != nil {
				continue // not installed, so it left nothing
			}
			for _, table := range []string{"nat", "filter"} {
				if backend == "legacy" && !legacyTable(family, table) {
					continue
				}
				text, err := t.save(ctx, table)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if f := parse(t, table, text); len(f.chains) > 0 {
					all = append(all, f)
				}
			}
		}
	}
	return all, errors.Join(errs...)
}

// legacyTable says whether the kernel has the table in this namespace already: to list one that it does not have would
// make it.
func legacyTable(f services.Family, table string) bool {
	file := "/proc/thread-self/net/ip_tables_names"
	if f == services.IPv6 {
		file = "/proc/thread-self/net/ip6_tables_names"
	}
	names, err := os.ReadFile(file)
	return err == nil && slices.Contains(strings.Fields(string(names)), table)
}

func parse(t tool, table string, text []byte) found {
	f := found{tool: t, table: table}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, ":"):
			if chain, _, _ := strings.Cut(line[1:], " "); isOurs(chain) {
				f.chains = append(f.chains, chain)
			}
		case strings.HasPrefix(line, "-A "):
			chain, _, _ := strings.Cut(line[3:], " ")
			if target := line[strings.LastIndexByte(line, ' ')+1:]; !isOurs(chain) && isOurs(target) &&
				(strings.HasSuffix(line, " -j "+target) || strings.HasSuffix(line, " -g "+target)) {
				f.jumps = append(f.jumps, line)
			}
		}
	}
	return f
}

// removal is the input of iptables-restore that removes what was found.
func (f found) removal() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%s\n", f.table)
	for _, c := range f.chains {
		fmt.Fprintf(&b, ":%s - [0:0]\n", c)
	}
	for _, j := range f.jumps {
		fmt.Fprintf(&b, "-D%s\n", strings.TrimPrefix(j, "-A"))
	}
	for _, c := range f.chains {
		fmt.Fprintf(&b, "-X %s\n", c)
	}
	b.WriteString("COMMIT\n")
	return b.Bytes()
}
