package conformance

import (
	"context"
	"fmt"
	"strings"
)

// rationing are the kernel's settings that ration ICMP errors, by destination and for all: as it comes, whoever asks a
// node that refuses a few times within seconds hears nothing the next time.
var rationing = []string{"/proc/sys/net/ipv4/icmp_ratemask", "/proc/sys/net/ipv6/icmp/ratemask"}

// noRationing has a node send every ICMP error, so that rows can tell what is refused from what is dropped, until close.
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
		w.settings.add(func(ctx context.Context) error {
			_, err := w.exchange(ctx, node, file, before)
			return err
		})
	}
	return nil
}

// exchange gives a setting a value and says what it was.
func (w *world) exchange(ctx context.Context, node, file, value string) (before string, err error) {
	out, err := w.runAt(ctx, node, "sh", "-c", fmt.Sprintf("cat %s && echo '%s' >%[1]s", file, value))
	return strings.TrimSpace(out), err
}
