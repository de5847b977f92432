package kernel

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/vishvananda/netlink"
)

// WatchAddrs tells whether addresses of this network namespace came or went since it was last asked, but for those of the
// link named. The function end ends it.
func WatchAddrs(except string, log *slog.Logger) (moved func() bool, end func(), err error) {
	updates, done := make(chan netlink.AddrUpdate, 64), make(chan struct{})
	var flag atomic.Bool
	if err := netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{
		ErrorCallback: func(err error) { // updates were lost, say
			select {
			case <-done:
			default:
				log.Debug("watch of addresses", "error", err)
				flag.Store(true)
			}
		},
	}); err != nil {
		return nil, nil, fmt.Errorf("watch addresses: %w", err)
	}
	go func() {
		names := map[int]string{} // the kernel gives a number to one link only
		for u := range updates {
			name, known := names[u.LinkIndex]
			if !known {
				if l, err := netlink.LinkByIndex(u.LinkIndex); err == nil {
					name = l.Attrs().Name
					names[u.LinkIndex] = name
				}
			}
			if name != except {
				flag.Store(true)
			}
		}
	}()
	return func() bool { return flag.Swap(false) }, func() { close(done) }, nil
}
