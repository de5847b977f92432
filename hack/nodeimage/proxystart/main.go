// Proxystart is what the image of kube-proxy runs first: it points iptables at the variant that the node uses, legacy or
// nft, and becomes kube-proxy. The kubelet leaves a chain in the mangle table for this purpose (KEP-3178): rules in the
// other variant would be in force beside those that everything else on the node writes and sees.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

const (
	proxy = "/usr/local/lib/kube-proxy"
	sbin  = "/usr/sbin"
	hint  = ":KUBE-IPTABLES-HINT "
)

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "starting kube-proxy:", err)
		os.Exit(1)
	}
}

func start() error {
	variant := "nft"
	if hasHint("legacy") && !hasHint("nft") {
		variant = "legacy"
	}
	if err := choose(variant); err != nil {
		return err
	}
	return syscall.Exec(proxy, append([]string{"kube-proxy"}, os.Args[1:]...), os.Environ())
}

// hasHint says whether the kubelet's chain is in either family's mangle table of the variant.
func hasHint(variant string) bool {
	for _, family := range []string{"iptables", "ip6tables"} {
		// A kernel without the variant or the family has no hint either.
		out, err := exec.Command(filepath.Join(sbin, family+"-"+variant+"-save"), "-t", "mangle").Output()
		if err == nil && bytes.Contains(out, []byte(hint)) {
			return true
		}
	}
	return false
}

// choose links every iptables command without a variant in its name to the one of the variant.
func choose(variant string) error {
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, tool := range []string{"", "-save", "-restore"} {
			link := filepath.Join(sbin, family+tool)
			if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
				return err
			}
			if err := os.Symlink(fmt.Sprintf("xtables-%s-multi", variant), link); err != nil {
				return err
			}
		}
	}
	return nil
}
