package bed

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// space is a pair of kernel namespaces held open by file descriptors alone: they have no name on the machine, so two
// beds cannot clash, and whatever happens to the test process, the kernel takes them down with its last descriptor.
type space struct {
	net *os.File
	mnt *os.File // nil: the mount namespace of the test process
}

// newSpace makes a network namespace and, where mounts is set, a mount namespace with an empty /run, so that
// xtables.lock and the like are its own.
func newSpace(mounts bool) (s space, err error) {
	err = throwAwayThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare network namespace: %w", err)
		}
		if s.net, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		if !mounts {
			return nil
		}
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("unshare mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			return fmt.Errorf("mount tmpfs on /run: %w", err)
		}
		s.mnt, err = os.Open("/proc/thread-self/ns/mnt")
		return err
	})
	if err != nil {
		s.close()
	}
	return s, err
}

// do calls f on a thread that is inside the namespaces. Sockets opened and commands started by f itself belong there;
// goroutines that f starts do not.
func (s space) do(f func() error) error {
	return throwAwayThread(func() error {
		if err := unix.Setns(int(s.net.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		if s.mnt != nil {
			// A thread that shares its working directory with others may not change its mount namespace.
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return fmt.Errorf("unshare working directory: %w", err)
			}
			if err := unix.Setns(int(s.mnt.Fd()), unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("enter mount namespace: %w", err)
			}
		}
		return f()
	})
}

func (s space) close() {
	for _, f := range []*os.File{s.net, s.mnt} {
		if f != nil {
			_ = f.Close() // opened for reading
		}
	}
}

// throwAwayThread calls f on a thread of its own that ends with it, so that no other code can find itself in a
// namespace that f entered.
func throwAwayThread(f func() error) error {
	errs := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, see above
		if unix.Gettid() == unix.Getpid() {
			// The process's first thread cannot end, and /proc/self shows it. While this goroutine holds it,
			// another one gets another thread.
			errs <- throwAwayThread(f)
			runtime.UnlockOSThread()
			return
		}
		errs <- f()
	}()
	return <-errs
}

// sysctl writes kernel settings of the namespace; it must be called inside do.
func sysctl(settings map[string]string) error {
	for name, value := range settings {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("set sysctl %s to %s: %w", name, value, err)
		}
	}
	return nil
}
