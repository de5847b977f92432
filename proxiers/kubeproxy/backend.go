package kubeproxy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// toolNames are the programs that kube-proxy looks up in PATH to write rules.
var toolNames = []string{
	"iptables", "iptables-save", "iptables-restore",
	"ip6tables", "ip6tables-save", "ip6tables-restore",
}

// useBackend makes PATH of this process lead to the iptables that was asked for, and returns which one kube-proxy will
// meet: "legacy", "nft", or "" where the mode writes no iptables rules. The function it returns undoes it.
func useBackend(ctx context.Context, o Options) (string, func(), error) {
	nothing := func() {}
	if o.Mode == "nftables" {
		return "", nothing, nil
	}
	if o.Backend == "" || o.Backend == "auto" {
		backend, err := detectBackend(ctx)
		return backend, nothing, err
	}
	multi, err := exec.LookPath(multiCall(o.Backend))
	if err != nil {
		return "", nil, fmt.Errorf("iptables back end %s: %w: install it (Debian: apt-get install iptables)", o.Backend, err)
	}
	dir := filepath.Join(o.RunDir, "proxylab-iptables-"+o.Backend)
	if err := linkTools(dir, multi); err != nil {
		return "", nil, fmt.Errorf("directory for iptables back end %s: %w", o.Backend, err)
	}
	before := os.Getenv("PATH")
	if err := os.Setenv("PATH", dir+":"+before); err != nil {
		return "", nil, fmt.Errorf("set PATH: %w", err)
	}
	return o.Backend, func() {
		os.Setenv("PATH", before)
		os.RemoveAll(dir)
	}, nil
}

// multiCall is the program that is all tools of a back end in one; "" where PATH decides.
func multiCall(backend string) string {
	switch backend {
	case "legacy":
		return "xtables-legacy-multi"
	case "nft":
		return "xtables-nft-multi"
	}
	return ""
}

// linkTools fills dir with the names that the multi-call program answers to. One that a crash left is replaced.
func linkTools(dir, multi string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, name := range toolNames {
		if err := os.Symlink(multi, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// detectBackend asks the iptables in PATH what it is: "iptables v1.8.9 (nf_tables)". Versions that do not say are legacy.
func detectBackend(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "iptables", "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("iptables --version: %w: %s: is iptables installed? (Debian: apt-get install iptables)",
			err, strings.TrimSpace(string(out)))
	}
	if strings.Contains(string(out), "nf_tables") {
		return "nft", nil
	}
	return "legacy", nil
}
