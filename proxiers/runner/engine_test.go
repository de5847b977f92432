package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"proxylab/proxiers/services"
)

// kernel is a Proxier that behaves as a real one with a kernel behind it: a full pass writes everything, a partial one
// only what changed, and one that fails has written some of it.
type kernel struct {
	state map[services.Key]services.ServicePort
	fail  func() bool   // before each key
	calls chan call     // if not nil, told of each Sync
	more  chan struct{} // if not nil, Sync waits for it
	lost  bool
}

type call struct {
	full    bool
	changed int
}

func (k *kernel) Sync(ctx context.Context, want services.Snapshot) (SyncReport, error) {
	if k.calls != nil {
		select {
		case k.calls <- call{want.Full, len(want.Changed)}:
		case <-ctx.Done():
			return SyncReport{}, ctx.Err()
		}
	}
	if k.more != nil {
		select {
		case <-k.more:
		case <-ctx.Done():
			return SyncReport{}, ctx.Err()
		}
	}
	if k.state == nil {
		k.state = map[services.Key]services.ServicePort{}
	}
	keys := maps.Clone(want.Changed)
	if want.Full {
		for key := range k.state {
			keys[key] = struct{}{}
		}
		for key := range want.Ports {
			keys[key] = struct{}{}
		}
	}
	for key := range keys {
		if k.fail != nil && k.fail() {
			return SyncReport{Full: want.Full}, errors.New("the kernel says no")
		}
		if p := want.Ports[key]; p != nil {
			k.state[key] = *p
		} else {
			delete(k.state, key)
		}
	}
	k.lost = k.lost && !want.Full
	return SyncReport{Full: want.Full, Objects: map[string]int{"rules": len(k.state)}, StaleFlows: 1}, nil
}

func (k *kernel) Cleanup(context.Context) error { return nil }

// checked is a kernel that can be asked whether its rules are there.
type checked struct {
	*kernel
	asked chan bool
}

func (c checked) Intact(ctx context.Context) (bool, error) {
	select {
	case answer := <-c.asked:
		return answer, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
func (c checked) Backend() string { return "legacy" }

func aService(name string, port int32) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP}}}}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func testConfig(t interface{ Fatal(...any) }, p Proxier, clock *clocktesting.FakeClock, reports *bytes.Buffer) Config {
	c := Config{Proxier: p, Node: "node1", Mode: "iptables", Client: fake.NewClientset(), Log: quiet()}
	if clock != nil {
		c.Clock = clock
	}
	if reports != nil {
		c.Reports = reports
	}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNoUpdateIsEverLost: whatever fails when, once passes succeed again the kernel holds what the API says.
func TestNoUpdateIsEverLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		failing := true
		k := &kernel{fail: func() bool { return failing && rapid.IntRange(0, 3).Draw(rt, "fails") == 0 }}
		clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		e := newEngine(testConfig(rt, k, clock, nil))
		run := func() {
			at, what := e.schedule.next()
			if wait := at.Sub(clock.Now()); wait > 0 && !e.schedule.ended.IsZero() {
				clock.Step(wait)
			}
			e.do(context.Background(), what)
		}
		run()
		for range rapid.IntRange(1, 20).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 4).Draw(rt, "events") {
				name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "service")
				var needed bool
				if rapid.Bool().Draw(rt, "gone") {
					needed = e.tracker.DeleteService("ns", name)
				} else {
					needed = e.tracker.SetService(aService(name, int32(rapid.IntRange(1, 3).Draw(rt, "port"))))
				}
				e.schedule.queued = e.schedule.queued || needed
			}
			run()
		}
		failing = false
		e.schedule.queued = true
		run()
		want := e.tracker.Snapshot().Ports
		if len(want) != len(k.state) {
			rt.Fatalf("kernel %v, want %v", k.state, want)
		}
		for key, p := range want {
			if got := k.state[key]; !p.Equal(&got) {
				rt.Fatalf("kernel has %+v, want %+v", got, p)
			}
		}
	})
}

// harness runs an engine's loop with a fake clock.
type harness struct {
	*engine
	clock *clocktesting.FakeClock
	calls chan call
	t     *testing.T
}

func start(t *testing.T, p Proxier, calls chan call, reports *bytes.Buffer) *harness {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	h := &harness{engine: newEngine(testConfig(t, p, clock, reports)), clock: clock, calls: calls, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); h.loop(ctx) }()
	t.Cleanup(func() { cancel(); <-ended; goleak.VerifyNone(t) })
	return h
}

func (h *harness) change(port int32) {
	h.tracker.SetService(aService("a", port))
	h.queue()
}

// expect waits for a pass.
func (h *harness) expect(want call) {
	h.t.Helper()
	select {
	case got := <-h.calls:
		if got != want {
			h.t.Fatalf("pass %+v, want %+v", got, want)
		}
	case <-time.After(10 * time.Second):
		h.t.Fatalf("no pass, want %+v", want)
	}
}

// idle waits until the loop sleeps, having taken up what was queued, and checks that it did not sync.
func (h *harness) idle() {
	h.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		select {
		case got := <-h.calls:
			h.t.Fatalf("unexpected pass %+v", got)
		default:
		}
		if len(h.changed) == 0 && h.clock.HasWaiters() {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatal("the loop does not come to rest")
		}
	}
}

func TestLoopSyncsAtOnceAndThenAtMostOncePerPeriod(t *testing.T) {
	calls := make(chan call)
	h := start(t, &kernel{calls: calls}, calls, nil)
	h.expect(call{true, 0}) // the start
	h.idle()
	h.clock.Step(5 * time.Second)
	h.idle()
	h.change(1) // after a pause: at once
	h.expect(call{false, 1})
	h.idle()
	h.change(2) // right after a pass: when the minimum is over, and only once
	h.change(3)
	h.change(4)
	h.idle()
	h.clock.Step(999 * time.Millisecond)
	h.idle()
	h.clock.Step(time.Millisecond)
	h.expect(call{false, 1})
	h.idle()
	h.change(4) // nothing new
	h.clock.Step(5 * time.Second)
	h.idle()
	h.clock.Step(25 * time.Second)
	h.expect(call{true, 0})
	h.idle()
}

func TestChangeDuringAPassIsSyncedNext(t *testing.T) {
	calls, more := make(chan call), make(chan struct{})
	h := start(t, &kernel{calls: calls, more: more}, calls, nil)
	h.expect(call{true, 0})
	h.change(1)
	more <- struct{}{}
	h.idle()
	h.clock.Step(time.Second)
	h.expect(call{false, 1})
	more <- struct{}{}
	h.idle()
}

func TestFailedPassIsRepeatedWithPauses(t *testing.T) {
	calls := make(chan call)
	var reports bytes.Buffer
	failures := 3
	k := &kernel{calls: calls, fail: func() bool { failures--; return failures >= 0 }}
	h := start(t, checked{k, nil}, calls, &reports)
	h.expect(call{true, 0}) // nothing to write: nothing to fail
	h.idle()
	h.clock.Step(time.Second)
	h.change(1)
	h.expect(call{false, 1})
	for _, pause := range []time.Duration{1, 2, 4} {
		h.idle()
		h.clock.Step(pause*time.Second - 1)
		h.idle()
		h.clock.Step(1)
		h.expect(call{true, 1})
	}
	h.idle()
	var errs []string
	for line := range strings.Lines(reports.String()) {
		var r Report
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		errs = append(errs, r.Error)
		if r.Backend != "legacy" {
			t.Errorf("%+v", r)
		}
	}
	if want := []string{"", "the kernel says no", "the kernel says no", "the kernel says no", ""}; fmt.Sprint(errs) != fmt.Sprint(want) {
		t.Errorf("%q", errs)
	}
}

func TestFirstSyncedIsTheFirstThatSucceeded(t *testing.T) {
	failures, told := 2, 0
	k := &kernel{fail: func() bool { failures--; return failures >= 0 }}
	config := testConfig(t, k, clocktesting.NewFakeClock(time.Unix(1e9, 0)), nil)
	config.FirstSynced = func(context.Context) { told++ }
	e := newEngine(config)
	e.tracker.SetService(aService("a", 1))
	for pass, want := range []int{0, 0, 1, 1} {
		e.pass(t.Context(), true)
		if told != want {
			t.Errorf("told %d times after pass %d, want %d", told, pass+1, want)
		}
	}
}

func TestLostRulesAreWrittenAgain(t *testing.T) {
	calls, asked := make(chan call), make(chan bool)
	h := start(t, checked{&kernel{calls: calls}, asked}, calls, nil)
	h.expect(call{true, 0})
	h.idle()
	h.clock.Step(30 * time.Second)
	asked <- true
	h.idle()
	h.clock.Step(30 * time.Second)
	asked <- false
	h.expect(call{true, 0})
	h.idle()
	h.clock.Step(30 * time.Second)
	asked <- true
	h.idle()
}

func TestReportCountsCPUSinceThePreviousOne(t *testing.T) {
	var reports bytes.Buffer
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	e := newEngine(testConfig(t, &kernel{}, clock, &reports))
	total := 1.5
	e.cpu = func() float64 { return total }
	e.pass(t.Context(), true)
	total = 1.75
	e.tracker.SetService(aService("a", 1))
	e.pass(t.Context(), false)
	dec := json.NewDecoder(&reports)
	for _, want := range []Report{
		{Time: clock.Now(), Full: true, CPUSeconds: 1.5, Objects: map[string]int{"rules": 0}},
		{Time: clock.Now(), CPUSeconds: 0.25, Objects: map[string]int{"rules": 1}},
	} {
		var got Report
		if err := dec.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got.Full, got.CPUSeconds, got.Objects, got.Time.Unix()) != fmt.Sprint(want.Full, want.CPUSeconds, want.Objects, want.Time.Unix()) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if cpuSeconds() <= 0 {
		t.Error("this process took no CPU time")
	}
}

func TestConfigTellsAllMistakes(t *testing.T) {
	err := Run(t.Context(), Config{SyncPeriod: -1})
	for _, want := range []string{"no proxier", "name of the node", "client", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	c := Config{Proxier: &kernel{}, Node: "n", Client: fake.NewClientset(), MinSyncPeriod: time.Minute}
	if err := c.complete(); err == nil {
		t.Error("a minimum beyond the period passes")
	}
	c.MinSyncPeriod = -1
	if err := c.complete(); err != nil || c.MinSyncPeriod != 0 || c.SyncPeriod != DefaultSyncPeriod || c.Metrics != DefaultMetrics {
		t.Errorf("%v %+v", err, c)
	}
}
