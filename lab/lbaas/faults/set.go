package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Hooks are what faults do to the cloud. Their methods may be called side by side.
type Hooks interface {
	// Find gives the ids of resources of a kind by id, or by a pattern of their name.
	Find(kind, pattern string) []string
	// Edit and Delete are what somebody else does.
	Edit(id string, set map[string]any) error
	Delete(id string) error
	// Force holds a member in an operating status, and lets go of it with "".
	Force(member, status string) error
	// Kill ends an instance of the data plane; Active is a name too.
	Kill(instance string) error
	// Settle ends what is PENDING of a balancer.
	Settle(balancer string) error
	// Told hears what a fault does: on, off, strike, edit, delete, down, up, kill, failed.
	Told(name, what, target string)
}

// Set is the faults that are on. It is safe for concurrent use.
type Set struct {
	hooks Hooks

	mu     sync.Mutex
	active []*active
	named  int // for those without a name

	work sync.WaitGroup // what goes on by itself
}

// active is a fault that is on.
type active struct {
	Fault
	ctx          context.Context // ends when it is put off
	stop         context.CancelFunc
	seen, struck int
	held         map[string]bool // balancers that it keeps PENDING
}

// State is a fault that is on, and what it has done.
type State struct {
	Fault
	Seen   int `json:"seen"`   // requests of its operations
	Struck int `json:"struck"` // those that it chose
}

// NewSet is one without faults. Close ends it.
func NewSet(h Hooks) *Set { return &Set{hooks: h} }

// On puts faults on; one with the name of another that is on takes its place. It returns their names. They must be valid.
func (s *Set) On(list []Fault) []string {
	names := make([]string, len(list))
	for i, f := range list {
		s.mu.Lock()
		for f.Name == "" {
			s.named++
			if name := fmt.Sprintf("fault-%d", s.named); !slices.ContainsFunc(s.active, func(a *active) bool { return a.Name == name }) {
				f.Name = name
			}
		}
		s.mu.Unlock()
		s.Off(f.Name)
		ctx, stop := context.WithCancel(context.Background())
		a := &active{Fault: f, ctx: ctx, stop: stop, held: map[string]bool{}}
		s.mu.Lock()
		s.active = append(s.active, a)
		s.mu.Unlock()
		names[i] = f.Name
		s.hooks.Told(f.Name, "on", f.Operation)
		if f.acts() && f.Operation == "" {
			s.begin(a)
		}
	}
	return names
}

// Off takes faults off by name, all of them when none is named, and lets go of what they held. It returns those that were on.
func (s *Set) Off(names ...string) []string {
	s.mu.Lock()
	var gone []*active
	s.active = slices.DeleteFunc(s.active, func(a *active) bool {
		off := len(names) == 0 || slices.Contains(names, a.Name)
		if off {
			gone = append(gone, a)
		}
		return off
	})
	s.mu.Unlock()
	out := []string{}
	for _, a := range gone {
		a.stop()
		s.mu.Lock()
		held := slices.Sorted(maps.Keys(a.held))
		s.mu.Unlock()
		for _, balancer := range held {
			s.did(a, "settle", balancer, s.hooks.Settle(balancer))
		}
		s.hooks.Told(a.Name, "off", a.Operation)
		out = append(out, a.Name)
	}
	return out
}

// List says which faults are on.
func (s *Set) List() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []State{}
	for _, a := range s.active {
		out = append(out, State{Fault: a.Fault, Seen: a.seen, Struck: a.struck})
	}
	return out
}

// Close takes all faults off and waits for what they began.
func (s *Set) Close() {
	s.Off()
	s.work.Wait()
}

// matches says whether a list of patterns fits an operation.
func matches(patterns, operation string) bool {
	for p := range strings.FieldsSeq(patterns) {
		if ok, err := path.Match(p, operation); err == nil && ok {
			return true
		}
	}
	return false
}

// strike counts an operation, and gives the faults of a sort that choose it.
func (s *Set) strike(operation string, sort func(Fault) bool) []*active {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*active
	for _, a := range s.active {
		if a.Operation == "" || !sort(a.Fault) || !matches(a.Operation, operation) {
			continue
		}
		a.seen++
		if a.chooses() {
			a.struck++
			out = append(out, a)
		}
	}
	return out
}

func (a *active) chooses() bool {
	switch {
	case a.Nth > 0 && a.seen != a.Nth, a.Every > 0 && a.seen%a.Every != 0, a.Count > 0 && a.struck >= a.Count:
		return false
	}
	return a.Share == 0 || rand.Float64() < a.Share
}

// Outcome is what becomes of an operation that is being provisioned. The zero value: what should.
type Outcome struct {
	Hold    time.Duration // it stays PENDING for so much longer
	Forever bool          // it stays PENDING until Hooks.Settle
	Error   bool          // it ends in ERROR
}

// Provision is asked what becomes of an operation of a balancer.
func (s *Set) Provision(operation, balancer string) Outcome {
	var out Outcome
	for _, a := range s.strike(operation, Fault.onProvisioning) {
		out.Error = out.Error || a.Error
		if a.Pending != nil {
			out.Hold = max(out.Hold, a.Pending.Duration)
			s.mu.Lock()
			if a.Pending.Forever && a.ctx.Err() == nil { // it has not been taken off meanwhile: then nobody would let go
				a.held[balancer], out.Forever = true, true
			}
			s.mu.Unlock()
		}
		s.hooks.Told(a.Name, "strike", operation)
	}
	return out
}
