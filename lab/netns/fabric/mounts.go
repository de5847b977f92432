package fabric

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"proxylab/lab/netns/ns"
)

// MountPath is the file that a node's mount namespace is mounted on, below the directory for such files.
func MountPath(mountDir, node string) string { return filepath.Join(mountDir, node) }

// ensureMountDir makes the directory a private mount: the kernel keeps mount namespaces only on such.
func ensureMountDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var here, parent unix.Stat_t
	if err := errors.Join(unix.Stat(dir, &here), unix.Stat(filepath.Dir(dir), &parent)); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if here.Dev == parent.Dev {
		if err := unix.Mount("proxylab", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=0700"); err != nil {
			return fmt.Errorf("mount tmpfs on %s: %w", dir, err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make %s private: %w", dir, err)
	}
	return nil
}

// ensureMounts makes a node's mount namespace: /run of its own, so its own xtables.lock, and the /sys of its network.
func ensureMounts(lab, node, mountDir string) error {
	path := MountPath(mountDir, node)
	if isNamespace(path) {
		return nil
	}
	tids, release, done := make(chan int), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- ns.Throwaway(func() error {
			err := enterNewMounts(NodePath(lab, node), mountDir)
			if err == nil {
				tids <- unix.Gettid()
				<-release // until then the namespace is this thread's
			}
			return err
		})
	}()
	var err error
	select {
	case err = <-done:
	case tid := <-tids:
		// From out here: a mount made in there would be in there alone.
		err = bindMountNamespace(tid, path)
		close(release)
		err = errors.Join(err, <-done)
	}
	if err != nil {
		return fmt.Errorf("mount namespace of %s: %w", node, err)
	}
	return nil
}

func bindMountNamespace(tid int, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o400)
	if err != nil {
		return err
	}
	_ = f.Close()
	from := fmt.Sprintf("/proc/%d/task/%d/ns/mnt", os.Getpid(), tid)
	if err := unix.Mount(from, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", from, path, err)
	}
	return nil
}

// enterNewMounts moves the calling thread into a new mount namespace, in a network namespace.
func enterNewMounts(network, mountDir string) error {
	target, err := netns.GetFromPath(network)
	if err != nil {
		return fmt.Errorf("%s: %w", network, err)
	}
	defer func() { _ = target.Close() }()
	if err := netns.Set(target); err != nil { // a sysfs shows the network of who mounts it
		return fmt.Errorf("enter %s: %w", network, err)
	}
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	// What the host unmounts goes away in here too; nothing goes the other way.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts slaves: %w", err)
	}
	// Other namespaces' names stay out, so that this one keeps none of them alive, now or later.
	for _, dir := range []string{namesDir, mountDir} {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil { // as often as something is mounted there
			continue
		}
	}
	cgroups, cgroupsErr := unix.Open("/sys/fs/cgroup", unix.O_PATH|unix.O_CLOEXEC, 0)
	if cgroupsErr == nil {
		defer func() { _ = unix.Close(cgroups) }()
	}
	for _, m := range []struct{ kind, at, options string }{{"tmpfs", "/run", "mode=0755"}, {"sysfs", "/sys", ""}} {
		if err := unix.Mount(m.kind, m.at, m.kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, m.options); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
		}
	}
	if cgroupsErr == nil { // best effort: nothing on a node needs them
		_ = unix.Mount(fmt.Sprintf("/proc/thread-self/fd/%d", cgroups), "/sys/fs/cgroup", "", unix.MS_BIND|unix.MS_REC, "")
	}
	return os.MkdirAll("/run/lock", 0o755)
}
