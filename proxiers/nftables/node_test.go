package nftables

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services/servicestest"
)

// The tests in this and the following files are about what packets meet in a real kernel.
func TestMain(m *testing.M) {
	os.Exit(bed.Main(m, map[string]bed.Factory{
		"nftables": func(log *slog.Logger) (runner.Proxier, error) { return New(Options{Log: log}) },
		"bulk":     newBulk,
	}))
}

// node is a bed with the proxier on node1.
type node struct {
	*bed.Host
	t *testing.T
}

func newNode(t *testing.T, options ...bed.Option) *node {
	t.Helper()
	t.Parallel() // most of the time is waiting for what must not come
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft (Debian's package nftables)")
	}
	return &node{Host: bed.NewHost(t, "nftables", options...), t: t}
}

var (
	both                  = bed.Both
	web, dns, with        = bed.Web, bed.DNS, bed.With
	ofFamily, vip, onNode = bed.OfFamily, bed.At, bed.OnNode
	external, externalIPs = bed.External, bed.ExternalIPs
	balancer              = bed.Balancer
	externalLocal         = bed.ExternalLocal
	internalLocal         = bed.InternalLocal
	ports                 servicestest.Ports
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
