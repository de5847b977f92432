// Package kernel is what the ipvs proxier needs of the kernel: virtual servers, the link that holds their addresses, ipsets
// and settings. Package fake has the same without a kernel.
package kernel

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Key names a virtual server.
type Key struct {
	Addr     netip.AddrPort
	Protocol corev1.Protocol
}

func (k Key) String() string { return string(k.Protocol) + " " + k.Addr.String() }

// Flags of a virtual server, linux/ip_vs.h.
const (
	Persistent = 0x1  // clients stay with their server
	Sched1     = 0x8  // sh, mh: another server where the one chosen is not available
	Sched2     = 0x10 // mh: the source port counts too

	// KnownFlags are those that the proxier sets; the kernel reports others that it sets itself.
	KnownFlags = Persistent | Sched1 | Sched2
)

// Server is a virtual server.
type Server struct {
	Key
	Scheduler string
	Flags     uint32
	Timeout   uint32 // of persistence, in seconds; 0 where there is none
}

// Destination is a real server behind a virtual one.
type Destination struct {
	Addr             netip.AddrPort
	Weight           int
	Active, Inactive int // connections
	Masquerade       bool
}

// Table is the kernel's table of virtual servers. Errors wrap the kernel's: ErrExists, ErrNoServer, ErrNoDestination.
type Table interface {
	Servers() ([]Server, error)
	Destinations(Key) ([]Destination, error)
	AddServer(Server) error
	UpdateServer(Server) error
	DeleteServer(Key) error
	// Destinations are added, with masquerading as the way to forward, changed and deleted by address.
	AddDestination(Key, netip.AddrPort, int) error
	UpdateDestination(Key, netip.AddrPort, int) error
	DeleteDestination(Key, netip.AddrPort) error
}

// Links are the network interfaces.
type Links interface {
	// Ensure makes the dummy link unless it is there.
	Ensure(name string) error
	// Remove deletes it; that it is not there is no error.
	Remove(name string) error
	// Addrs are the addresses on a link; there is false where there is no such link.
	Addrs(name string) (addrs []netip.Addr, there bool, err error)
	// LocalAddrs are the node's other addresses, with the link of each: all but those of the link named, loopback and
	// link-local ones.
	LocalAddrs(except string) (map[netip.Addr]string, error)
	AddAddr(name string, a netip.Addr) error
	DeleteAddr(name string, a netip.Addr) error
	// Note is a text that is kept with a link, of at most 255 bytes; empty if there is none.
	Note(name string) (string, error)
	SetNote(name, text string) error
}

// Sets are the kernel's ipsets.
type Sets interface {
	// Restore feeds "ipset restore -exist". What comes before a line that fails is done.
	Restore(ctx context.Context, input []byte) error
	// Save prints all sets as "create" and "add" lines.
	Save(ctx context.Context) (string, error)
	// Counts are the numbers of entries by set.
	Counts(ctx context.Context) (map[string]int, error)
}

// Settings are the files below /proc/sys, named like "net/ipv4/vs/conntrack".
type Settings interface {
	Get(name string) (string, error)
	Set(name, value string) error
}

// Kernel is all of it.
type Kernel struct {
	Table    Table
	Links    Links
	Sets     Sets
	Settings Settings
}

// What the kernel answers.
var (
	ErrExists        = errors.New("it exists already")
	ErrNoServer      = errors.New("there is no such virtual server")
	ErrNoDestination = errors.New("there is no such destination")
	ErrNoScheduler   = errors.New("the kernel has no such scheduler")
)
