package iptables

import (
	"context"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
)

// kill -9 at random moments while Services change: every answer is right after the restart, and the clean-up by a process
// that knows nothing of the ones before leaves nothing.
func TestKilledAtRandomMoments(t *testing.T) {
	for _, v := range backends {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			b := bed.New(t)
			n := &node{Host: &bed.Host{Bed: b, Name: v}, t: t, variant: v}
			k := bed.Killing{Proxier: v, Times: 5}
			p := k.Run(b)
			p.Kill()
			p.Stop()
			if err := b.Proxier(v).Cleanup(context.Background()); err != nil {
				t.Fatal(err)
			}
			if left := n.IptablesRules(); strings.Contains(left, "KUBE-") || strings.Contains(left, "PROXYLAB-") {
				t.Errorf("left:\n%s", left)
			}
		})
	}
}
