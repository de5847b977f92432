package conformance

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sync/errgroup"
)

// ranges are those that Address gives addresses of: for documentation (RFC 5737, RFC 3849).
var ranges = map[Family]netip.Prefix{
	IPv4: netip.MustParsePrefix("203.0.113.0/24"),
	IPv6: netip.MustParsePrefix("2001:db8::/32"),
}

// leadOutside has the nodes send the ranges to the outside, and the outside nowhere, until close: what a node does not
// answer for itself would leave the lab otherwise, where nodes have a way out of it.
func (w *world) leadOutside(ctx context.Context) error {
	for f, r := range ranges {
		way, err := w.runAt(ctx, Outside, "ip", "-o", "route", "get", w.nodes[0].Addr(f).String())
		if err != nil {
			return err
		}
		_, own, _ := strings.Cut(way, " src ")
		fields := strings.Fields(own)
		if len(fields) == 0 {
			return fmt.Errorf("the outside has no address towards node %s: %q", w.nodes[0].Name, way)
		}
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return w.route(ctx, Outside, f, "unreachable", r.String()) })
		for _, node := range []string{Node1, Node2} {
			g.Go(func() error { return w.route(ctx, node, f, r.String(), "via", fields[0]) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// route makes a route at a place, until close.
func (w *world) route(ctx context.Context, place string, f Family, route ...string) error {
	family := fmt.Sprintf("-%d", f)
	if _, err := w.runAt(ctx, place, append([]string{"ip", family, "route", "replace"}, route...)...); err != nil {
		return err
	}
	w.settings.add(func(ctx context.Context) error {
		_, err := w.runAt(ctx, place, append([]string{"ip", family, "route", "del"}, route...)...)
		return err
	})
	return nil
}

// runAt runs a program at a place, by its name.
func (w *world) runAt(ctx context.Context, place string, args ...string) (string, error) {
	at, what := w.place(place)
	return runAt(ctx, w.cluster, at, what, args...)
}
