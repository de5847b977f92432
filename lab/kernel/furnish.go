package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mounted is a file system that the inside has as its own.
type mounted struct {
	kind, at, options string
	flags             uintptr
	optional          bool
}

const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// furniture is what the command finds, over the machine's files, in the order in which it is mounted.
var furniture = []mounted{
	{kind: "proc", at: "/proc", flags: plain},
	{kind: "sysfs", at: "/sys", flags: plain},
	{kind: "cgroup2", at: "/sys/fs/cgroup", flags: plain, optional: true},
	{kind: "devtmpfs", at: "/dev", flags: unix.MS_NOSUID, optional: true},
	{kind: "devpts", at: "/dev/pts", flags: unix.MS_NOSUID | unix.MS_NOEXEC, optional: true},
	{kind: "tmpfs", at: "/dev/shm", flags: unix.MS_NOSUID | unix.MS_NODEV},
	{kind: "tmpfs", at: "/run", options: "mode=0755", flags: unix.MS_NOSUID | unix.MS_NODEV},
	{kind: "tmpfs", at: "/var/lib/proxylab", options: "mode=0755", flags: unix.MS_NOSUID | unix.MS_NODEV},
}

// furnish makes the place that the command runs in.
func furnish() error {
	// The root is read-only, and what lies under it at these places belongs to the machine outside.
	if err := unix.Mount("proc", "/proc", "proc", plain, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := loadModules(); err != nil {
		fmt.Fprintln(os.Stderr, "proxylab:", err) // what a module is missing for says so by itself, later
	}
	if err := layer(); err != nil {
		return err
	}
	for _, m := range furniture {
		if err := m.mount(); err != nil && !m.optional {
			return err
		}
	}
	for _, dir := range []string{"/run/lock", "/run/netns", "/dev/net"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := devices(); err != nil {
		return err
	}
	// What a service manager allows the processes of a server.
	const files = 1 << 20
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	// The first process of a kernel has no PATH.
	if err := os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"); err != nil {
		return err
	}
	if err := chooseIptables(); err != nil {
		fmt.Fprintln(os.Stderr, "proxylab: choose iptables:", err)
	}
	_ = unix.Sethostname([]byte("proxylab")) // a name to read in logs, no more
	return loopback()
}

func (m mounted) mount() error {
	if err := os.MkdirAll(m.at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.kind, m.at, m.kind, m.flags, m.options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
	}
	return nil
}

// layer puts a layer in memory over the machine's files and makes it the root: everything can be written and nothing of
// it reaches the machine.
func layer() error {
	// Any directory will do that is there on every machine: what is in it comes back with the new root.
	const scratch = "/tmp"
	if err := unix.Mount("tmpfs", scratch, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", scratch, err)
	}
	upper, work, root := filepath.Join(scratch, "upper"), filepath.Join(scratch, "work"), filepath.Join(scratch, "root")
	for _, dir := range []string{upper, work, root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work)
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay over the machine's files: %w", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root comes to lie over the new one, and is taken away from there.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return os.Chdir("/")
}

// devices makes those that are missing where the kernel has no devtmpfs, and the usual links.
func devices() error {
	for _, d := range []struct {
		path         string
		major, minor uint32
	}{
		{"/dev/null", 1, 3}, {"/dev/zero", 1, 5}, {"/dev/full", 1, 7}, {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9},
		{"/dev/tty", 5, 0}, {"/dev/net/tun", 10, 200},
	} {
		err := unix.Mknod(d.path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor)))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make %s: %w", d.path, err)
		}
	}
	for name, to := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		_ = os.Symlink("/proc/self/fd"+to, "/dev/"+name) // there already is fine
	}
	return nil
}
