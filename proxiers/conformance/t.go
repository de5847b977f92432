package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"

	"proxylab/proxiers/conformance/dialer"
)

// T is one trial of a row with a proxier. Its methods, but for Errorf and those of what it returns, are called from the
// row's own goroutine: what cannot go on ends that.
type T struct {
	ctx       context.Context
	log       *slog.Logger
	proxier   Proxier
	world     *world
	sentinel  *sentinel
	namespace string
	kills     int
	patience  func(time.Duration) time.Duration

	mu       sync.Mutex
	failures []string
	why      string // why it does not apply after all
	undo     undoing
	flows    int
	routed   map[netip.Addr]bool // by RouteVia
}

// Context ends with the row's time.
func (t *T) Context() context.Context { return t.ctx }

// Mode is the kind of rules that the proxier makes.
func (t *T) Mode() string { return t.proxier.Mode }

// Proxier is the proxier under test.
func (t *T) Proxier() Proxier { return t.proxier }

// Kills is how often the row that kills the proxier is to do so.
func (t *T) Kills() int { return t.kills }

// Namespace is the row's own; its Services are in it.
func (t *T) Namespace() string { return t.namespace }

// Errorf says that the behaviour does not hold, and goes on.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

// Fatalf says that it does not hold, and ends the trial.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Check ends the trial with an error that is not nil.
func (t *T) Check(err error) {
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// NotApplicable ends the trial: what it needs cannot be had here.
func (t *T) NotApplicable(format string, args ...any) {
	t.mu.Lock()
	t.why = fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// Logf says something to whoever wants to know more.
func (t *T) Logf(format string, args ...any) { t.log.Debug(fmt.Sprintf(format, args...)) }

// Cleanup runs f when the trial is over, last one first.
func (t *T) Cleanup(f func(context.Context) error) { t.undo.add(f) }

// Settle returns when the data paths of both nodes obey what is in the API.
func (t *T) Settle() { t.Check(t.sentinel.settle(t.ctx)) }

// Families runs f for each family.
func (t *T) Families(f func(Family)) {
	f(IPv4)
	f(IPv6)
}

// PodAddr is a pod's address.
func (t *T) PodAddr(pod string, f Family) netip.Addr { return t.world.pods[pod].ips[f] }

// Node is node 1 or 2.
func (t *T) Node(number int) Node { return t.world.nodes[number-1] }

// Own is the address that a place uses for itself when it speaks to a pod on node 1 without any Service.
func (t *T) Own(place string, f Family) netip.Addr {
	if p, ok := t.world.pods[place]; ok {
		return p.ips[f]
	}
	direct := Target{dialer.TCP, netip.AddrPortFrom(t.PodAddr(Local1, f), tcpPort), "pod " + Local1}
	got := t.Ask(place, direct).Times(1).Answers(Local1)
	for seen := range got.Seen {
		a, err := netip.ParseAddr(seen)
		t.Check(err)
		return a
	}
	t.Fatalf("cannot tell the address of %s", place)
	return netip.Addr{}
}

// Service makes a Service without endpoints.
func (t *T) Service(name string, ports []Port, edits ...func(*service)) *Service {
	s := &Service{ctx: t.ctx, t: t, world: t.world, namespace: t.namespace, name: name, ports: ports, edits: edits}
	t.Check(s.create())
	t.Cleanup(s.remove)
	return s
}

// Web makes a Service with a TCP and a UDP port 80.
func (t *T) Web(edits ...func(*service)) *Service {
	return t.Service("web", []Port{TCP, UDP}, edits...)
}

// Run runs a program at a place and returns what it wrote.
func (t *T) Run(place string, args ...string) (string, error) {
	return t.world.runAt(t.ctx, place, args...)
}

// MustRun is Run for programs whose failure ends the trial.
func (t *T) MustRun(place string, args ...string) string {
	out, err := t.Run(place, args...)
	t.Check(err)
	return out
}

// Background runs a program at a place until the trial is over or what is returned is called.
func (t *T) Background(place string, args ...string) (stop func()) {
	at, what := t.world.place(place)
	proc, err := t.world.cluster.Exec(t.ctx, at, Command{Args: args})
	if err != nil {
		t.Fatalf("%s: %s: %v", what, strings.Join(args, " "), err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = proc.Kill() // it may have ended by itself
			_ = proc.Wait()
		})
	}
	t.Cleanup(func(context.Context) error { stop(); return nil })
	return stop
}

// Undo runs a program at a place when the trial is over.
func (t *T) Undo(place string, args ...string) {
	at, what := t.world.place(place)
	t.Cleanup(func(ctx context.Context) error {
		_, err := runAt(ctx, t.world.cluster, at, what, args...)
		return err
	})
}

func runAt(ctx context.Context, c Cluster, at Place, what string, args ...string) (string, error) {
	var out, stderr bytes.Buffer
	proc, err := c.Exec(ctx, at, Command{Args: args, Stdout: &out, Stderr: &stderr})
	if err == nil {
		err = proc.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s: %s: %w: %s", what, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out.String(), err
}

// RouteVia has the outside send an address to a node of the lab, until the trial is over.
func (t *T) RouteVia(a netip.Addr, node int) {
	f := IPv4
	if a.Is6() {
		f = IPv6
	}
	prefix := netip.PrefixFrom(a, a.BitLen()).String()
	if t.routed[a] {
		return
	}
	t.routed[a] = true
	t.MustRun(Outside, "ip", fmt.Sprintf("-%d", f), "route", "replace", prefix, "via", t.Node(node).Addr(f).String())
	t.Cleanup(func(ctx context.Context) error {
		_, err := t.world.runAt(ctx, Outside, "ip", fmt.Sprintf("-%d", f), "route", "del", prefix)
		return err
	})
}

// OwnAddresses are those of one family that a place has, on any link of its own.
func (t *T) OwnAddresses(place string, f Family) (all []netip.Addr) {
	for line := range strings.Lines(t.MustRun(place, "ip", fmt.Sprintf("-%d", f), "-o", "addr")) {
		for _, field := range strings.Fields(line) {
			if p, err := netip.ParsePrefix(field); err == nil {
				all = append(all, p.Addr())
			}
		}
	}
	return all
}

// Address is an address of the ranges for documentation that no other row uses.
func (t *T) Address(f Family) netip.Addr { return t.world.address(f) }

// StartProxier starts the proxier on a node; StopProxier ends it politely, KillProxier at once.
func (t *T) StartProxier(node int) {
	t.Check(t.world.cluster.Start(t.ctx, t.Node(node).Name, t.proxier))
}

// StopProxier ends the proxier of a node politely.
func (t *T) StopProxier(node int) { t.Check(t.world.cluster.Stop(t.ctx, t.Node(node).Name)) }

// KillProxier ends the proxier of a node at once.
func (t *T) KillProxier(node int) { t.Check(t.world.cluster.Kill(t.ctx, t.Node(node).Name)) }

// TryStart is StartProxier for whoever kills it meanwhile.
func (t *T) TryStart(ctx context.Context, node int) error {
	return t.world.cluster.Start(ctx, t.Node(node).Name, t.proxier)
}

// CleanupProxier removes the mode's rules from a node, and returns what is left by its own account.
func (t *T) CleanupProxier(node int) []string {
	left, err := t.world.cluster.Cleanup(t.ctx, t.Node(node).Name, t.proxier)
	t.Check(err)
	return left
}

// Running is what the proxier of a node says of itself.
func (t *T) Running(node int) State {
	s, err := t.world.cluster.Running(t.ctx, t.Node(node).Name)
	t.Check(err)
	return s
}

// Eventually asks again and again until cond says "", which it must within limit; otherwise what it said last is the
// failure.
func (t *T) Eventually(limit time.Duration, cond func() string) {
	limit = t.patience(limit)
	deadline := time.Now().Add(limit)
	for {
		said := cond()
		if said == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("after %s still: %s", limit, said)
			return
		}
		select {
		case <-t.ctx.Done():
			t.Fatalf("%s: %v", said, context.Cause(t.ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// dial asks the dialer at a place.
func (t *T) dial(place string, r dialer.Request) dialer.Answer {
	d, err := t.world.dialer(t.ctx, place)
	t.Check(err)
	if r.Timeout == 0 {
		r.Timeout = t.patience(dialer.DefaultTimeout)
	}
	a, err := d.Ask(t.ctx, r)
	var lack dialer.LackError
	if errors.As(err, &lack) {
		t.NotApplicable("the kernel lacks it: %s", lack.What)
	}
	t.Check(err)
	return a
}

// flow makes a name for what stays open.
func (t *T) flow() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flows++
	return fmt.Sprintf("%s-%d", t.namespace, t.flows)
}
