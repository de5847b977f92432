package userspace

import (
	"context"
	"log/slog"

	"proxylab/proxiers/xtables"
)

// Cleanup implements runner.Proxier: it removes the rules and closes what serves them.
func (p *Proxier) Cleanup(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced = false
	err := Cleanup(ctx, p.log)
	for key, portal := range p.portals {
		portal.close()
		delete(p.portals, key)
	}
	return err
}

// Cleanup removes the chains of this mode, and the jumps to them, from this network namespace: from both back ends and
// both families, whoever made them, and nothing else. It is safe to repeat.
func Cleanup(ctx context.Context, log *slog.Logger) error {
	return xtables.Remove(ctx, xtables.Owner{Chain: isOurs}, log)
}

// Leftovers says what of this mode is in this network namespace, as "iptables-legacy nat KUBE-PORTALS-HOST".
func Leftovers(ctx context.Context) ([]string, error) {
	return xtables.Leftovers(ctx, xtables.Owner{Chain: isOurs})
}
