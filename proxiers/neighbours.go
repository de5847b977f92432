package proxiers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Neighbours are other programs' packet filters in this network namespace, beside which a proxier would have to live.
type Neighbours struct {
	// Legacy are the tables that some iptables-legacy has loaded, as "ip nat" or "ip6 filter".
	Legacy []string
	// NFT are the tables of nftables, as "inet firewalld" or "ip nat"; iptables-nft makes those named as iptables' own.
	NFT []string
}

// FindNeighbours looks without changing anything: listing by iptables-legacy itself would load its tables.
func FindNeighbours(ctx context.Context) (n Neighbours, err error) {
	for family, file := range map[string]string{"ip": "/proc/net/ip_tables_names", "ip6": "/proc/net/ip6_tables_names"} {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		for _, table := range strings.Fields(string(text)) {
			n.Legacy = append(n.Legacy, family+" "+table)
		}
	}
	slices.Sort(n.Legacy)
	if _, err := exec.LookPath("nft"); err != nil {
		return n, nil // then nobody here has made any
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nft", "list", "tables").Output()
	if err != nil {
		return n, fmt.Errorf("nft list tables: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		n.NFT = append(n.NFT, strings.TrimSpace(strings.TrimPrefix(line, "table ")))
	}
	return n, nil
}

// Warnings say what is known to go wrong beside such neighbours; empty: nothing.
func (n Neighbours) Warnings() (warnings []string) {
	iptablesNFT := slices.ContainsFunc(n.NFT, func(t string) bool {
		family, name, _ := strings.Cut(t, " ")
		return (family == "ip" || family == "ip6") && slices.Contains([]string{"filter", "nat", "mangle", "raw"}, name)
	})
	if iptablesNFT && len(n.Legacy) > 0 {
		warnings = append(warnings, "both iptables-legacy and iptables-nft have tables here: every packet passes both, and a DROP in one is not seen when looking at the other")
	}
	if slices.Contains(n.NFT, "inet firewalld") {
		warnings = append(warnings, "firewalld is at work: its forward chain drops what it does not know, after any Service proxy has let it pass")
	}
	for _, cni := range []struct{ table, name string }{{"ip cilium", "Cilium"}, {"inet calico", "Calico"}, {"ip calico", "Calico"}} {
		if slices.ContainsFunc(n.NFT, func(t string) bool { return strings.HasPrefix(t, cni.table) }) {
			warnings = append(warnings, cni.name+" has rules of its own here, which may replace a Service proxy's or run before them")
		}
	}
	return warnings
}
