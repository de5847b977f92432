// Package labdir is where labs of every kind keep what they know of themselves: a directory each, with a file lab.json that
// says of which kind it is, and a lock for whoever makes or removes it.
package labdir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab/procs"
)

// Root holds one directory for each lab, and the locks of those that are being made or removed.
const Root = "/var/lib/proxylab"

// Dir is the directory of a lab of that name, which is removed with the lab.
func Dir(name string) string { return filepath.Join(Root, name) }

// Node is the directory of a lab's node.
func Node(name, node string) string { return filepath.Join(Dir(name), "nodes", node) }

// Kubeconfig is where a lab keeps the kubeconfig of an identity: "admin" for the user of the lab.
func Kubeconfig(name, identity string) string {
	return filepath.Join(Dir(name), "kubeconfig", identity+".yaml")
}

// Log is where a part of a lab says what it does.
func Log(name, part string) string { return filepath.Join(Dir(name), "log", part+".log") }

// OpenLog opens a log for what comes after what it has.
func OpenLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

func statePath(name string) string { return filepath.Join(Dir(name), "lab.json") }

// LockPath is the file that Lock locks.
func LockPath(name string) string { return filepath.Join(Root, "."+name+".lock") }

// Load reads what a lab knows of itself; its error is fs.ErrNotExist where there is no lab of that name.
func Load(name string, state any) error {
	b, err := os.ReadFile(statePath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no lab %q: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("lab %s: %w", name, err)
	}
	if err := json.Unmarshal(b, state); err != nil {
		return fmt.Errorf("lab %s: %s: %w", name, statePath(name), err)
	}
	return nil
}

// Save replaces what a lab knows of itself.
func Save(name string, state any) error { return WriteJSON(statePath(name), state) }

// Kind is the kind of the lab of that name, as it says itself; empty: it does not. Its error is fs.ErrNotExist where there
// is no lab of that name.
func Kind(name string) (string, error) {
	var s struct {
		Kind string `json:"kind"`
	}
	err := Load(name, &s)
	return s.Kind, err
}

// Names are, sorted, those of all directories and locks: of labs, and of what a crash left of one.
func Names() ([]string, error) {
	entries, err := os.ReadDir(Root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		name := e.Name()
		if lock, hidden := strings.CutPrefix(name, "."); hidden {
			name = strings.TrimSuffix(lock, ".lock")
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// WriteJSON replaces a file as a whole.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// One writer at a time, by lock: the name of the new file need not be random.
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Forget removes a lab's directory and, last of all, the lock that the caller holds: whoever waits for it finds that the
// file is another one.
func Forget(name string) error {
	if err := os.RemoveAll(Dir(name)); err != nil {
		return err
	}
	err := os.Remove(LockPath(name))
	_ = os.Remove(Root) // if it was the last lab
	return err
}

// Lock keeps all other processes from making or removing the lab of that name, until unlock or the end of this
// process. It waits for whoever holds it.
func Lock(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	for {
		if err := os.MkdirAll(Root, 0o755); err != nil {
			return nil, err
		}
		unlock, err := LockFile(ctx, LockPath(name), waiting)
		if !errors.Is(err, fs.ErrNotExist) { // the directory went away in between
			return unlock, err
		}
	}
}

// LockFile locks a file in a directory that is there.
func LockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(ctx, f, &waiting); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("another proxylab is at work on this lab (lock %s): %w", path, err)
		}
		if isAt(f, path) {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close() // whoever had it removed it
	}
}

func flock(ctx context.Context, f *os.File, waiting *func()) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if *waiting != nil {
			(*waiting)()
			*waiting = nil
		}
		if err := procs.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func isAt(f *os.File, path string) bool {
	have, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(have, there)
}
