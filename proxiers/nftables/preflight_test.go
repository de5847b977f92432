package nftables

import (
	"os"
	"os/exec"
	"testing"

	"proxylab/proxiers/conformance/bed"
)

func TestPreflight(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to try rules in a network namespace")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft (Debian's package nftables)")
	}
	if err := Preflight(t.Context()); err != nil {
		t.Error(err)
	}
	b := bed.New(t, bed.Pods(0, 0))
	if left := b.MustExec(bed.Node, "nft", "list", "tables"); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestPreflightWithoutTheTool(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := Preflight(t.Context()); err == nil || os.Geteuid() == 0 && !contains(err, "apt-get install nftables") {
		t.Errorf("%v", err)
	}
	if _, err := New(Options{}); err == nil || !contains(err, "apt-get install nftables") {
		t.Errorf("%v", err)
	}
}
