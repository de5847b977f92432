package load

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"proxylab/bench/events"
)

// However what happens is cut into ticks, they add up to all of it, and to nothing more.
func TestTicksAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1000, 0)
		rec := newRecorder("x", now)
		want, got := newTotal(), newTotal()
		seconds := 0.0
		tick := func() {
			e := rec.tick(now)
			seconds += e.Seconds
			// What was handed out must not change afterwards.
			encoded, err := json.Marshal(e)
			if err != nil {
				rt.Fatal(err)
			}
			rec.success("pod-z", time.Second, 1)
			after, _ := json.Marshal(e)
			if string(encoded) != string(after) {
				rt.Fatal("a tick changed after it was handed out")
			}
			want.requests++
			want.bytes++
			want.endpoints["pod-z"]++
			events.Record(want.latency, time.Second)
			got.add(t, e)
		}
		errnos := []syscall.Errno{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EHOSTUNREACH, syscall.EINVAL}
		for range rapid.IntRange(0, 25).Draw(rt, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(rt, "ms")) * time.Millisecond)
			d := time.Duration(rapid.Int64Range(0, 70_000_000).Draw(rt, "us")) * time.Microsecond
			switch rapid.IntRange(0, 12).Draw(rt, "event") {
			case 0, 1, 7, 8, 9, 10, 11, 12:
				pod := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "pod")
				rec.success(pod, d, 7)
				want.requests++
				want.bytes += 7
				want.endpoints[pod]++
				events.Record(want.latency, d)
			case 2:
				err := rapid.SampledFrom(errnos).Draw(rt, "errno")
				rec.failure(err)
				want.requests++
				want.errors++
				want.byKind[ErrorKind(err)]++
			case 3:
				rec.connected(d)
				events.Record(want.connect, d)
			case 4:
				rec.sent(d)
				if d > 10*time.Millisecond {
					want.late++
				}
			case 5:
				rec.held(1)
				want.open++
			case 6:
				tick()
			}
		}
		start := time.Unix(1000, 0)
		tick()
		last := rec.tick(now)
		got.add(t, last)
		seconds += last.Seconds
		want.ticks = got.ticks
		if math.Abs(seconds-now.Sub(start).Seconds()) > 1e-9 {
			rt.Fatalf("ticks of %v s, but %v passed", seconds, now.Sub(start))
		}
		if !got.latency.Equals(want.latency) || !got.connect.Equals(want.connect) {
			rt.Fatal("histograms differ")
		}
		if !maps.Equal(got.byKind, want.byKind) || !maps.Equal(got.endpoints, want.endpoints) {
			rt.Fatalf("got %+v, want %+v", got, want)
		}
		if got.requests != want.requests || got.errors != want.errors || got.late != want.late ||
			got.bytes != want.bytes || got.open != want.open {
			rt.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestNothingMeasuredIsAbsent(t *testing.T) {
	rec := newRecorder("x", time.Now())
	encoded, err := json.Marshal(rec.tick(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"latency", "connect", "endpoints", "errorsByKind", "open", "bytes"} {
		if strings.Contains(string(encoded), field) {
			t.Errorf("%s is in %s", field, encoded)
		}
	}
}

func TestScheduleDoesNotDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedule{start: time.Now(), rate: rapid.Float64Range(0.1, maxRate).Draw(t, "rate")}
		seq := rapid.Uint64Range(0, 100_000_000).Draw(t, "seq")
		want := float64(seq) / s.rate
		if got := s.due(seq).Sub(s.start).Seconds(); math.Abs(got-want) > 1e-6*max(1, want) {
			t.Fatalf("request %d at %v/s is due after %v s, want %v", seq, s.rate, got, want)
		}
		if s.due(seq + 1).Before(s.due(seq)) {
			t.Fatal("due before the one before it")
		}
	})
}

func TestSleepUntil(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, 50 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond} {
		deadline := time.Now().Add(d)
		if !sleepUntil(context.Background(), deadline) {
			t.Errorf("%v: false", d)
		}
		if left := time.Until(deadline); left > 0 {
			t.Errorf("%v: woke %v early", d, left)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	if sleepUntil(ctx, time.Now().Add(time.Hour)) {
		t.Error("slept an hour")
	}
	if sleepUntil(ctx, time.Now().Add(time.Millisecond)) || sleepUntil(ctx, time.Now().Add(-time.Millisecond)) {
		t.Error("true although cancelled before")
	}
}

func TestSpecInJSON(t *testing.T) {
	s := Spec{
		Name: "web", Kind: UDP, Targets: []string{"10.96.0.1:80", "[fd00::1]:80"}, Rate: 200.5, Connections: KeepAlive,
		Count: 3, Timeout: 2 * time.Second, Duration: time.Minute, Tick: 100 * time.Millisecond, SourcePort: 4000, From: "outside",
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"timeout":"2s"`) {
		t.Errorf("%s", b)
	}
	var back Spec
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%s becomes %+v, %v", b, back, err)
	}
	for _, wrong := range []string{
		`{"name":"x","colour":"red"}`, `{"timeout":5}`, `{"timeout":"5"}`, `{"duration":"soon","tick":"often"}`, `[]`, `{`, ``,
	} {
		if err := json.Unmarshal([]byte(wrong), &back); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		want []string
	}{
		{"nothing", Spec{}, []string{"name is missing", "kind", "targets are missing"}},
		{"everything", Spec{
			Name: "x", Kind: HTTP, Targets: []string{"web:80", "10.0.0.1", "10.0.0.1:0"}, URLPath: "x", Rate: -1,
			Connections: "some", Count: -1, Timeout: -1, Duration: -1, Tick: -1, SourcePort: 1, Reopen: true,
		}, []string{
			`"web:80"`, `"10.0.0.1"`, `"10.0.0.1:0"`, "urlPath", "rate", "connections", "count", "timeout", "duration",
			"tick", "sourcePort", "reopen",
		}},
		{"no rate", Spec{Name: "x", Kind: Connect, Targets: []string{"1.1.1.1:1"}}, []string{"rate is 0"}},
		{"not a number", Spec{Name: "x", Kind: Connect, Targets: []string{"1.1.1.1:1"}, Rate: math.NaN()}, []string{"rate is NaN"}},
		{"hold without count", Spec{Name: "x", Kind: Hold, Targets: []string{"1.1.1.1:1"}}, []string{"count is 0"}},
		{"stream with rate", Spec{Name: "x", Kind: Stream, Targets: []string{"1.1.1.1:1"}, Rate: 1}, []string{"rate is 1"}},
		{"connect keepalive", Spec{Name: "x", Kind: Connect, Targets: []string{"1.1.1.1:1"}, Rate: 1, Connections: KeepAlive},
			[]string{"keepalive"}},
		{"ports", Spec{Name: "x", Kind: UDP, Targets: []string{"1.1.1.1:1"}, Rate: 1, SourcePort: 65530, Count: 10},
			[]string{"65530 to 65539"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.spec.Validate()
			if err == nil {
				t.Fatal("valid")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in:\n%v", want, err)
				}
			}
			emitted := 0
			if Run(context.Background(), c.spec, func(events.Event) { emitted++ }) == nil || emitted > 0 {
				t.Errorf("it ran, with %d events", emitted)
			}
		})
	}
}
