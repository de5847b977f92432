package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// undoing is what has to be done when something is over. The zero value has nothing to do.
type undoing struct {
	mu  sync.Mutex
	all []func(context.Context) error
}

func (u *undoing) add(f func(context.Context) error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, f)
}

// run does it once, what was added last first, and goes on after an error.
func (u *undoing) run(ctx context.Context) error {
	u.mu.Lock()
	all := u.all
	u.all = nil
	u.mu.Unlock()
	var errs []error
	for _, f := range slices.Backward(all) {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}
