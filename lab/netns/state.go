package netns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab"
	"proxylab/lab/controlplane"
	"proxylab/lab/procs"
)

// rootDir holds one directory for each lab, and the locks of those that are being made or removed.
const rootDir = "/var/lib/proxylab"

// Dir is the directory of a lab of that name, which is removed with the lab.
func Dir(name string) string { return labDir(name) }

func labDir(name string) string   { return filepath.Join(rootDir, name) }
func lockPath(name string) string { return filepath.Join(rootDir, "."+name+".lock") }
func mountDir(name string) string { return filepath.Join(labDir(name), "mounts") }
func nodeDir(name, node string) string {
	return filepath.Join(labDir(name), "nodes", node)
}

// state is what Up was asked for, kept in the lab's directory for those who come later.
type state struct {
	Name       string                  `json:"name"`
	Kind       string                  `json:"kind"`
	Nodes      int                     `json:"nodes"`
	Created    time.Time               `json:"created"`
	Background controlplane.Background `json:"background"`
	Proxier    *lab.ProxierSpec        `json:"proxier,omitempty"`
	Complete   bool                    `json:"complete"` // Up came to its end
}

// loadState reads what is known of a lab; its error is fs.ErrNotExist where nothing is.
func loadState(name string) (state, error) {
	path := filepath.Join(labDir(name), "lab.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("there is no lab %q: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return state{}, fmt.Errorf("lab %s: %w", name, err)
	}
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return state{}, fmt.Errorf("lab %s: %s: %w", name, path, err)
	}
	return s, nil
}

func (s state) save() error { return writeJSON(filepath.Join(labDir(s.Name), "lab.json"), s) }

// writeJSON replaces a file as a whole.
func writeJSON(path string, v any) error {
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

// lock keeps all other processes from making or removing the lab of that name, until unlock or the end of this
// process. It waits for whoever holds it.
func lock(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	for {
		if err := os.MkdirAll(rootDir, 0o755); err != nil {
			return nil, err
		}
		unlock, err := lockFile(ctx, lockPath(name), waiting)
		if !errors.Is(err, fs.ErrNotExist) { // the directory went away in between
			return unlock, err
		}
	}
}

// lockFile locks a file in a directory that is there.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
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
