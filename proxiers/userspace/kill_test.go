package userspace

import (
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
)

// kill -9 at random moments while Services change: every answer is right after the restart, and the clean-up by a process
// that knows nothing of the ones before leaves nothing.
func TestKilledAtRandomMoments(t *testing.T) {
	for _, backend := range []string{"legacy", "nft"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := bed.New(t)
			k := bed.Killing{Proxier: backend, Times: 5}
			p := k.Run(b)
			p.Kill()
			p.Stop()
			if err := b.Proxier(backend).Cleanup(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := b.IptablesRules(); strings.Contains(left, "KUBE-") {
				t.Errorf("left:\n%s", left)
			}
		})
	}
}
