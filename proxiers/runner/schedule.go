package runner

import "time"

// action is what is due.
type action int

const (
	syncChanges action = iota // a pass over what changed
	look                      // ask the Checker
	syncAll                   // a full pass
)

// firstRetry is the pause after a first failure; it doubles with each further one.
const firstRetry = time.Second

// schedule decides what is due, and when. It has no clock and no effects.
type schedule struct {
	min     time.Duration // from the end of a pass to the start of the next
	period  time.Duration // of looking, and the longest pause before a retry
	full    time.Duration // between full passes
	checker bool          // looking is cheap; otherwise it is a full pass

	queued   bool      // something changed
	lost     bool      // the kernel does not hold what it should
	failures int       // passes that failed in a row
	ended    time.Time // end of the last pass; zero: there was none
	looked   time.Time // the last look, or the end of the last pass
	wholly   time.Time // end of the last full pass that succeeded
}

// next returns the next thing due, and when.
func (s *schedule) next() (time.Time, action) {
	if s.ended.IsZero() {
		return time.Time{}, syncAll
	}
	type due struct {
		at   time.Time
		what action
	}
	var all []due
	if s.failures > 0 {
		// What a failed pass left is unknown, so that only a full one helps.
		all = append(all, due{s.ended.Add(s.backoff()), syncAll})
		if s.queued {
			all = append(all, due{s.ended, syncAll})
		}
	} else {
		all = append(all, due{s.wholly.Add(s.full), syncAll})
		if s.checker {
			all = append(all, due{s.looked.Add(s.period), look})
		} else {
			all = append(all, due{s.looked.Add(s.period), syncAll})
		}
		if s.lost {
			all = append(all, due{s.ended, syncAll})
		}
		if s.queued {
			all = append(all, due{s.ended, syncChanges})
		}
	}
	earliest := s.ended.Add(s.min)
	best := due{at: all[0].at, what: syncChanges}
	for i, d := range all {
		if d.at.Before(earliest) {
			d.at = earliest
		}
		if i == 0 || d.at.Before(best.at) || d.at.Equal(best.at) && d.what > best.what {
			best = d
		}
	}
	return best.at, best.what
}

func (s *schedule) backoff() time.Duration {
	pause := max(firstRetry, s.min)
	for range s.failures - 1 {
		if pause *= 2; pause >= s.period {
			break
		}
	}
	return min(pause, s.period)
}

// passed records a pass that ended, and succeeded or not.
func (s *schedule) passed(at time.Time, full, succeeded bool) {
	s.ended, s.looked = at, at
	if !succeeded {
		s.failures++
		return
	}
	s.failures = 0
	if full {
		s.wholly, s.lost = at, false
	}
}
