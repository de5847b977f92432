package scenarios

import (
	"slices"
	"testing"

	"proxylab/bench/report"
)

func TestAtPace(t *testing.T) {
	s, err := Load("quickstart", Options{Proxiers: []string{"kube-proxy/nftables", "kube-proxy/iptables"}})
	if err != nil {
		t.Fatal(err)
	}
	steps, expect := s.StepTexts(), slices.Clone(s.Spec.Expect)
	p := s.AtPace(0.1)
	if !slices.Equal(s.StepTexts(), steps) || !slices.Equal(s.Spec.Expect, expect) {
		t.Errorf("the scenario itself has changed: %q, %q", s.StepTexts(), s.Spec.Expect)
	}
	rates := map[string]float64{}
	for _, step := range p.Spec.Steps {
		if step.Load != nil && step.Load.Rate != nil {
			rates[step.Load.Name] = step.Load.Rate.PerSecond()
		}
	}
	if rates["web"] != 15 || rates["reuse"] != 5 || rates["udp"] != 2 {
		t.Errorf("rates: %v", rates)
	}
	for _, c := range []struct{ was, is string }{
		{"load.web.requests > 1000", "load.web.requests > 100"},
		{"load.udp.requests > 100", "load.udp.requests > 10"},
		{"load.web.error_rate < 15%", "load.web.error_rate < 15%"},
		{"programming.p99 < 5s", "programming.p99 < 5s"},
	} {
		if !slices.Contains(expect, c.was) || !slices.Contains(p.Spec.Expect, c.is) {
			t.Errorf("%q became something else than %q: %q", c.was, c.is, p.Spec.Expect)
		}
	}
	for _, text := range p.Spec.Expect {
		if _, err := report.ParseExpectation(text); err != nil {
			t.Error(err)
		}
	}
}
