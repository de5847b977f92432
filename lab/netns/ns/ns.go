// Package ns runs code in another network namespace of this machine.
package ns

import (
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Throwaway calls f on a thread of its own, which ends with f: whatever f does to its thread's namespaces, no other
// code can find itself in there.
func Throwaway(f func() error) error {
	errs := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot be thrown away; it would stay as f leaves it for as long as the process lives, and
			// /proc/self shows it. Keep it busy, so that f gets another.
			errs <- Throwaway(f)
			runtime.UnlockOSThread()
			return
		}
		errs <- f() // never unlocked: Go ends such a thread with its goroutine
	}()
	return <-errs
}

// Do calls f with the calling thread in the network namespace at path (as under /run/netns). Sockets that f opens
// belong to that namespace for good and may be used from anywhere; goroutines that f starts are not in it.
func Do(path string, f func() error) error {
	return Throwaway(func() error {
		target, err := netns.GetFromPath(path)
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", path, err)
		}
		defer target.Close()
		if err := netns.Set(target); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", path, err)
		}
		return f()
	})
}

// Listen is net.Listen inside the network namespace at path.
func Listen(path, network, address string) (l net.Listener, err error) {
	err = Do(path, func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}
