package kubeproxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestModeInEffectIsRead(t *testing.T) {
	asked, healthy := 0, false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if !healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "iptables")
	}))
	defer s.Close()
	m := &modeInEffect{url: s.URL}
	if got := m.proxier(t.Context()); got != "" {
		t.Errorf("nobody said so: %q", got)
	}
	healthy = true
	for range 2 {
		if got := m.proxier(t.Context()); got != "kube-proxy/iptables" {
			t.Errorf("%q", got)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	s.Close()
	if got := (&modeInEffect{url: s.URL}).proxier(t.Context()); got != "" {
		t.Errorf("nobody answers: %q", got)
	}
}
