package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"proxylab/proxiers/services"
)

// Back ends of iptables: the same rules, kept by different parts of the kernel that do not see one another.
const (
	BackendLegacy = "legacy"
	BackendNFT    = "nft"
	BackendAuto   = "auto"
)

var backends = []string{BackendNFT, BackendLegacy}

// evidence is what speaks for a back end: the rules that are in it.
type evidence struct {
	kubelet bool // a kubelet left its mark there
	ours    bool // chains of an iptables proxier
	rules   int
}

// DetectBackend finds the back end that a node uses: the one that a kubelet marked; the one with a Service proxy's
// chains; the one with more rules; the one that "iptables" itself stands for. The reason is for people. The error says
// that there are no tools at all.
func DetectBackend(ctx context.Context) (backend, reason string, err error) {
	found := map[string]evidence{}
	for _, b := range backends {
		if p, err := newPrograms(services.IPv4, b); err == nil {
			// A back end that cannot be listed has no rules that count.
			found[b], _ = gather(ctx, p)
		}
		if p, err := newPrograms(services.IPv6, b); err == nil {
			six, _ := gather(ctx, p)
			four := found[b]
			found[b] = evidence{four.kubelet || six.kubelet, four.ours || six.ours, four.rules + six.rules}
		}
	}
	if len(found) == 0 {
		_, err := newPrograms(services.IPv4, BackendNFT)
		return "", "", fmt.Errorf("neither back end of iptables has its tools: %w", err)
	}
	backend, reason = choose(found, versionBackend(ctx))
	return backend, reason, nil
}

func choose(found map[string]evidence, fallback string) (backend, reason string) {
	nft, hasNFT := found[BackendNFT]
	legacy, hasLegacy := found[BackendLegacy]
	switch {
	case !hasNFT:
		return BackendLegacy, "only its tools are installed"
	case !hasLegacy:
		return BackendNFT, "only its tools are installed"
	case nft.kubelet != legacy.kubelet:
		return pick(nft.kubelet), "a kubelet uses it"
	case nft.ours != legacy.ours:
		return pick(nft.ours), "it has a Service proxy's chains"
	case nft.rules != legacy.rules:
		return pick(nft.rules > legacy.rules), "it has most of the rules"
	case fallback != "":
		return fallback, "iptables --version says so"
	}
	return BackendNFT, "it is the default"
}

func pick(nft bool) string {
	if nft {
		return BackendNFT
	}
	return BackendLegacy
}

func gather(ctx context.Context, t tool) (evidence, error) {
	var e evidence
	err := t.Save(ctx, "", func(line []byte) bool {
		switch {
		case bytes.HasPrefix(line, []byte(":")):
			name, _, _ := strings.Cut(string(line[1:]), " ")
			e.kubelet = e.kubelet || slices.Contains(kubeletHints, name)
			e.ours = e.ours || name == chainServices || isPortChain(name)
		case bytes.HasPrefix(line, []byte("-A ")):
			e.rules++
		}
		return true
	})
	return e, err
}

// versionBackend reads "iptables v1.8.9 (nf_tables)". Versions before 1.8 say nothing and are legacy.
func versionBackend(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "iptables", "--version").Output()
	switch {
	case err != nil:
		return ""
	case bytes.Contains(out, []byte("nf_tables")):
		return BackendNFT
	default:
		return BackendLegacy
	}
}

// openFamily looks up the tools of a family and asks the kernel for the table that everything needs.
func openFamily(ctx context.Context, f services.Family, backend string) (programs, error) {
	p, err := newPrograms(f, backend)
	if err != nil {
		return p, err
	}
	for _, table := range []string{tableNat, tableFilter} {
		if err := p.Save(ctx, table, func([]byte) bool { return false }); err != nil {
			return p, fmt.Errorf("the kernel has no %s table for %s iptables: %w", table, f, err)
		}
	}
	return p, nil
}

func checkBackend(b string) error {
	if b == "" || b == BackendAuto || slices.Contains(backends, b) {
		return nil
	}
	return errors.New("unknown iptables back end " + fmt.Sprintf("%q", b) + ": it is legacy, nft or auto")
}
