// Package bed is a test bed for proxiers: two nodes, pods and an outside client, each a real network namespace, without
// Kubernetes. Tests assert what happens to a connection, not the text of a rule.
//
//	outside (10.10.0.1, .2) ── bridge ──┬── node1 10.10.0.11 ── client, client2, local1, local2   10.244.1.0/24
//	                                    └── node2 10.10.0.12 ── remote1, remote2                  10.244.2.0/24
//
// Everything is dual stack (fd00:10:10::/64 for nodes, fd00:10:244:<node>::/64 for pods) and routed both ways. The proxier
// under test programs node1, which has its own mount namespace with an empty /run. The outside client reaches Service,
// external and balancer addresses through node1.
//
// A bed leaves nothing on the machine, also when the test process is killed, and beds may run in parallel.
package bed

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Places of a bed, beside its backends.
const (
	Node    = "node1"   // the proxier's
	Node2   = "node2"   //
	Outside = "outside" // next to the nodes, not one of them
	Client  = "client"  // a pod on node1
	Client2 = "client2" // another one
)

// Ports of the servers in every backend pod.
const (
	TCPPort = 8081
	UDPPort = 8082
)

// T is what a bed needs of a test; *testing.T and *testing.B have it.
type T interface {
	Helper()
	Log(...any)
	Logf(string, ...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
	Skip(...any)
	Failed() bool
	Cleanup(func())
}

// Bed is the running test bed. Its methods are safe for concurrent use, except Close.
type Bed struct {
	t      T
	spaces map[string]space
	pods   map[string]Pod
	order  []string // pods in order of creation
	closer []func()
	// Timeout bounds each attempt to dial and each answer; what takes longer counts as KindTimeout.
	Timeout time.Duration
}

// Pod is a pod of the bed.
type Pod struct {
	Name   string
	Node   string
	V4, V6 netip.Addr
}

// Option changes what New builds.
type Option func(*plan)

type plan struct{ local, remote int }

// Pods sets the number of backends on node1 (local1, local2, ...) and on node2 (remote1, ...); 2 and 2 if not given.
// At most 100 each.
func Pods(local, remote int) Option {
	return func(p *plan) { p.local, p.remote = local, remote }
}

// New builds a bed that is gone when the test ends. It skips the test when it is not run by root.
func New(t T, options ...Option) *Bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make network namespaces")
	}
	p := plan{local: 2, remote: 2}
	for _, o := range options {
		o(&p)
	}
	b := &Bed{t: t, spaces: map[string]space{}, pods: map[string]Pod{}, Timeout: 3 * time.Second}
	t.Cleanup(b.close)
	if err := b.build(p); err != nil {
		t.Fatalf("test bed: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.Dump())
		}
	})
	return b
}

func (b *Bed) close() {
	for i := len(b.closer) - 1; i >= 0; i-- {
		b.closer[i]()
	}
	for _, s := range b.spaces {
		s.close()
	}
}

// NodeAddr is the address of node 1 or 2 in the family of like.
func NodeAddr(node int, v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:10::%x", 10+node))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.10.0.%d", 10+node))
}

// OutsideAddr is the nth address, 1 or 2, of the outside client.
func OutsideAddr(n int, v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:10::%x", n))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.10.0.%d", n))
}

// Pod returns a pod by name. It fails the test where there is none.
func (b *Bed) Pod(name string) Pod {
	b.t.Helper()
	p, ok := b.pods[name]
	if !ok {
		b.t.Fatalf("test bed has no pod %q; it has %s", name, strings.Join(b.order, ", "))
	}
	return p
}

// Addr is the pod's address in a family.
func (p Pod) Addr(v6 bool) netip.Addr {
	if v6 {
		return p.V6
	}
	return p.V4
}

// RunIn calls f on a thread inside a place's namespaces. Sockets opened and commands started by f itself belong there,
// but not what goroutines of f do: run a proxier that has some by Bed.Proxier.
func (b *Bed) RunIn(place string, f func() error) error {
	s, ok := b.spaces[place]
	if !ok {
		return fmt.Errorf("test bed has no place %q", place)
	}
	return s.do(f)
}

// RunInNode is RunIn(Node, f): the node's network and its own /run.
func (b *Bed) RunInNode(f func() error) error { return b.RunIn(Node, f) }

// Exec runs a command at a place and returns its standard output. The error carries arguments and standard error.
func (b *Bed) Exec(place, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := b.RunIn(place, cmd.Start); err != nil {
		return "", fmt.Errorf("at %s: %s: %w", place, strings.Join(args, " "), err)
	}
	if err := cmd.Wait(); err != nil {
		return stdout.String(), fmt.Errorf("at %s: %s: %w: %s", place, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// MustExec is Exec that fails the test.
func (b *Bed) MustExec(place string, args ...string) string {
	b.t.Helper()
	out, err := b.Exec(place, "", args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}
