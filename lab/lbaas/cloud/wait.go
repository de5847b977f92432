package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"proxylab/lab/procs"
)

// waitActive looks at a balancer, less and less often, until it takes writes. What it fails with is errGone, errFailed or
// errStuck, or why it could not be looked at.
func (o *openStack) waitActive(ctx context.Context, w Wait, id string) (haveBalancer, error) {
	return o.waitFor(ctx, w, id, func(b haveBalancer) (bool, error) {
		switch b.Status {
		case "ACTIVE":
			return true, nil
		case "ERROR":
			return true, fmt.Errorf("load balancer %s: %w", id, errFailed)
		case "PENDING_DELETE":
			return true, fmt.Errorf("load balancer %s is being deleted: %w", id, errGone)
		}
		return false, nil
	})
}

// waitMutable waits until a balancer can be deleted.
func (o *openStack) waitMutable(ctx context.Context, w Wait, id string) (haveBalancer, error) {
	return o.waitFor(ctx, w, id, func(b haveBalancer) (bool, error) {
		return b.Status == "ACTIVE" || b.Status == "ERROR" || b.Status == "PENDING_DELETE", nil
	})
}

// waitGone waits until there is nothing left of a balancer that is being deleted. One whose deletion fails is in ERROR.
func (o *openStack) waitGone(ctx context.Context, w Wait, id string) error {
	_, err := o.waitFor(ctx, w, id, func(b haveBalancer) (bool, error) {
		if b.Status == "ERROR" {
			return true, fmt.Errorf("load balancer %s was not deleted: %w", id, errFailed)
		}
		return false, nil
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

func (o *openStack) waitFor(ctx context.Context, w Wait, id string, done func(haveBalancer) (bool, error)) (haveBalancer, error) {
	end, pause := time.Now().Add(w.Limit), w.First
	for {
		b, err := o.getBalancer(ctx, id)
		if err != nil {
			return b, err
		}
		if ok, err := done(b); ok {
			return b, err
		}
		if time.Now().After(end) {
			return b, fmt.Errorf("load balancer %s is %s after %s: %w", id, b.Status, w.Limit, errStuck)
		}
		if err := procs.Sleep(ctx, pause); err != nil {
			return b, fmt.Errorf("load balancer %s is %s: %w", id, b.Status, err)
		}
		pause = min(pause*3/2, w.Most)
	}
}
