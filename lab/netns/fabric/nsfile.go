package fabric

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"proxylab/lab/netns/ns"
)

// createNamed makes a network namespace and gives it a name as `ip netns add` does: a file under /run/netns that it
// is mounted on. It calls setup with the thread inside the new namespace before the name exists, so that a namespace
// with a name is one that was set up. One that exists already is left as it is.
func createNamed(path string, setup func() error) error {
	if lab, _ := owner(filepath.Base(path)); lab == "" {
		return fmt.Errorf("%s: %w", path, errNotOurs)
	}
	if isNamespace(path) {
		return nil
	}
	if err := ns.Throwaway(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if err := setup(); err != nil {
			return err
		}
		return withNames(func() error { return bindNamespace("net", path) })
	}); err != nil {
		return fmt.Errorf("create network namespace %s: %w", filepath.Base(path), err)
	}
	return nil
}

// bindNamespace mounts the calling thread's namespace of that kind on a file, so that it lives on without a process.
func bindNamespace(kind, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	_ = f.Close()
	from := fmt.Sprintf("/proc/%d/task/%d/ns/%s", os.Getpid(), unix.Gettid(), kind)
	if err := unix.Mount(from, path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("mount %s on %s: %w", from, path, err), os.Remove(path))
	}
	return nil
}

// isNamespace says whether a namespace is mounted on the file.
func isNamespace(path string) bool {
	const nsfsMagic = 0x6e736673
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == nsfsMagic
}

// withNames calls f while /run/netns exists and no other lab removes it. Like iproute2 it makes the directory a
// shared mount of its own, so that a name removed here does not stay mounted in somebody's mount namespace.
func withNames(f func() error) error {
	return lockRun(func() error {
		if err := os.MkdirAll(namesDir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("", namesDir, "", unix.MS_SHARED|unix.MS_REC, ""); err == nil {
			return f()
		}
		if err := unix.Mount(namesDir, namesDir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s on itself: %w", namesDir, err)
		}
		if err := unix.Mount("", namesDir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("make %s shared: %w", namesDir, err)
		}
		return f()
	})
}

// lockRun holds a lock that all labs of this machine share, for as long as f takes.
func lockRun(f func() error) error {
	dir, err := os.Open(filepath.Dir(namesDir))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // which also unlocks
	for {
		if err = unix.Flock(int(dir.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	return f()
}

// removeNamed takes the name from a network namespace; without a process in it the namespace ends with that. It is
// content with one that is gone.
func removeNamed(path string) error {
	if lab, _ := owner(filepath.Base(path)); lab == "" {
		return fmt.Errorf("%s: %w", path, errNotOurs)
	}
	for isNamespace(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && isNamespace(path) {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// tidyNames removes /run/netns when nothing is left in it.
func tidyNames() error {
	return lockRun(func() error {
		left, err := os.ReadDir(namesDir)
		if errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		for unix.Unmount(namesDir, 0) == nil { // once for every time it was mounted on itself
			continue
		}
		_ = os.Remove(namesDir) // in use again: stays
		return nil
	})
}

// named lists the named namespaces, sorted.
func named() ([]string, error) {
	entries, err := os.ReadDir(namesDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// Labs lists the labs that have a namespace on this machine.
func Labs() ([]string, error) {
	names, err := named()
	var labs []string
	for _, name := range names {
		if lab, _ := owner(name); lab != "" {
			labs = append(labs, lab)
		}
	}
	slices.Sort(labs)
	return slices.Compact(labs), err
}

// PodPaths lists the files of the lab's pod namespaces.
func PodPaths(lab string) ([]string, error) {
	names, err := named()
	var paths []string
	for _, name := range names {
		if l, pod := owner(name); pod && l == lab {
			paths = append(paths, filepath.Join(namesDir, name))
		}
	}
	return paths, err
}

// Complete says whether the fabric and all nodes of the plan have their namespaces.
func Complete(p Plan, mountDir string) bool {
	if !isNamespace(Path(p.Lab)) {
		return false
	}
	for _, n := range p.Nodes() {
		if !isNamespace(NodePath(p.Lab, n.Name)) || !isNamespace(MountPath(mountDir, n.Name)) {
			return false
		}
	}
	return true
}

// Remove takes down all namespaces of a lab, however far its making got.
func Remove(lab string) error {
	names, err := named()
	errs := []error{err}
	for _, name := range names {
		if l, _ := owner(name); l == lab {
			errs = append(errs, removeNamed(filepath.Join(namesDir, name)))
		}
	}
	return errors.Join(append(errs, tidyNames())...)
}

// Unmount detaches everything that is mounted at dir or below it.
func Unmount(dir string) error {
	// Not /proc/self, which is the main thread, whatever namespace that is in.
	data, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			point := unescape.Replace(fields[4])
			if point == dir || strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
			}
		}
	}
	var errs []error
	for _, point := range slices.Backward(points) { // what was mounted last goes first
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// unescape undoes what the kernel does to a path in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
