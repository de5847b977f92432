// Package conformance is what a Service proxy must do to packets, as a table of behaviours that runs against any proxier
// on the nodes of a lab.
//
// A behaviour is a Row: a function over a T that makes Services and EndpointSlices in the Kubernetes API, waits until the
// nodes' data path has taken them in (T.Settle), and asks from places in the lab who answers. It uses nothing of a
// proxier but what packets and the API show, so that native and upstream proxiers are judged alike. Package rows has the
// rows, package dialer asks.
package conformance

import (
	"context"
	"io"
	"net/netip"

	"k8s.io/client-go/kubernetes"
)

// Cluster is the lab that behaviours are tried in.
type Cluster interface {
	Kind() string // "netns", "kind"
	Client() kubernetes.Interface
	// Labels are of the namespaces that are made. One without them is somebody else's.
	Labels() map[string]string
	// Nodes lists at least two nodes.
	Nodes() []Node
	// Exec starts a program at a place; it is killed when ctx ends. "proxylab" is this program itself.
	Exec(ctx context.Context, at Place, cmd Command) (Process, error)
	// Start starts a proxier on a node and returns once it has synced; Stop ends it politely, and its rules stay; Kill
	// ends it at once, as a crash does. Both are content if nothing runs.
	Start(ctx context.Context, node string, p Proxier) error
	Stop(ctx context.Context, node string) error
	Kill(ctx context.Context, node string) error
	// Cleanup removes what the proxier's mode left on a node and returns what is still there.
	Cleanup(ctx context.Context, node string, p Proxier) (leftovers []string, err error)
	// Running says what the proxier of a node told of itself after its last sync.
	Running(ctx context.Context, node string) (State, error)
}

// Proxier is a proxier under test.
type Proxier struct {
	Name   string // "iptables", "kube-proxy/iptables"
	Mode   string // "iptables": what kind of rules it makes
	Native bool   // ours
}

// State is what a running proxier says of itself.
type State struct {
	Proxier string // the one in effect, where it tells
	Backend string // of iptables, where it tells
	Error   string // of its last sync; empty: it succeeded
	Log     string // the end of its log
}

// Node is a node of the lab.
type Node struct {
	Name      string
	Addresses []netip.Addr // IPv4 first
}

// Addr is the node's address in a family.
func (n Node) Addr(f Family) netip.Addr {
	for _, a := range n.Addresses {
		if a.Is6() == (f == IPv6) {
			return a
		}
	}
	return netip.Addr{}
}

// Place is where a program runs; the zero value is the outside client, beside the nodes.
type Place struct {
	Node           string
	Namespace, Pod string
}

// Command is a program with its arguments.
type Command struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Process is a program that runs.
type Process interface {
	Wait() error // as (*exec.Cmd).Wait
	Kill() error
}

// Family is an IP family.
type Family int

// The families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

func (f Family) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}
