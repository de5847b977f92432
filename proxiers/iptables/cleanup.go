package iptables

import (
	"context"
	"log/slog"
	"slices"

	"proxylab/proxiers/xtables"
)

// ownChains are the names, besides those of single Service ports, that iptables proxiers use: ours and kube-proxy's.
// Others begin with KUBE- too and belong to network policy controllers, kubelets, or the ipvs mode.
var ownChains = map[string]bool{
	chainServices: true, chainExternalServices: true, chainNodePorts: true, chainPostrouting: true, chainMarkMasq: true,
	chainForward: true, chainProxyFirewall: true, chainCanary: true, chainKubeletFirewall: true, chainLocalnetNote: true,
}

func isOurs(name string) bool { return ownChains[name] || isPortChain(name) }

func owner() xtables.Owner {
	return xtables.Owner{Chain: isOurs, Shared: map[string][]string{chainKubeletFirewall: xtables.KubeletChains()}}
}

// Cleanup implements runner.Proxier: see the function Cleanup.
func (p *Proxier) Cleanup(ctx context.Context) error {
	for _, f := range p.families {
		f.mirror = mirror{}
	}
	p.loopback, p.watch.trusted = false, false
	return Cleanup(ctx, p.log)
}

// Cleanup removes every chain and jump of iptables proxiers, ours and kube-proxy's, from both back ends and both
// families, and route_localnet where ours switched it on. Nothing else is touched: a chain of ours that a foreign chain
// jumps to stays, and KUBE-FIREWALL stays where there is a kubelet. Back ends without tools are passed over.
func Cleanup(ctx context.Context, log *slog.Logger) error {
	return xtables.Each(func(p xtables.Programs) error {
		return cleanTool(ctx, p.Name(), p, sysctls{"/proc/sys"}, log)
	})
}

// CleanupExcept is Cleanup but for the chains that keep says true for: those that another mode has taken over.
func CleanupExcept(ctx context.Context, keep func(chain string) bool, log *slog.Logger) error {
	o := owner()
	o.Chain = func(name string) bool { return isOurs(name) && !keep(name) }
	return xtables.Each(func(p xtables.Programs) error {
		return cleanOwned(ctx, p.Name(), p, o, sysctls{"/proc/sys"}, log)
	})
}

// Leftovers lists the chains that Cleanup would remove, as "iptables-legacy nat KUBE-SERVICES".
func Leftovers(ctx context.Context) ([]string, error) { return xtables.Leftovers(ctx, owner()) }

func cleanTool(ctx context.Context, name string, t xtables.Tool, sys sysctls, log *slog.Logger) error {
	return cleanOwned(ctx, name, t, owner(), sys, log)
}

func cleanOwned(ctx context.Context, name string, t xtables.Tool, o xtables.Owner, sys sysctls, log *slog.Logger) error {
	all, err := xtables.RemoveFrom(ctx, name, t, o, log)
	for _, f := range all {
		if slices.Contains(f.Ours, chainLocalnetNote) {
			if failed := sys.set(sysctlRouteLocalnet, "0"); err == nil {
				err = failed
			}
		}
	}
	return err
}
