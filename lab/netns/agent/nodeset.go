package agent

import (
	"context"
	"slices"
	"sync"

	"proxylab/lab/netns/fabric"
)

// Nodes says which nodes the agent is.
type Nodes struct {
	Count int      `json:"count"`
	Dead  []string `json:"dead,omitempty"` // without power: their agent does nothing
}

// nodeSet is the nodes as they are now. Nodes that were there once stay known, so that what ran on them can be cleared away.
type nodeSet struct {
	lab string

	mu      sync.Mutex
	nodes   map[string]*node
	changed chan struct{} // closed and replaced at every change
}

// node is one that the agent is, or was.
type node struct {
	fabric.Node
	pool    *pool
	dead    bool
	removed bool
	keep    context.CancelFunc // ends the keeping of it; nil: it is not kept
}

func newNodeSet(p fabric.Plan) *nodeSet {
	s := &nodeSet{lab: p.Lab, nodes: map[string]*node{}, changed: make(chan struct{})}
	for _, n := range p.Nodes() {
		s.nodes[n.Name] = &node{Node: n, pool: newPool(n)}
	}
	return s
}

// get finds a node.
func (s *nodeSet) get(name string) (fabric.Node, *pool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	if n == nil {
		return fabric.Node{}, nil, false
	}
	return n.Node, n.pool, true
}

// awaitPower returns when the node is alive, or ctx has ended.
func (s *nodeSet) awaitPower(ctx context.Context, name string) {
	for {
		s.mu.Lock()
		n, changed := s.nodes[name], s.changed
		dead := n != nil && n.dead
		s.mu.Unlock()
		if !dead {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// set makes the nodes what they are now, and has keep called for those that are to be kept from now on, each with a context
// that ends when it is not to be kept any more.
func (s *nodeSet) set(ctx context.Context, to Nodes, keep func(context.Context, fabric.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]bool{}
	for _, n := range (fabric.Plan{Lab: s.lab, Count: to.Count}).Nodes() {
		wanted[n.Name] = true
		if s.nodes[n.Name] == nil {
			s.nodes[n.Name] = &node{Node: n, pool: newPool(n)}
		}
	}
	for name, n := range s.nodes {
		n.removed, n.dead = !wanted[name], slices.Contains(to.Dead, name)
		switch kept := !n.removed && !n.dead; {
		case kept && n.keep == nil:
			keeping, stop := context.WithCancel(ctx)
			n.keep = stop
			keep(keeping, n.Node)
		case !kept && n.keep != nil:
			n.keep()
			n.keep = nil
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}
