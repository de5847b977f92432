package plane

import (
	"fmt"
	"time"
)

// Silence after which an instance counts as hung.
const (
	hungStopped = 500 * time.Millisecond // and the kernel says that it is stopped
	hungStarved = 3 * time.Second        // it may be waiting for a CPU
	// startGrace is for a process that has never said anything.
	startGrace = 30 * time.Second
	// lasted is the life after which an end is not the fault of the start.
	lasted = 5 * time.Second
)

// watch kills instances that are silent for too long.
func (st *state) watch(now time.Time) {
	late := !st.ticked.IsZero() && now.Sub(st.ticked) > 4*watchEvery
	st.ticked = now
	if late {
		return // this process was starved itself, and has lines to read
	}
	for _, p := range st.peers {
		if p.cause != "" || !st.hangs(p, now) {
			continue
		}
		p.cause, p.endedAt = Hung, p.lastSeen
		if err := p.proc.Kill(); err != nil {
			st.set.o.Log.Error("load balancer instance hangs", "instance", p.name, "error", err)
		}
	}
}

func (st *state) hangs(p *peer, now time.Time) bool {
	silent := now.Sub(p.lastSeen)
	if !p.heard {
		return silent > startGrace
	}
	if limit := st.set.o.HungAfter; limit > 0 {
		return silent > limit
	}
	return silent > hungStarved || silent > hungStopped && p.stopped()
}

// kill ends an instance; the name "" is the active one.
func (st *state) kill(name, cause string) error {
	p := st.peers[name]
	if name == "" {
		p = st.active
	}
	if p == nil {
		return fmt.Errorf("no load balancer instance %q is running", name)
	}
	if p.cause == "" {
		p.cause, p.endedAt = cause, time.Now()
	}
	return p.proc.Kill()
}

// ended takes the news that an instance is gone: the other one becomes active, and it is started again.
func (st *state) ended(p *peer, err error) {
	if st.peers[p.name] != p {
		return
	}
	delete(st.peers, p.name)
	if st.closing {
		return
	}
	if p.cause == "" {
		p.cause, p.endedAt = Died, time.Now()
	}
	st.set.o.Log.Warn("load balancer instance ended", "instance", p.name, "cause", p.cause, "status", err)
	if time.Since(p.started) > lasted {
		st.retries[p.name] = 0
	}
	if st.active == p {
		st.active = nil
		if fence := st.set.o.Fence; fence != nil {
			if err := fence(p.name); err != nil {
				st.set.o.Log.Error("VIPs of an instance that ended", "instance", p.name, "error", err)
			}
		}
		st.totals.instanceEnded()
		if st.failing == nil && p.role == Active {
			st.failing = &failing{
				event: Failover{From: p.name, Cause: p.cause},
				since: p.endedAt, flows: p.beat,
			}
		}
		st.choose()
	}
	st.restartLater(p.name)
}

// shutdown ends all instances, politely first.
func (st *state) shutdown() {
	st.closing = true
	for _, p := range st.peers {
		p.out.close()
	}
	limit := time.NewTimer(graceOfClose)
	defer limit.Stop()
	killed := false
	for len(st.peers) > 0 {
		select {
		case f := <-st.set.inbox:
			f(st)
		case <-limit.C:
			if killed {
				return // not even SIGKILL helps: nothing more can be done
			}
			killed = true
			for _, p := range st.peers {
				_ = p.proc.Kill()
			}
			limit.Reset(graceOfClose)
		}
	}
	for _, w := range st.waiters {
		w.result <- errClosed
	}
}
