package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"proxylab/proxiers/conformance/dialer"
)

// Many is how often to ask in order to meet all of up to four endpoints that are chosen at random: all but once in some
// hundred million times. Enough is after how many attempts to stop where all were met: one more endpoint, which should
// not be there, is missed once in two hundred times. Few is how often to ask for what must be the same each time.
const (
	Many   = 70
	Enough = 24
	Few    = 5
)

// Target is what is asked.
type Target struct {
	Network string
	Addr    netip.AddrPort
	What    string // "cluster IP"
}

func (t Target) String() string { return fmt.Sprintf("%s %s (%s)", t.What, t.Addr, t.Network) }

func (t Target) family() Family {
	if t.Addr.Addr().Is6() {
		return IPv6
	}
	return IPv4
}

// On is the target at another port.
func (t Target) On(port uint16) Target {
	t.Addr = netip.AddrPortFrom(t.Addr.Addr(), port)
	return t
}

// Asking is a number of connections or datagrams from a place to a target.
type Asking struct {
	t      *T
	from   string
	to     Target
	req    dialer.Request
	source string // what the backends must see: "", "kept", "masqueraded"
}

// Ask prepares to ask a target from a place; each of Answers, Refused, Fails and Tally then does.
func (t *T) Ask(from string, to Target) *Asking {
	return &Asking{t: t, from: from, to: to, req: dialer.Request{Do: dialer.Dial, Network: to.Network, To: to.Addr}}
}

func (a *Asking) String() string {
	_, from := a.t.world.place(a.from)
	return fmt.Sprintf("from %s to %s", from, a.to)
}

// Times is how often; by default it is Few, or Many where several answers are expected.
func (a *Asking) Times(n int) *Asking { a.req.Count = n; return a }

// Parallel is how many at a time; by default 8.
func (a *Asking) Parallel(n int) *Asking { a.req.Parallel = n; return a }

// FromPorts are the source ports to use by turns.
func (a *Asking) FromPorts(first, last uint16) *Asking {
	a.req.FromPort, a.req.LastPort = first, last
	return a
}

// Within is how long an attempt may take; by default two seconds.
func (a *Asking) Within(d time.Duration) *Asking { a.req.Timeout = d; return a }

// Path is that of HTTP.
func (a *Asking) Path(p string) *Asking { a.req.Path = p; return a }

// Abort ends TCP connections by a reset.
func (a *Asking) Abort() *Asking { a.req.Abort = true; return a }

// Kept expects backends to see the address of the place itself.
func (a *Asking) Kept() *Asking { a.source = "kept"; return a }

// Masqueraded expects backends to see another address than that of the place.
func (a *Asking) Masqueraded() *Asking { a.source = "masqueraded"; return a }

// Tally asks and says what was met.
func (a *Asking) Tally() dialer.Tally {
	if a.req.Count == 0 {
		a.req.Count = Few
	}
	if a.req.Parallel == 0 {
		a.req.Parallel = 8
	}
	return a.t.dial(a.from, a.req).Tally
}

// Together asks all of them at the same time.
func (t *T) Together(all ...*Asking) []dialer.Tally {
	tallies, errs := make([]dialer.Tally, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for i, a := range all {
		wg.Go(func() {
			d, err := t.world.dialer(t.ctx, a.from)
			if err == nil {
				var got dialer.Answer
				got, err = d.Ask(t.ctx, a.req)
				tallies[i] = got.Tally
			}
			errs[i] = err
		})
	}
	wg.Wait()
	t.Check(errors.Join(errs...))
	return tallies
}

// Answers expects that each of these answers, and nothing else is met.
func (a *Asking) Answers(pods ...string) dialer.Tally {
	if a.req.Count == 0 && len(pods) > 1 {
		a.req.Count, a.req.Least, a.req.Names = Many, Enough, pods
	}
	got := a.Tally()
	a.expect(got, pods)
	a.expectSource(got)
	return got
}

// Among expects answers from these alone, and not necessarily from each.
func (a *Asking) Among(pods ...string) dialer.Tally {
	got := a.Tally()
	for pod := range got.Pods {
		if !slices.Contains(pods, pod) {
			a.expect(got, pods)
			return got
		}
	}
	if got.Failed() > 0 {
		a.expect(got, pods)
	}
	return got
}

// Refused expects a refusal each time: twice, one after the other, unless the asking says otherwise, because the kernel
// rations ICMP errors to a burst of six for each client and then one a second.
func (a *Asking) Refused() dialer.Tally {
	if a.req.Count == 0 {
		a.Times(2).Parallel(1)
	}
	if a.req.Timeout == 0 {
		a.Within(5 * time.Second)
	}
	return a.Fails(dialer.Refused)
}

// Dropped expects no reaction at all.
func (a *Asking) Dropped() dialer.Tally {
	if a.req.Timeout == 0 {
		a.req.Timeout = time.Second
	}
	return a.Fails(dialer.TimedOut)
}

// Unanswered expects that nobody answers, however that shows.
func (a *Asking) Unanswered() dialer.Tally {
	if a.req.Timeout == 0 {
		a.req.Timeout = time.Second
	}
	got := a.Tally()
	if len(got.Pods) > 0 {
		a.fail("no answer from anybody", got)
	}
	return got
}

// Fails expects each attempt to fail in this way.
func (a *Asking) Fails(kind string) dialer.Tally {
	got := a.Tally()
	if len(got.Pods) > 0 || len(got.Failures) != 1 || got.Failures[kind] == 0 {
		a.fail("each "+kind, got)
	}
	return got
}

func (a *Asking) expect(got dialer.Tally, pods []string) {
	met := slices.Sorted(maps.Keys(got.Pods))
	want := slices.Sorted(slices.Values(pods))
	if !slices.Equal(met, want) || got.Failed() > 0 {
		a.fail(strings.Join(want, ", ")+" and nothing else", got)
	}
}

func (a *Asking) expectSource(got dialer.Tally) {
	if a.source == "" || len(got.Seen) == 0 {
		return
	}
	own := a.t.Own(a.from, a.to.family()).String()
	switch {
	case a.source == "kept" && (len(got.Seen) != 1 || got.Seen[own] == 0):
		a.fail("backends to see "+own+", the source's own address", got)
	case a.source == "masqueraded" && got.Seen[own] > 0:
		a.fail("backends not to see "+own+", the source's own address", got)
	}
}

func (a *Asking) fail(want string, got dialer.Tally) {
	met := describe(got)
	if a.source != "" {
		met += fmt.Sprintf(", seen as %s", strings.Join(slices.Sorted(maps.Keys(got.Seen)), ", "))
	}
	a.t.Errorf("%s: want %s; met %s", a, want, met)
}

// describe says what a tally holds: "local1: 3, refused: 2".
func describe(got dialer.Tally) string {
	var parts []string
	for _, counts := range []map[string]int{got.Pods, got.Failures} {
		for _, k := range slices.Sorted(maps.Keys(counts)) {
			parts = append(parts, fmt.Sprintf("%s: %d", k, counts[k]))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Flow is a connection, or datagrams from one port, that stays open until the trial is over.
type Flow struct {
	Pod  string // who answered first; of UDP nobody yet
	t    *T
	from string
	to   Target
	name string
}

// Open opens a flow; port is its source port, 0: any.
func (t *T) Open(from string, to Target, port uint16) *Flow {
	f := &Flow{t: t, from: from, to: to, name: t.flow()}
	a := t.dial(from, dialer.Request{Do: dialer.Open, Network: to.Network, To: to.Addr, Flow: f.name, FromPort: port})
	_, what := t.world.place(from)
	if a.Failed() > 0 {
		t.Fatalf("from %s to %s: met %s: %s", what, to, describe(a.Tally), a.Said)
	}
	for pod := range a.Pods {
		f.Pod = pod
	}
	t.Cleanup(func(ctx context.Context) error {
		if d, err := t.world.dialer(ctx, from); err == nil {
			_, _ = d.Ask(ctx, dialer.Request{Do: dialer.Close, Flow: f.name, Abort: true}) // the row may have closed it
		}
		return nil
	})
	return f
}

// Say sends something and says what came back.
func (f *Flow) Say(within time.Duration) dialer.Tally {
	return f.t.dial(f.from, dialer.Request{Do: dialer.Say, Flow: f.name, Timeout: within}).Tally
}

// Answers expects the flow to be answered by this pod, or to fail in this way.
func (f *Flow) Answers(want, when string) {
	got := f.Say(0)
	if got.Pods[want]+got.Failures[want] == 0 {
		_, from := f.t.world.place(f.from)
		f.t.Errorf("flow from %s to %s, %s: want %s; met %s", from, f.to, when, want, describe(got))
	}
}

// Close ends the flow in good order.
func (f *Flow) Close() { f.t.dial(f.from, dialer.Request{Do: dialer.Close, Flow: f.name}) }

// Steady begins to ask a target at even intervals; what is returned ends that and says what was met.
func (t *T) Steady(from string, to Target, every time.Duration) (stop func() dialer.Tally) {
	name := t.flow()
	every = t.patience(every) // more than a kernel can bear would time out for that reason
	t.dial(from, dialer.Request{Do: dialer.Steady, Network: to.Network, To: to.Addr, Flow: name, Every: every, Abort: true})
	return func() dialer.Tally { return t.dial(from, dialer.Request{Do: dialer.Close, Flow: name}).Tally }
}

// Serve has somebody called name answer at an address of a place until the trial is over.
func (t *T) Serve(place, network string, at netip.AddrPort, name string) {
	flow := t.flow()
	t.dial(place, dialer.Request{Do: dialer.Serve, Network: network, To: at, Flow: flow, Name: name})
	t.Cleanup(func(ctx context.Context) error {
		d, err := t.world.dialer(ctx, place)
		if err == nil {
			_, err = d.Ask(ctx, dialer.Request{Do: dialer.Close, Flow: flow})
		}
		return err
	})
}

// Scan tells which ports of an address accept TCP connections from a place.
func (t *T) Scan(place string, a netip.Addr, first, last uint16) []uint16 {
	return t.dial(place, dialer.Request{
		Do: dialer.Scan, To: netip.AddrPortFrom(a, 0), FromPort: first, LastPort: last, Timeout: 300 * time.Millisecond,
	}).Open
}

// Disturb has a place send a packet of one of its connections, from a port to an address, a second time, with a sequence
// number that no window allows. It calls traffic until such a packet has been seen and sent.
func (t *T) Disturb(place string, port uint16, to netip.Addr, traffic func()) {
	d, err := t.world.dialer(t.ctx, place)
	t.Check(err)
	ended := make(chan error, 1)
	go func() {
		_, err := d.Ask(t.ctx, dialer.Request{
			Do: dialer.Disturb, To: netip.AddrPortFrom(netip.IPv4Unspecified(), port), From: to, Timeout: 5 * time.Second,
		})
		ended <- err
	}()
	for {
		traffic()
		select {
		case err := <-ended:
			t.Check(err)
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}
