package iptables

import (
	"context"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
	"proxylab/proxiers/xtables"
)

// On a node that a kubelet, or an earlier proxy, has left its mark on, that back end is used; the log says why, and every
// report names it.
func TestBackendOfTheNode(t *testing.T) {
	for _, backend := range xtables.Backends() {
		for because, chain := range map[string]string{"a kubelet uses it": "KUBE-IPTABLES-HINT", "it has a Service proxy's chains": "KUBE-SERVICES"} {
			t.Run(backend+"/"+chain, func(t *testing.T) {
				t.Parallel()
				b := bed.New(t, bed.Pods(1, 0))
				if _, err := b.Exec(bed.Node, "*filter\n:"+chain+" - [0:0]\nCOMMIT\n", xtables.Command(services.IPv4, backend, "restore"), "--noflush"); err != nil {
					t.Fatal(err)
				}
				p := b.Proxier("auto")
				if _, err := p.Sync(context.Background(), b.Snapshot(web("local1"))); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(p.Log(), "backend="+backend) || !strings.Contains(p.Log(), because) {
					t.Error(p.Log())
				}
				if out := b.MustExec(bed.Node, xtables.Command(services.IPv6, backend, "save"), "-t", "nat"); !strings.Contains(out, "KUBE-SVC-") {
					t.Errorf("the rules are not in %s:\n%s", backend, out)
				}
			})
		}
	}
}

// runner names the back end in every report by this.
var _ runner.Backender = (*Proxier)(nil)
