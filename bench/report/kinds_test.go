package report

import (
	"testing"

	loads "proxylab/bench/load"
)

// TestEveryKindOfErrorCanBeExpected: the kinds that loads tell apart are those that expectations know.
func TestEveryKindOfErrorCanBeExpected(t *testing.T) {
	kinds := []string{loads.Refused, loads.Reset, loads.Timeout, loads.NoRoute, loads.Unreachable, loads.EOF, loads.NoPort,
		loads.Denied, loads.Malformed, loads.Unsent, loads.Other}
	for _, kind := range kinds {
		if !knownErrorKind(kind) {
			t.Errorf("%s is unknown", kind)
		}
	}
	for _, kind := range ownLimits {
		if kind != loads.NoPort && kind != loads.Unsent {
			t.Errorf("%s is no limit of the generator", kind)
		}
	}
	if len(errorKinds) != len(kinds) {
		t.Errorf("%d kinds are known, loads have %d", len(errorKinds), len(kinds))
	}
}
