package plane

import (
	"net/netip"
	"slices"
	"time"

	"proxylab/lab/lbaas/plane/vip"
)

// announceAgain is when neighbours are told again, from the change on: a packet may get lost, and a killed instance's link
// answers for its VIPs until it is cleaned up.
var announceAgain = []time.Duration{
	100 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond, time.Second, 2 * time.Second,
}

// announceEvery is how often they are told for good.
const announceEvery = 5 * time.Second

// announcer says when to tell the neighbours again.
type announcer struct {
	since, last time.Time
	n           int
}

func (a *announcer) restart(now time.Time) { *a = announcer{since: now, last: now} }

func (a *announcer) due(now time.Time) bool {
	switch {
	case a.n < len(announceAgain) && now.Sub(a.since) >= announceAgain[a.n]:
		a.n++
	case now.Sub(a.last) >= announceEvery:
	default:
		return false
	}
	a.last = now
	return true
}

// RemoveVIPs takes all VIPs (every /32 and /128) from a link of this thread's network namespace.
func RemoveVIPs(link string) error {
	l, err := vip.Open(link)
	if err != nil {
		return err
	}
	defer l.Close()
	return l.Set(nil)
}

// address makes the link have the VIPs of all balancers while the instance is active, and none while it is not.
func (in *instance) address() {
	if in.link == nil {
		return
	}
	var vips []netip.Addr
	if in.role == Active {
		for _, b := range in.balancers {
			vips = append(vips, b.spec.VIPs...)
		}
	}
	slices.SortFunc(vips, netip.Addr.Compare)
	vips = slices.Compact(vips)
	if !slices.Equal(vips, in.onLink) {
		in.setVIPs(vips)
	}
}

func (in *instance) setVIPs(vips []netip.Addr) {
	in.linkProblem = ""
	if err := in.link.Set(vips); err != nil {
		in.linkProblem = err.Error()
		in.log.Error("VIPs of the link", "error", err)
	}
	in.onLink = vips
	in.announce.restart(time.Now())
}
