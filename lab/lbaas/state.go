package lbaas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"proxylab/lab/lbaas/octavia"
)

// stateFile keeps the parts of the state in one file, so that a cloud is one thing to copy, to keep and to throw away.
type stateFile struct {
	store octavia.Store

	mu    sync.Mutex
	parts map[string]json.RawMessage
}

// openState reads a state file, if there is one.
func openState(path string) (*stateFile, error) {
	f := &stateFile{store: octavia.FileStore(path), parts: map[string]json.RawMessage{}}
	text, err := f.store.Load()
	if err != nil {
		return nil, fmt.Errorf("read the state: %w", err)
	}
	if text == nil {
		return f, nil
	}
	if err := json.Unmarshal(text, &f.parts); err != nil {
		return nil, fmt.Errorf("%s is no state of this program: %w", path, err)
	}
	return f, nil
}

// part is one of the parts.
func (f *stateFile) part(name string) statePart { return statePart{f, name} }

type statePart struct {
	file *stateFile
	name string
}

// Load gives what Save has kept last.
func (p statePart) Load() ([]byte, error) {
	p.file.mu.Lock()
	defer p.file.mu.Unlock()
	return p.file.parts[p.name], nil
}

// Save replaces it, and the file.
func (p statePart) Save(text []byte) error {
	p.file.mu.Lock()
	defer p.file.mu.Unlock()
	p.file.parts[p.name] = slices.Clone(text)
	return p.file.write()
}

func (f *stateFile) write() error {
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(f.parts)) { // not json.Marshal: it would read what may be megabytes again
		fmt.Fprintf(&text, "%c%q:", "{,"[min(text.Len(), 1)], name)
		text.Write(f.parts[name])
	}
	text.WriteString("}\n")
	if err := f.store.Save(text.Bytes()); err != nil { // for its owner alone: it holds a secret
		return fmt.Errorf("write the state: %w", err)
	}
	return nil
}
