package iptables

import (
	"testing"

	"pgregory.net/rapid"

	"proxylab/proxiers/services/servicestest"
	"proxylab/proxiers/xtables/fake"
)

// Random objects of the API, through the tracker, by increments and with failing restores and crashes in between: the
// tables end up as if they had been written from scratch for what there is then.
func TestTrackedChangesEqualFromScratch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.SampledFrom([]int{0, 6, 1000}).Draw(t, "threshold")
		w := newWorld(t, root, threshold)
		w.chunk = rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "chunk")
		w.restart(threshold)
		fault := fake.NoFault
		w.v4.Fault = func([]byte) fake.Fault { return fault }
		w.v6.Fault = w.v4.Fault
		api := servicestest.New()
		pass := func(full bool) error { return api.Pass(full, w.Sync) }
		full := true
		for _, events := range servicestest.Rounds(1, 8).Draw(t, "rounds") {
			api.Do(events)
			fault = rapid.SampledFrom([]fake.Fault{0, 0, 0, fake.FailBefore, fake.FailBetween(1), fake.FailBetween(2), fake.FailBetween(5),
				fake.FailAfter}).Draw(t, "fault")
			err := pass(full)
			full = err != nil // as the runner does
			if rapid.IntRange(0, 5).Draw(t, "crash") == 0 {
				w.restart(threshold)
				full = true
			} else if err == nil {
				fault = fake.NoFault
				compare(t, w, api.FromScratch(), threshold)
			}
		}
		fault = fake.NoFault
		if err := pass(full); err != nil {
			t.Fatal(err)
		}
		compare(t, w, api.FromScratch(), threshold)
	})
}
