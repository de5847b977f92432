package kubeproxy

import (
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestPreflight(t *testing.T) {
	if os.Geteuid() != 0 {
		if err := Preflight(t.Context(), "nftables", ""); err == nil || !strings.Contains(err.Error(), "root") {
			t.Errorf("without root: %v", err)
		}
		t.Skip("the rest needs root")
	}
	_, noIPVS := netlink.GenlFamilyGet("IPVS")
	err := Preflight(t.Context(), "ipvs", "")
	if noIPVS != nil && (err == nil || !strings.Contains(err.Error(), "modprobe ip_vs")) {
		t.Errorf("without ip_vs: %v", err)
	}
	t.Log(err)

	t.Setenv("PATH", t.TempDir())
	for mode, remedy := range map[string]string{"nftables": "apt-get install nftables", "iptables": "apt-get install iptables"} {
		if err := Preflight(t.Context(), mode, ""); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s without its tool: %v", mode, err)
		}
	}
	if err := Cleanup(t.Context()); err != nil {
		t.Errorf("clean-up without nft: %v", err)
	}
}
