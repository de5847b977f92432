// Package lab is the seam between a cluster to experiment on and those who use it.
package lab

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"
)

// Lab is a running (or about to run) cluster. Every method is safe to repeat, and fails within its context's time.
type Lab interface {
	Name() string
	Kind() string // "netns", "kind"

	// Up makes the lab as its options say. On a lab that is up already it completes what is missing.
	Up(ctx context.Context) error
	// Down removes everything the lab put on the machine, by name, also after a crash in the middle.
	Down(ctx context.Context) error

	// Kubeconfig is the path of a kubeconfig that plain kubectl on this machine uses.
	Kubeconfig() string
	Nodes(ctx context.Context) ([]Node, error)

	// Exec starts a command at a place in the lab; it ends when ctx does.
	Exec(ctx context.Context, where Place, cmd Command) (Process, error)

	// StartProxier starts a proxier on a node and returns once its first complete sync is in the kernel.
	// It fails when one runs there already.
	StartProxier(ctx context.Context, node string, p ProxierSpec) error
	// StopProxier ends the one that runs on a node, if any. Its rules stay.
	StopProxier(ctx context.Context, node string) error
	// CleanupProxier removes what a proxier left in a node. It returns what is still there afterwards.
	CleanupProxier(ctx context.Context, node string, p ProxierSpec) (leftovers []string, err error)
	// Proxier says what runs on a node now; nil: nothing.
	Proxier(ctx context.Context, node string) (*ProxierState, error)
}

// NodeLabel is a label of each node with the name that scenarios have for it: node1 is the first. What it is called in the
// cluster is up to the kind of lab.
const NodeLabel = "proxylab.io/node"

// MadeLabel is a label of the objects that are put into a cluster for a time, and Manager its value and who the API is told
// makes and changes objects. Nothing else in the cluster is changed or deleted, and a cluster that stays when the lab goes is rid of
// them then.
const (
	MadeLabel = "proxylab.io/made-by"
	Manager   = "proxylab"
)

// NodeName is what scenarios call the i-th node of Lab.Nodes, from 0.
func NodeName(i int) string { return fmt.Sprintf("node%d", i+1) }

// Node is a node of a lab.
type Node struct {
	Name      string
	Addresses []netip.Addr // IPv4 first
}

// Place is where a command runs. The zero value is the outside client, next to the nodes but not one of them.
type Place struct {
	Node      string // on this node, in its network
	Namespace string // in this pod's network
	Pod       string
}

// Command is a program to run. Args[0] is looked up in PATH; "proxylab" means this binary.
type Command struct {
	Args   []string
	Env    []string // added to the place's own
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Process is a running command.
type Process interface {
	Wait() error // as (*exec.Cmd).Wait
	Interrupt() error
	Kill() error
}

// ProxierSpec says which proxier, and how it runs: on equal terms for all.
type ProxierSpec struct {
	Name          string // "iptables", "kube-proxy/nftables", ...
	Backend       string // iptables back end: "legacy", "nft", "" (the machine's own)
	Scheduler     string // of IPVS; "": the proxier's default
	Fallback      string // proxier that runs where the node cannot run the named one; "": none
	TakenOverBy   string // for CleanupProxier: the proxier that runs now, whose rules stay; "": none
	MinSyncPeriod time.Duration
	SyncPeriod    time.Duration
}

// ProxierState is a proxier at work on a node.
type ProxierState struct {
	ProxierSpec
	PID     int       // on this machine
	Started time.Time //
	Reports string    // file of JSON lines, one per sync (proxiers/runner.Report), growing
	Log     string    // file with what it says
}

// Info is what can be said about a lab from outside.
type Info struct {
	Name     string
	Kind     string            // "netns", "kind"
	Nodes    int               // 0: not known, nothing but leftovers
	Created  time.Time         // zero: not known
	Proxiers map[string]string // node -> proxier that runs there
	LBaaS    string            // URL of the API of its load balancers; empty: it has none
	// Complete: everything that Up makes is there and runs. Otherwise it is being made, or left over from a crash.
	Complete bool
}

// Missing says that this machine lacks something that was asked for, and what to do about it.
type Missing struct {
	What   string // "network namespaces cannot be made: operation not permitted"
	Remedy string // "run it as root: sudo proxylab up"
}

func (m Missing) Error() string { return m.What + " (" + m.Remedy + ")" }
