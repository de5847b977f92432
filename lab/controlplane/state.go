package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
)

// state is what a control plane was started with. It lies in its directory, where its processes read it.
type state struct {
	Lab          string         `json:"lab"`
	NetNS        string         `json:"netns,omitempty"`
	Address      netip.Addr     `json:"address"`
	ServiceCIDRs []netip.Prefix `json:"serviceCIDRs"`
	PodCIDRs     []netip.Prefix `json:"podCIDRs,omitempty"`
	NodePorts    PortRange      `json:"nodePorts"`
	Background   Background     `json:"background"`
	Port         uint16         `json:"port"` // on the host's 127.0.0.1; 0: not chosen yet
}

func newState(c Config) state {
	return state{
		Lab: c.Lab, NetNS: c.NetNS, Address: c.Address, ServiceCIDRs: c.ServiceCIDRs, PodCIDRs: c.PodCIDRs,
		NodePorts: c.NodePorts, Background: c.Background,
	}
}

// loadState reads the state in a directory; nil where there is none.
func loadState(p paths) (*state, error) {
	b, err := os.ReadFile(p.state())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of the control plane: %w", err)
	}
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("state of the control plane in %s: %w", p.state(), err)
	}
	return &s, nil
}

func (s state) save(p paths) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("state of the control plane: %w", err)
	}
	return writeFile(p.state(), append(b, '\n'))
}

// mustEqual refuses to go on with data that was made for something else.
func (s state) mustEqual(want state) error {
	want.Port = s.Port
	have, asked := reflect.ValueOf(s), reflect.ValueOf(want)
	var errs []error
	for i := range have.NumField() {
		h, a := have.Field(i).Interface(), asked.Field(i).Interface()
		if !sameValue(h, a) {
			errs = append(errs, fmt.Errorf("%s is %v, asked for was %v", have.Type().Field(i).Name, h, a))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lab %s has a control plane with other settings, take it down first: %w", s.Lab, err)
	}
	return nil
}

func sameValue(a, b any) bool {
	// An empty list reads back as nil.
	if va, vb := reflect.ValueOf(a), reflect.ValueOf(b); va.Kind() == reflect.Slice && va.Len() == 0 && vb.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a, b)
}

// writeFile replaces a file as a whole, readable by this user alone.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // has mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when all went well
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
