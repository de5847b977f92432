package octavia

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

// Save writes the file beside itself and renames it.
func (f FileStore) Save(data []byte) error {
	t, err := os.CreateTemp(filepath.Dir(string(f)), "."+filepath.Base(string(f))+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(t.Name()) }() // it is renamed by then, or useless
	_, err = t.Write(data)
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	return os.Rename(t.Name(), string(f))
}
