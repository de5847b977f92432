// Package ns runs code in another network namespace of this machine.
package ns

import (
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netns"
)

// Do calls f with the calling thread in the network namespace at path (as under /run/netns). Sockets that f opens
// belong to that namespace for good and may be used from anywhere; goroutines that f starts are not in it.
func Do(path string, f func() error) error {
	errs := make(chan error, 1)
	go func() {
		// Never unlocked: the thread is thrown away with the goroutine, so no other code can find itself in there.
		runtime.LockOSThread()
		errs <- func() error {
			target, err := netns.GetFromPath(path)
			if err != nil {
				return fmt.Errorf("network namespace %s: %w", path, err)
			}
			defer target.Close()
			if err := netns.Set(target); err != nil {
				return fmt.Errorf("enter network namespace %s: %w", path, err)
			}
			return f()
		}()
	}()
	return <-errs
}

// Listen is net.Listen inside the network namespace at path.
func Listen(path, network, address string) (l net.Listener, err error) {
	err = Do(path, func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}
