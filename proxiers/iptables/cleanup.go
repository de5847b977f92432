package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"proxylab/proxiers/services"
)

// ownChains are the names, besides those of single Service ports, that iptables proxiers use: ours and kube-proxy's.
// Others begin with KUBE- too and belong to network policy controllers, kubelets, or the ipvs mode.
var ownChains = map[string]bool{
	chainServices: true, chainExternalServices: true, chainNodePorts: true, chainPostrouting: true, chainMarkMasq: true,
	chainForward: true, chainProxyFirewall: true, chainCanary: true, chainKubeletFirewall: true, chainLocalnetNote: true,
}

// Cleanup implements runner.Proxier: see the function Cleanup.
func (p *Proxier) Cleanup(ctx context.Context) error {
	for _, f := range p.families {
		f.mirror = mirror{}
	}
	p.loopback, p.watch.trusted = false, false
	return Cleanup(ctx, p.log)
}

// Cleanup removes every chain and jump of iptables proxiers, ours and kube-proxy's, from both back ends and both
// families, and route_localnet where ours switched it on. Nothing else is touched: a chain of ours that a foreign chain
// jumps to stays, and KUBE-FIREWALL stays where there is a kubelet. Back ends without tools are passed over.
func Cleanup(ctx context.Context, log *slog.Logger) error {
	return eachTool(func(name string, t tool) error {
		return cleanTool(ctx, name, t, sysctls{"/proc/sys"}, log)
	})
}

// Leftovers lists the chains that Cleanup would remove, as "iptables-legacy nat KUBE-SERVICES".
func Leftovers(ctx context.Context) ([]string, error) {
	var left []string
	err := eachTool(func(name string, t tool) error {
		ts, err := survey(ctx, t)
		for _, table := range slices.Sorted(maps.Keys(ts)) {
			for _, chain := range ts[table].doomed() {
				left = append(left, name+" "+table+" "+chain)
			}
		}
		return err
	})
	return left, err
}

func eachTool(f func(name string, t tool) error) error {
	var errs []error
	for _, backend := range backends {
		for _, fam := range []services.Family{services.IPv4, services.IPv6} {
			p, err := newPrograms(fam, backend)
			if err != nil {
				continue
			}
			if err := f(command(fam, backend, ""), p); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", command(fam, backend, ""), err))
			}
		}
	}
	return errors.Join(errs...)
}

// found is what a table has that concerns the clean-up.
type found struct {
	ours    []string        // our chains
	foreign map[string]bool // names of other user chains
	jumps   []string        // rules of the kernel's chains that lead to ours, as printed
	held    map[string]bool // chains of ours that foreign chains jump to
	kubelet bool
}

// doomed are the chains to delete.
func (f *found) doomed() []string {
	var names []string
	for _, name := range f.ours {
		if !f.held[name] && (name != chainKubeletFirewall || !f.kubelet) {
			names = append(names, name)
		}
	}
	return names
}

// survey reads all tables that exist.
func survey(ctx context.Context, t tool) (map[string]*found, error) {
	tables := map[string]*found{}
	var at *found
	err := t.Save(ctx, "", func(line []byte) bool {
		switch {
		case bytes.HasPrefix(line, []byte("*")):
			at = &found{foreign: map[string]bool{}, held: map[string]bool{}}
			tables[string(line[1:])] = at
		case at != nil && bytes.HasPrefix(line, []byte(":")):
			at.chain(string(line[1:]))
		case at != nil && bytes.HasPrefix(line, []byte("-A ")):
			at.rule(line)
		}
		return true
	})
	kubelet := false
	for _, f := range tables {
		kubelet = kubelet || f.kubelet
	}
	for _, f := range tables {
		f.kubelet = kubelet
	}
	return tables, err
}

func (f *found) chain(decl string) {
	name, rest, _ := strings.Cut(decl, " ")
	switch {
	case isOurs(name):
		f.ours = append(f.ours, name)
	case strings.HasPrefix(rest, "-"):
		f.foreign[name] = true
		f.kubelet = f.kubelet || slices.Contains(kubeletHints, name)
	}
}

func isOurs(name string) bool { return ownChains[name] || isPortChain(name) }

// rule looks at a rule of a chain that is not ours.
func (f *found) rule(line []byte) {
	name, _, _ := bytes.Cut(line[len("-A "):], []byte(" "))
	if isOurs(string(name)) {
		return
	}
	target := jumpTarget(line)
	if !isOurs(target) {
		return
	}
	if f.foreign[string(name)] {
		f.held[target] = true
	} else {
		f.jumps = append(f.jumps, string(line))
	}
}

// jumpTarget finds the chain after -j or -g; quoted comments may contain anything.
func jumpTarget(line []byte) string {
	_, after, ok := bytes.Cut(unquoted(line), []byte(" -j "))
	if !ok {
		_, after, ok = bytes.Cut(unquoted(line), []byte(" -g "))
	}
	if !ok {
		return ""
	}
	name, _, _ := bytes.Cut(after, []byte(" "))
	return string(name)
}

// unquoted is the line without what is in quotes.
func unquoted(line []byte) []byte {
	if bytes.IndexByte(line, '"') < 0 {
		return line
	}
	var out []byte
	in := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && in:
			i++
		case line[i] == '"':
			in = !in
		case !in:
			out = append(out, line[i])
		}
	}
	return out
}

// cleanTool removes what is ours from one back end and family, a restore for each table, so that what stands in the
// way in one does not keep the others.
func cleanTool(ctx context.Context, name string, t tool, sys sysctls, log *slog.Logger) error {
	tables, err := survey(ctx, t)
	if err != nil {
		return err
	}
	var errs []error
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		f := tables[table]
		for _, chain := range slices.Sorted(maps.Keys(f.held)) {
			log.Warn("a chain stays because a foreign chain jumps to it", "tool", name, "table", table, "chain", chain)
		}
		if input := f.removal(table); input != nil {
			errs = append(errs, t.Restore(ctx, input))
		}
		if slices.Contains(f.ours, chainLocalnetNote) {
			errs = append(errs, sys.set(sysctlRouteLocalnet, "0"))
		}
	}
	return errors.Join(errs...)
}

// removal is the restore that removes what is ours from a table; nil if there is nothing.
func (f *found) removal(table string) []byte {
	doomed := f.doomed()
	if len(doomed) == 0 {
		return nil
	}
	var b bytes.Buffer
	line(&b, "*", table)
	for _, chain := range doomed {
		line(&b, ":", chain, " - [0:0]")
	}
	for _, j := range f.jumps {
		if slices.Contains(doomed, jumpTarget([]byte(j))) {
			line(&b, "-D", strings.TrimPrefix(j, "-A"))
		}
	}
	for _, chain := range doomed {
		line(&b, "-X ", chain)
	}
	line(&b, "COMMIT")
	return b.Bytes()
}
