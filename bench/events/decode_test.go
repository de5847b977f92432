package events_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxylab/bench/events"
	"proxylab/bench/events/eventstest"
)

// asTheStandardLibrary fails where a line is not what encoding/json makes of it.
func asTheStandardLibrary(t *testing.T, line []byte) {
	t.Helper()
	var got, want events.Event
	err, wantErr := events.Unmarshal(line, &got), json.Unmarshal(line, &want)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: error %v, the standard library says %v", line, err, wantErr)
	}
	if err != nil {
		return
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(events.Histogram{})); d != "" {
		t.Fatalf("%q (-standard library +got):\n%s", line, d)
	}
}

func TestUnmarshalIsWhatTheStandardLibraryDoes(t *testing.T) {
	for line := range bytes.Lines(eventstest.Log(t)) {
		asTheStandardLibrary(t, line)
	}
	for _, odd := range []string{
		``, `{`, `{}`, `null`, `[]`, `7`, `{} {}`, `{"time":null}`, `{"time":"yesterday"}`, `{"time":7}`, `{"subject":null,"note":null}`,
		`{"note":{"text":"a"},"note":{"text":"b"}}`, `{"note":{"text":"a\ud800b"}}`, "{\"note\":{\"text\":\"a\xffb\"}}", `{"newer":{"a":[1,{}]}}`,
		`{"loadTick":{"requests":1.5}}`, `{"loadTick":{"requests":"1"}}`, `{"loadTick":{"requests":1e3}}`, `{"loadTick":{"errorsByKind":{"a":1,"a":2}}}`,
		`{"loadTick":{"endpoints":{}}}`, `{"loadTick":{"latency":{"hdr":null}}}`, `{"runStarted":{"proxiers":[]}}`, `{"sync":{"cpuSeconds":0}}`,
		`{"loadTick":{"requests":99999999999999999999}}`, `{"softirq":{"seconds":1e400}}`, "\x00", `{"note":{"text":"a"}}x`,
	} {
		asTheStandardLibrary(t, []byte(odd))
	}
}

// BenchmarkReadAhead is the time to read a log of two hours, with its histograms.
func BenchmarkReadAhead(b *testing.B) {
	log := eventstest.TwoHours(b)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		for _, err := range events.ReadAhead(bytes.NewReader(log)) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
