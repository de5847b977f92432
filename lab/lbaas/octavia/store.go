package octavia

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Store keeps a Service's state.
type Store interface {
	// Load gives what Save has kept last; nothing, without error, when there is none yet.
	Load() ([]byte, error)
	// Save replaces it, all or nothing.
	Save([]byte) error
}

// FileStore keeps it in a file.
type FileStore string

// Load reads the file.
func (f FileStore) Load() ([]byte, error) {
	data, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Save writes the file beside itself, for its owner alone, and renames it. It survives the end of this process at any moment,
// not that of the machine.
func (f FileStore) Save(data []byte) error {
	t, err := os.CreateTemp(filepath.Dir(string(f)), "."+filepath.Base(string(f))+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(t.Name()) }() // it is renamed by then, or useless
	_, err = t.Write(data)
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	return os.Rename(t.Name(), string(f))
}

// saver writes the state whenever it has changed, but not all the time: what changes while it writes, and in a pause as
// long as the writing took ten times, goes into the next one. A crash loses that much.
type saver struct {
	store Store
	state func() ([]byte, error)
	log   *slog.Logger
	wake  chan struct{}

	mu      sync.Mutex
	changed bool
}

// shortestPause keeps a burst of calls from being written one by one.
const shortestPause = 20 * time.Millisecond

func newSaver(store Store, state func() ([]byte, error), log *slog.Logger) *saver {
	return &saver{store: store, state: state, log: log, wake: make(chan struct{}, 1)}
}

func (s *saver) mark() {
	if s.store == nil {
		return
	}
	s.mu.Lock()
	s.changed = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *saver) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		began := time.Now()
		if err := s.flush(); err != nil {
			s.log.Error("the state was not written", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(shortestPause, 10*time.Since(began))):
		}
	}
}

// flush writes what has changed.
func (s *saver) flush() error {
	s.mu.Lock()
	changed := s.changed
	s.changed = false
	s.mu.Unlock()
	if !changed {
		return nil
	}
	data, err := s.state()
	if err == nil {
		err = s.store.Save(data)
	}
	if err != nil {
		s.mu.Lock()
		s.changed = true // with the next change, or at the end
		s.mu.Unlock()
	}
	return err
}
