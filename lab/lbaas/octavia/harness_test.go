package octavia

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const subnet = "6c3f7bb1-1111-4444-8888-000000000001"

// harness is a service under test, asked without a network.
type harness struct {
	*testing.T
	s       *Service
	headers map[string]string
	who     *Identity // nil: no Keystone

	mu     sync.Mutex
	more   *sync.Cond
	events []Event
}

func newHarness(t *testing.T, opts Options) *harness {
	t.Helper()
	h := &harness{T: t, headers: map[string]string{"X-Project-Id": "p", "Content-Type": "application/json"}}
	h.more = sync.NewCond(&h.mu)
	opts.Notify = func(e Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(h.events, e)
		h.more.Broadcast()
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	h.s = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if bad := s.broken(); len(bad) > 0 {
			t.Error(strings.Join(bad, "\n"))
		}
	})
	return h
}

// do makes a call and wants a status.
func (h *harness) do(method, path string, body any, want int) map[string]any {
	h.Helper()
	var text string
	switch b := body.(type) {
	case nil:
	case string:
		text = b
	default:
		data, err := json.Marshal(b)
		if err != nil {
			h.Fatal(err)
		}
		text = string(data)
	}
	r := httptest.NewRequestWithContext(h.Context(), method, path, strings.NewReader(text))
	if h.who != nil {
		r = r.WithContext(WithIdentity(r.Context(), *h.who))
	}
	for k, v := range h.headers {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.s.ServeHTTP(w, r)
	if w.Code != want {
		h.Fatalf("%s %s %s: %d, want %d: %s", method, path, text, w.Code, want, w.Body)
	}
	var out map[string]any
	if w.Body.Len() > 0 && strings.HasPrefix(w.Body.String(), "{") {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			h.Fatal(err)
		}
	}
	return out
}

// make creates an object and gives its ID; what is pending of its balancer is settled.
func (h *harness) make(root, path string, body obj) string {
	h.Helper()
	id := idOf(h.do("POST", "/v2.0/lbaas/"+path, obj{root: body}, 201), root)
	h.settle()
	return id
}

func (h *harness) settle() {
	h.Helper()
	if err := h.s.Settle("", false); err != nil {
		h.Fatal(err)
	}
}

func (h *harness) balancer() string {
	h.Helper()
	return h.make("loadbalancer", "loadbalancers", obj{"name": "lb", "vip_subnet_id": subnet})
}

// show gives an object.
func (h *harness) show(path string) map[string]any {
	h.Helper()
	for _, v := range h.do("GET", "/v2.0/lbaas/"+path, nil, 200) {
		if o, ok := v.(map[string]any); ok {
			return o
		}
	}
	h.Fatal("no object:", path)
	return nil
}

func (h *harness) states(path string) string {
	h.Helper()
	o := h.show(path)
	return o["provisioning_status"].(string) + " " + o["operating_status"].(string)
}

// await waits for an event, also one that has been.
func (h *harness) await(what string, is func(Event) bool) {
	h.Helper()
	timer := time.AfterFunc(20*time.Second, func() { h.more.Broadcast() })
	defer timer.Stop()
	began := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for !slices.ContainsFunc(h.events, is) {
		if time.Since(began) > 19*time.Second {
			h.Fatal("did not happen:", what)
		}
		h.more.Wait()
	}
}

func (h *harness) awaitState(id, to string) {
	h.Helper()
	h.await(id+" "+to, func(e Event) bool { return e.State != nil && e.State.ID == id && e.State.To == to })
}

// fakeClock stands still until it is moved.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*fakeTimer]bool
}

type fakeTimer struct {
	at time.Time
	f  func()
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC), timers: map[*fakeTimer]bool{}}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{c.now.Add(d), f}
	c.timers[t] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, t)
	}
}

// advance moves the time and does what is due by then.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []func()
	for t := range c.timers {
		if !t.at.After(c.now) {
			due = append(due, t.f)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}
