package play

import (
	"reflect"
	"testing"

	"proxylab/bench/events"
)

func TestSwapResult(t *testing.T) {
	load := func(kind string, open int, byKind map[string]int64) loadTally {
		var errors int64
		for _, n := range byKind {
			errors += n
		}
		return loadTally{tally{errors: errors, byKind: byKind, open: open}, kind}
	}
	tests := []struct {
		name          string
		before, after map[string]loadTally
		want          events.Swap
	}{
		{
			name:   "nothing under way",
			before: map[string]loadTally{}, after: map[string]loadTally{},
			want: events.Swap{BrokenByKind: map[string]int64{}, FailedByKind: map[string]int64{}},
		},
		{
			name: "only what came after counts, held connections apart from new ones",
			before: map[string]loadTally{
				"held": load("hold", 48, map[string]int64{"reset": 2}),
				"web":  load("http", 0, map[string]int64{"timeout": 5}),
				"dns":  load("udp", 0, nil),
			},
			after: map[string]loadTally{
				"held": load("hold", 40, map[string]int64{"reset": 6, "eof": 4, "refused": 3}),
				"web":  load("http", 0, map[string]int64{"timeout": 5, "refused": 7}),
				"dns":  load("udp", 0, map[string]int64{"refused": 1}),
			},
			want: events.Swap{
				ConnectionsOpen: 48, ConnectionsBroken: 8, RequestsFailed: 11,
				BrokenByKind: map[string]int64{"reset": 4, "eof": 4},
				FailedByKind: map[string]int64{"refused": 11},
			},
		},
		{
			name:   "no more connections break than were open",
			before: map[string]loadTally{"held": load("hold", 3, nil)},
			after:  map[string]loadTally{"held": load("hold", 0, map[string]int64{"eof": 2, "reset": 4, "timeout": 5})},
			want: events.Swap{
				ConnectionsOpen: 3, ConnectionsBroken: 3, RequestsFailed: 8,
				BrokenByKind: map[string]int64{"eof": 2, "reset": 1},
				FailedByKind: map[string]int64{"reset": 3, "timeout": 5},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := swapResult(tt.before, tt.after); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}
