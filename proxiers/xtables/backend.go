package xtables

import (
	"bytes"
	"context"
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

// Backends are those that there are.
func Backends() []string { return []string{BackendNFT, BackendLegacy} }

// KubeletChains are chains that a kubelet makes. Where one of them is, KUBE-FIREWALL is the kubelet's as much as a
// proxy's.
func KubeletChains() []string { return []string{"KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT"} }

// ChooseBackend checks a back end that was asked for; for "auto" and "" it takes the one that the node uses
// (DetectBackend). The reason is for people; empty: it was asked for.
func ChooseBackend(ctx context.Context, asked string) (backend, reason string, err error) {
	switch {
	case slices.Contains(Backends(), asked):
		return asked, "", nil
	case asked == "" || asked == BackendAuto:
		return DetectBackend(ctx)
	}
	return "", "", fmt.Errorf("unknown iptables back end %q: it is legacy, nft or auto", asked)
}

// evidence is what speaks for a back end: the rules that are in it.
type evidence struct {
	kubelet bool // a kubelet left its mark there
	proxy   bool // chains of a Service proxy
	rules   int
}

// DetectBackend finds the back end that a node uses: the one that a kubelet marked; the one with a Service proxy's
// chains; the one with more rules; the one that "iptables" itself stands for. The reason is for people. The error says
// that there are no tools at all.
func DetectBackend(ctx context.Context) (backend, reason string, err error) {
	found := map[string]evidence{}
	for _, b := range Backends() {
		if p, err := Find(services.IPv4, b); err == nil {
			// A back end that cannot be listed has no rules that count.
			found[b], _ = gather(ctx, p)
		}
		if p, err := Find(services.IPv6, b); err == nil {
			six, _ := gather(ctx, p)
			four := found[b]
			found[b] = evidence{four.kubelet || six.kubelet, four.proxy || six.proxy, four.rules + six.rules}
		}
	}
	if len(found) == 0 {
		_, err := Find(services.IPv4, BackendNFT)
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
	case nft.proxy != legacy.proxy:
		return pick(nft.proxy), "it has a Service proxy's chains"
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

func gather(ctx context.Context, t Tool) (evidence, error) {
	var e evidence
	err := t.Save(ctx, "", func(line []byte) bool {
		switch {
		case bytes.HasPrefix(line, []byte(":")):
			name, _, _ := strings.Cut(string(line[1:]), " ")
			e.kubelet = e.kubelet || slices.Contains(KubeletChains(), name)
			e.proxy = e.proxy || isServiceProxys(name)
		case bytes.HasPrefix(line, []byte("-A ")):
			e.rules++
		}
		return true
	})
	return e, err
}

// isServiceProxys says whether only Service proxies have a chain of this name.
func isServiceProxys(name string) bool {
	if name == "KUBE-SERVICES" {
		return true
	}
	for _, prefix := range []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-EXT-", "KUBE-PORTALS-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
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
