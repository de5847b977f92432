package conformance

import (
	"context"
	"fmt"
	"strings"
)

// rationing are the kernel's settings that ration ICMP errors, by destination and for all: as it comes, whoever asks a
// node that refuses a few times within seconds hears nothing the next time.
var rationing = []string{"/proc/sys/net/ipv4/icmp_ratemask", "/proc/sys/net/ipv6/icmp/ratemask"}

// noRationing has a node send every ICMP error, so that rows can tell what is refused from what is dropped, until
// rationingAsBefore.
func (w *world) noRationing(ctx context.Context, node string) error {
	for _, file := range rationing {
		none := "0" // a mask of bits for IPv4, a list of ranges for IPv6
		if strings.Contains(file, "/ipv6/") {
			none = ""
		}
		before, err := w.exchange(ctx, node, file, none)
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.rationed = append(w.rationed, setting{node, file, before})
		w.mu.Unlock()
	}
	return nil
}

// setting is a kernel setting of a node and its value.
type setting struct{ node, file, value string }

func (w *world) rationingAsBefore(ctx context.Context) error {
	w.mu.Lock()
	all := w.rationed
	w.rationed = nil
	w.mu.Unlock()
	for _, s := range all {
		if _, err := w.exchange(ctx, s.node, s.file, s.value); err != nil {
			return err
		}
	}
	return nil
}

// exchange gives a setting a value and says what it was.
func (w *world) exchange(ctx context.Context, node, file, value string) (before string, err error) {
	at, what := w.place(node)
	out, err := runAt(ctx, w.cluster, at, what, "sh", "-c", fmt.Sprintf("cat %s && echo '%s' >%[1]s", file, value))
	return strings.TrimSpace(out), err
}
