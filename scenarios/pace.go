package scenarios

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// countsRequests are expectations that fewer requests would break: "load.web.requests > 1000", "load.web.rate >= 90/s".
var countsRequests = regexp.MustCompile(`^(\s*load\..+\.(?:requests|rate)\s*>=?\s*)([0-9.]+)(\s*(?:/[smh])?\s*)$`)

// Pace is the share of its rates that it is played at, above 0 and up to 1.
func (s *Scenario) Pace() float64 { return cmp.Or(s.pace, 1) }

// AtPace is the scenario with each load sent at a share of its rate, above 0 and up to 1, and with expectations about how many
// requests there are lowered alike. What else is expected stays.
func (s *Scenario) AtPace(share float64) *Scenario {
	paced := *s
	paced.pace = share
	paced.Spec.Steps = slices.Clone(s.Spec.Steps)
	for i, step := range paced.Spec.Steps {
		if step.Load == nil || step.Load.Rate == nil {
			continue
		}
		load, rate := *step.Load, *step.Load.Rate
		rate.perSecond *= share
		rate.text = strconv.FormatFloat(rate.perSecond, 'g', 4, 64) + "/s"
		load.Rate = &rate
		paced.Spec.Steps[i].Load = &load
	}
	paced.Spec.Expect = slices.Clone(s.Spec.Expect)
	for i, text := range paced.Spec.Expect {
		if m := countsRequests.FindStringSubmatch(text); m != nil {
			if value, err := strconv.ParseFloat(m[2], 64); err == nil {
				paced.Spec.Expect[i] = fmt.Sprintf("%s%s%s", m[1], strconv.FormatFloat(value*share, 'g', 4, 64), m[3])
			}
		}
	}
	return &paced
}
