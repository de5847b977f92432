package fake

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"proxylab/proxiers/ipvs/kernel"
)

// Ensure implements kernel.Links.
func (k *Kernel) Ensure(name string) error {
	if err := k.begin("add link"); err != nil {
		return err
	}
	if k.links[name] == nil {
		k.links[name] = &link{addrs: map[netip.Addr]bool{}}
	}
	return nil
}

// Remove implements kernel.Links.
func (k *Kernel) Remove(name string) error {
	if err := k.begin("remove link"); err != nil {
		return err
	}
	delete(k.links, name)
	return nil
}

// Addrs implements kernel.Links.
func (k *Kernel) Addrs(name string) ([]netip.Addr, bool, error) {
	k.asked("list addresses")
	l := k.links[name]
	if l == nil {
		return nil, false, nil
	}
	return slices.Collect(maps.Keys(l.addrs)), true, nil
}

// LocalAddrs implements kernel.Links.
func (k *Kernel) LocalAddrs(string) (map[netip.Addr]string, error) {
	k.asked("list local addresses")
	return maps.Clone(k.Local), nil
}

var errNoLink = errors.New("no such device")

// AddAddr implements kernel.Links.
func (k *Kernel) AddAddr(name string, a netip.Addr) error {
	if err := k.begin("add address"); err != nil {
		return err
	}
	l := k.links[name]
	switch {
	case l == nil:
		return errNoLink
	case l.addrs[a]:
		return kernel.ErrExists
	}
	l.addrs[a] = true
	return nil
}

// DeleteAddr implements kernel.Links.
func (k *Kernel) DeleteAddr(name string, a netip.Addr) error {
	if err := k.begin("remove address"); err != nil {
		return err
	}
	if l := k.links[name]; l != nil {
		delete(l.addrs, a)
	}
	return nil
}

// Note implements kernel.Links.
func (k *Kernel) Note(name string) (string, error) {
	if l := k.links[name]; l != nil {
		return l.note, nil
	}
	return "", nil
}

// SetNote implements kernel.Links.
func (k *Kernel) SetNote(name, text string) error {
	l := k.links[name]
	switch {
	case l == nil:
		return errNoLink
	case len(text) > 255:
		return errors.New("numerical result out of range")
	}
	l.note = text
	return nil
}

// Get implements kernel.Settings.
func (k *Kernel) Get(name string) (string, error) {
	v, ok := k.sysctl[name]
	if !ok {
		return "", errors.New("no such file or directory")
	}
	return v, nil
}

// Set implements kernel.Settings.
func (k *Kernel) Set(name, value string) error {
	if _, ok := k.sysctl[name]; !ok {
		return errors.New("no such file or directory")
	}
	k.sysctl[name] = value
	return nil
}
