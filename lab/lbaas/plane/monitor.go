package plane

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"time"

	"proxylab/lab/lbaas/plane/check"
)

// firstProbeWithin spreads the first probes of many members.
const firstProbeWithin = 100 * time.Millisecond

// watch asks one member again and again.
type watch struct {
	probe          check.Spec
	every, timeout time.Duration
	stop           context.CancelFunc
}

// startWatch asks soon, and then every delay; answered gets every result until stop is called, and perhaps one more.
func startWatch(probe check.Spec, m Monitor, answered func(*watch, error)) *watch {
	w := &watch{probe: probe, every: delayOf(m), timeout: timeoutOf(m)}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go w.run(ctx, answered)
	return w
}

func delayOf(m Monitor) time.Duration { return max(m.Delay, 10*time.Millisecond) }

// timeoutOf is no longer than the delay, as Octavia demands of a monitor.
func timeoutOf(m Monitor) time.Duration {
	if m.Timeout <= 0 {
		return delayOf(m)
	}
	return min(m.Timeout, delayOf(m))
}

// is says whether the watch does what is wanted already.
func (w *watch) is(probe check.Spec, m Monitor) bool {
	return reflect.DeepEqual(w.probe, probe) && w.every == delayOf(m) && w.timeout == timeoutOf(m)
}

func (w *watch) run(ctx context.Context, answered func(*watch, error)) {
	first := time.NewTimer(rand.N(min(firstProbeWithin, w.every)))
	defer first.Stop()
	select {
	case <-first.C:
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		probing, cancel := context.WithTimeout(ctx, w.timeout)
		err := check.Probe(probing, w.probe)
		cancel()
		if ctx.Err() != nil {
			return
		}
		answered(w, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// probeOf is how a member is asked.
func probeOf(p Pool, m Member) check.Spec {
	s := check.Spec{
		Type: p.Monitor.Type, Target: netip.AddrPortFrom(m.Address, m.Port),
		Method: p.Monitor.Method, Path: p.Monitor.Path, ExpectedCodes: p.Monitor.ExpectedCodes,
		HTTPVersion: p.Monitor.HTTPVersion, DomainName: p.Monitor.DomainName,
	}
	if !m.MonitorAddress.IsValid() && m.MonitorPort == 0 {
		s.Preface = prefaceOfProbe(p.Protocol)
	}
	if m.MonitorAddress.IsValid() {
		s.Target = netip.AddrPortFrom(m.MonitorAddress, s.Target.Port())
	}
	if m.MonitorPort != 0 {
		s.Target = netip.AddrPortFrom(s.Target.Addr(), m.MonitorPort)
	}
	return s
}
