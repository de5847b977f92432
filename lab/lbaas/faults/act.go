package faults

import (
	"cmp"
	"fmt"
	"time"
)

// begin starts what a fault does by itself, or because of an operation.
func (s *Set) begin(a *active) {
	s.work.Go(func() {
		if !pause(a, time.Duration(a.After)) {
			return
		}
		switch {
		case a.Edit != nil:
			s.each(a, "edit", a.Edit.Kind, a.Edit.Name, func(id string) error { return s.hooks.Edit(id, a.Edit.Set) })
		case a.Delete != nil:
			s.each(a, "delete", a.Delete.Kind, a.Delete.Name, s.hooks.Delete)
		case a.Kill != "":
			s.did(a, "kill", a.Kill, s.hooks.Kill(a.Kill))
		case a.Flap != nil:
			s.flap(a)
		}
	})
}

// pause waits; false: the fault was put off meanwhile.
func pause(a *active, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return a.ctx.Err() == nil
	case <-a.ctx.Done():
		return false
	}
}

// did tells what a fault has done, or why it could not.
func (s *Set) did(a *active, what, target string, err error) {
	if err != nil {
		s.hooks.Told(a.Name, "failed", fmt.Sprintf("%s %s: %v", what, target, err))
		return
	}
	s.hooks.Told(a.Name, what, target)
}

// each does something to all resources that a pattern fits.
func (s *Set) each(a *active, what, kind, pattern string, do func(id string) error) {
	ids := s.hooks.Find(kind, pattern)
	if len(ids) == 0 {
		s.hooks.Told(a.Name, "failed", fmt.Sprintf("%s: there is no %s %s", what, kind, pattern))
	}
	for _, id := range ids {
		s.did(a, what, kind+" "+id, do(id))
	}
}

const flapTime = Duration(2 * time.Second)

// flap lets members fail and recover until the fault is put off, or as often as its count says.
func (s *Set) flap(a *active) {
	down := cmp.Or(a.Flap.Down, flapTime)
	up := cmp.Or(a.Flap.Up, down)
	for round := 0; a.Operation != "" || a.Count == 0 || round < a.Count; round++ {
		if round > 0 && !pause(a, time.Duration(up)) {
			return
		}
		members := s.hooks.Find("member", a.Flap.Member)
		if len(members) == 0 {
			s.hooks.Told(a.Name, "failed", "flap: there is no member "+a.Flap.Member)
		}
		for _, id := range members {
			s.did(a, "down", "member "+id, s.hooks.Force(id, "ERROR"))
		}
		going := pause(a, time.Duration(down))
		for _, id := range members {
			s.did(a, "up", "member "+id, s.hooks.Force(id, ""))
		}
		if !going {
			return
		}
	}
}
