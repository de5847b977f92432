package plane

// health counts the answers of a member as haproxy does. A member that was never asked works, until the first failure.
type health struct {
	rise, fall int // answers until it is up, failures until it is down
	level      int // below rise: down; at most rise+fall-1
	known      bool
}

func newHealth(m Monitor) health {
	h := health{rise: max(m.MaxRetries, 1), fall: m.MaxRetriesDown}
	if h.fall <= 0 {
		h.fall = 3
	}
	h.level = h.rise
	return h
}

func (h *health) up() bool { return h.level >= h.rise }

// retune changes the thresholds of a member that is being watched.
func (h *health) retune(m Monitor) {
	up, known := h.up(), h.known
	*h = newHealth(m)
	h.known = known
	switch {
	case !up:
		h.level = 0
	case known:
		h.level = h.rise + h.fall - 1
	}
}

// result takes an answer and says whether the member's state is another one now.
func (h *health) result(ok bool) (changed bool) {
	was, knew := h.up(), h.known
	h.known = true
	switch {
	case ok && !was:
		h.level++
		if h.up() {
			h.level = h.rise + h.fall - 1
		}
	case ok:
		h.level = h.rise + h.fall - 1
	case h.level > h.rise:
		h.level--
	default:
		h.level = 0
	}
	return !knew || h.up() != was
}
