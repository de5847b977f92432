package iptables

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services/servicestest"
	"proxylab/proxiers/xtables"
)

// The tests in this and the following files are about what packets meet in a real kernel. Rules are the same text for both
// back ends, the kernel is asked whether it holds the same (TestKernelHoldsWhatTheFakeHolds), and the rows of conformance
// send packets through kube-proxy's layout: so most tests of packets run with one variant, of the compact layout.
var variants = []string{legacy, nft, legacyCompact, nftCompact}

const legacy, nft, legacyCompact, nftCompact = "legacy", "nft", "legacy/compact", "nft/compact"

// each back end once, each layout once.
var backends = []string{legacy, nftCompact}

func TestMain(m *testing.M) {
	factories := map[string]bed.Factory{}
	for _, v := range variants {
		factories[v] = func(log *slog.Logger) (runner.Proxier, error) {
			backend, layout, _ := strings.Cut(v, "/")
			p, err := New(Options{Backend: backend, Log: log})
			if err != nil {
				return nil, err
			}
			if layout == "compact" {
				for _, f := range p.families {
					f.threshold = 0
				}
			}
			return p, nil
		}
	}
	for name, threshold := range map[string]int{"": LargeThreshold, "-kube-proxy-layout": 1 << 30} {
		for _, backend := range xtables.Backends() {
			factories["bulk/"+backend+name] = newBulk(backend, threshold)
		}
	}
	factories["auto"] = func(log *slog.Logger) (runner.Proxier, error) { return New(Options{Log: log}) }
	os.Exit(bed.Main(m, factories))
}

// node is a bed with a proxier of one variant on node1.
type node struct {
	*bed.Host
	t       *testing.T
	variant string
}

func newNode(t *testing.T, variant string, options ...bed.Option) *node {
	t.Helper()
	return &node{Host: bed.NewHost(t, variant, options...), t: t, variant: variant}
}

// in runs a test with one variant.
func in(t *testing.T, variant string, f func(*node)) {
	t.Parallel() // most of the time is waiting for what must not come
	f(newNode(t, variant))
}

// eachOf runs a test with several variants.
func eachOf(t *testing.T, variants []string, f func(*node)) {
	for _, v := range variants {
		t.Run(v, func(t *testing.T) { in(t, v, f) })
	}
}

var (
	both           = bed.Both
	web, dns, with = bed.Web, bed.DNS, bed.With
	ofFamily, vip  = bed.OfFamily, bed.At
	externalLocal  = bed.ExternalLocal
	internalLocal  = bed.InternalLocal
	external       = servicestest.External
	backendOf      = func(variant string) string { backend, _, _ := strings.Cut(variant, "/"); return backend }
	ports          = servicestest.Ports{Apart: true}
)
