package nftables

import (
	"net/netip"

	"proxylab/proxiers/services"
)

// slots numbers the endpoints of one list of a Service port. Without affinity the numbers have no gaps, and as few
// endpoints as possible change theirs. With affinity an endpoint keeps its number for life, and picks, which has no
// gaps, leads to those that are in use.
type slots struct {
	at    []netip.AddrPort // by number; the zero value: a gap
	picks []int32          // numbers in use; nil without affinity
}

func (s *slots) count() int {
	switch {
	case s == nil:
		return 0
	case s.picks != nil:
		return len(s.picks)
	default:
		return len(s.at)
	}
}

// next numbers other endpoints. was is left as it is; it may be nil.
func (s *slots) next(eps []services.Endpoint, affinity bool) *slots {
	if len(eps) == 0 {
		return nil
	}
	want := make(map[netip.AddrPort]bool, len(eps)) // true: has no number yet
	for _, ep := range eps {
		want[ep.Addr] = true
	}
	n := &slots{at: make([]netip.AddrPort, 0, len(want))}
	var gaps []int
	if s != nil {
		for i, a := range s.at {
			if fresh, ok := want[a]; ok && fresh {
				want[a] = false
			} else {
				a = netip.AddrPort{}
				gaps = append(gaps, i)
			}
			n.at = append(n.at, a)
		}
	}
	for _, ep := range eps {
		switch {
		case !want[ep.Addr]:
			continue
		case len(gaps) > 0:
			n.at[gaps[0]], gaps = ep.Addr, gaps[1:]
		default:
			n.at = append(n.at, ep.Addr)
		}
		want[ep.Addr] = false
	}
	if affinity {
		n.trim()
		n.pick(s)
	} else {
		n.close(gaps)
	}
	return n
}

func (s *slots) trim() {
	for len(s.at) > 0 && !s.at[len(s.at)-1].IsValid() {
		s.at = s.at[:len(s.at)-1]
	}
}

// close moves the last endpoints into gaps, which are in order.
func (s *slots) close(gaps []int) {
	for _, i := range gaps {
		s.trim()
		if last := len(s.at) - 1; i < last {
			s.at[i], s.at = s.at[last], s.at[:last]
		}
	}
	s.trim()
}

// pick keeps what was picked where it can.
func (s *slots) pick(was *slots) {
	s.picks = make([]int32, 0, len(s.at))
	seen := make([]bool, len(s.at))
	use := func(i int32) bool { return int(i) < len(s.at) && s.at[i].IsValid() && !seen[i] }
	var gaps []int
	if was != nil {
		for at, i := range was.picks {
			if use(i) {
				seen[i] = true
			} else {
				gaps = append(gaps, at)
			}
			s.picks = append(s.picks, i)
		}
	}
	for i := range s.at {
		switch {
		case !use(int32(i)):
			continue
		case len(gaps) > 0:
			s.picks[gaps[0]], gaps = int32(i), gaps[1:]
		default:
			s.picks = append(s.picks, int32(i))
		}
		seen[i] = true
	}
	for k := len(gaps) - 1; k >= 0; k-- {
		last := len(s.picks) - 1
		s.picks[gaps[k]], s.picks = s.picks[last], s.picks[:last]
	}
}
