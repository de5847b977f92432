package ipvs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"proxylab/proxiers/ipvs/kernel"
)

// Preflight says what this machine lacks for ipvs with a scheduler (empty: the default), with the remedy, by trying it in
// a network namespace that is gone afterwards. It needs root.
func Preflight(ctx context.Context, scheduler string) error {
	if err := CheckScheduler(scheduler); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("virtual servers need root: use sudo")
	}
	if err := kernel.Check(ctx, cmp.Or(scheduler, DefaultScheduler)); err != nil {
		return fmt.Errorf("mode ipvs: %w", err)
	}
	return nil
}
