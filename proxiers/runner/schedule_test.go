package runner

import (
	"testing"
	"time"
)

func TestWhatIsDue(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	plain := schedule{min: time.Second, period: 30 * time.Second, full: time.Hour, ended: t0, looked: t0, wholly: t0}
	for name, c := range map[string]struct {
		change func(*schedule)
		after  time.Duration
		what   action
	}{
		"nothing happens, no checker":      {func(*schedule) {}, 30 * time.Second, syncAll},
		"nothing happens":                  {func(s *schedule) { s.checker = true }, 30 * time.Second, look},
		"after an hour":                    {func(s *schedule) { s.checker, s.wholly = true, t0.Add(-time.Hour) }, time.Second, syncAll},
		"a change":                         {func(s *schedule) { s.queued = true }, time.Second, syncChanges},
		"a change and no minimum":          {func(s *schedule) { s.queued, s.min = true, 0 }, 0, syncChanges},
		"rules are lost":                   {func(s *schedule) { s.checker, s.lost = true, true }, time.Second, syncAll},
		"rules are lost and a change":      {func(s *schedule) { s.checker, s.lost, s.queued = true, true, true }, time.Second, syncAll},
		"a failure":                        {func(s *schedule) { s.failures = 1 }, time.Second, syncAll},
		"a failure, long minimum":          {func(s *schedule) { s.failures, s.min = 1, 7*time.Second }, 7 * time.Second, syncAll},
		"third failure":                    {func(s *schedule) { s.failures = 3 }, 4 * time.Second, syncAll},
		"many failures":                    {func(s *schedule) { s.failures = 1000 }, 30 * time.Second, syncAll},
		"many failures and a change":       {func(s *schedule) { s.failures, s.queued = 9, true }, time.Second, syncAll},
		"a failure of the first full pass": {func(s *schedule) { s.failures, s.wholly = 2, time.Time{} }, 2 * time.Second, syncAll},
		"never anything":                   {func(s *schedule) { *s = schedule{} }, 0, syncAll},
	} {
		s := plain
		c.change(&s)
		at, what := s.next()
		want := t0.Add(c.after)
		if s.ended.IsZero() {
			want = time.Time{}
		}
		if !at.Equal(want) || what != c.what {
			t.Errorf("%s: %v after %v, want %v after %v", name, what, at.Sub(t0), c.what, c.after)
		}
	}
}
