package ipvs

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/iptables"
	"proxylab/proxiers/ipvs/kernel"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services/servicestest"
)

// The tests in this and the following files are about what packets meet in a real kernel, with both back ends of iptables.
// They need a kernel with IPVS.
var backends = []string{"legacy", "nft"}

func TestMain(m *testing.M) {
	factories := map[string]bed.Factory{
		"iptables/legacy": func(log *slog.Logger) (runner.Proxier, error) {
			return iptables.New(iptables.Options{Backend: "legacy", Log: log})
		},
	}
	for _, b := range backends {
		factories[b] = func(log *slog.Logger) (runner.Proxier, error) { return New(Options{Backend: b, Log: log}) }
	}
	for _, s := range Schedulers() {
		factories["scheduler/"+s] = func(log *slog.Logger) (runner.Proxier, error) {
			return New(Options{Backend: "legacy", Scheduler: s, Log: log})
		}
	}
	os.Exit(bed.Main(m, factories))
}

// node is a bed with a proxier on node1.
type node struct {
	*bed.Host
	t *testing.T
}

func needIPVS(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make network namespaces")
	}
	if err := kernel.Check(context.Background(), DefaultScheduler); err != nil {
		t.Skip(err)
	}
}

func newNode(t *testing.T, proxier string) *node {
	t.Helper()
	needIPVS(t)
	n := &node{Host: bed.NewHost(t, proxier), t: t}
	n.Timeout = 2 * time.Second
	return n
}

func eachBackend(t *testing.T, f func(*node)) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) {
			f(newNode(t, b))
		})
	}
}

var (
	both           = bed.Both
	web, dns, with = bed.Web, bed.DNS, bed.With
	ofFamily, vip  = bed.OfFamily, bed.At
	external       = servicestest.External
	externalLocal  = bed.ExternalLocal
	internalLocal  = bed.InternalLocal
	ports          servicestest.Ports
)

// servers lists the node's virtual servers and what is behind them, as the kernel prints it.
func (n *node) servers() string {
	text := n.MustExec(bed.Node, "cat", "/proc/net/ip_vs")
	var out []string
	for i, line := range strings.Split(text, "\n") {
		if i > 2 {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
