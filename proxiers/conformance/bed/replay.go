package bed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/proxiers/services/servicestest"
)

// Replay is the test that random changes of Services and EndpointSlices, applied by increments in a real kernel, with
// failures and crashes in between, leave the same rules as the last state written from scratch.
type Replay struct {
	Proxier   string // of the package's TestMain
	Sequences int    // how many sequences of changes; they are the same in every run
	// State is what is in the kernel, without what may differ between equal states.
	State func() string
	// Harm, if not nil, is done before some passes: something that has the pass, or a part of it, refused.
	Harm []func()
}

// Run runs the test.
func (r Replay) Run(b *Bed) {
	b.t.Helper()
	for seed := range r.Sequences {
		if !r.sequence(b, seed) {
			return
		}
	}
}

func (r Replay) sequence(b *Bed, seed int) bool {
	b.t.Helper()
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	p, api := b.Proxier(r.Proxier), servicestest.New()
	pass := func(full bool) error {
		want := api.Snapshot()
		want.Full = want.Full || full
		_, err := p.Sync(context.Background(), want)
		if err == nil {
			api.Synced(want)
		}
		return err
	}
	full := true
	for _, events := range servicestest.Rounds(2, 5).Example(seed) {
		api.Do(events)
		kill := random.IntN(4) == 0
		if kill {
			time.AfterFunc(time.Duration(random.IntN(60))*time.Millisecond, p.Kill)
		} else if len(r.Harm) > 0 && random.IntN(2) == 0 {
			r.Harm[random.IntN(len(r.Harm))]()
		}
		full = pass(full) != nil // as the runner does
		if kill {
			p.Kill()
			p.Stop()
			p, full = b.Proxier(r.Proxier), true
		}
	}
	if err := pass(true); err != nil {
		b.t.Errorf("sequence %d: %v", seed, err)
		return false
	}
	return r.same(b, fmt.Sprintf("sequence %d", seed), p, api)
}

// same compares with what another process writes after a clean-up.
func (r Replay) same(b *Bed, what string, p *Proxier, api *servicestest.World) bool {
	ctx := context.Background()
	got := r.State()
	if err := p.Cleanup(ctx); err != nil {
		b.t.Errorf("%s: clean-up: %v", what, err)
	}
	p.Stop()
	fresh := b.Proxier(r.Proxier)
	defer fresh.Stop()
	if _, err := fresh.Sync(ctx, api.FromScratch()); err != nil {
		b.t.Errorf("%s: from scratch: %v", what, err)
		return false
	}
	scratch := r.State()
	if err := fresh.Cleanup(ctx); err != nil {
		b.t.Errorf("%s: clean-up: %v", what, err)
	}
	if got != scratch {
		b.t.Errorf("%s: by increments:\n%s\nfrom scratch:\n%s", what, got, scratch)
		return false
	}
	return true
}

// HoldXtablesLock holds, in node1, the lock that iptables programs wait for, and returns at once; it lets go after a time.
func (b *Bed) HoldXtablesLock(d time.Duration) error {
	return b.RunInNode(func() error {
		f, err := os.OpenFile("/run/xtables.lock", os.O_CREATE|os.O_RDONLY, 0o600)
		if err != nil {
			return err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			_ = f.Close()
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		time.AfterFunc(d, func() { _ = f.Close() })
		return nil
	})
}
