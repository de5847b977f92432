package runner

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// toBeDeleted is the taint by which the cluster autoscaler announces that it removes a node: balancers shall stop using
// it, while what runs there goes on.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// health knows whether the node is kept up to date, and answers like kube-proxy's health server: unhealthy when a change
// has waited for longer than the limit.
type health struct {
	clock clock.Clock
	limit time.Duration

	mu       sync.Mutex
	waiting  time.Time // the oldest change that no pass has taken up; zero: none
	taken    time.Time // the oldest change that a pass has taken up and not finished; zero: none
	synced   time.Time // the last time that the node was up to date
	eligible bool      // the Node is there and not about to be deleted
}

func newHealth(c clock.Clock, limit time.Duration) *health { return &health{clock: c, limit: limit} }

func (h *health) queued() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting.IsZero() {
		h.waiting = h.clock.Now()
	}
}

// began: a pass takes up everything so far.
func (h *health) began() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taken.IsZero() {
		h.taken = h.waiting
	}
	h.waiting = time.Time{}
}

// updated: the pass that began last has succeeded.
func (h *health) updated() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken, h.synced = time.Time{}, h.clock.Now()
}

// node takes in what the API says of the Node, nil when it is gone.
func (h *health) node(n *corev1.Node) {
	eligible := n != nil && n.DeletionTimestamp.IsZero()
	if n != nil {
		for _, t := range n.Spec.Taints {
			eligible = eligible && t.Key != toBeDeleted
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eligible = eligible
}

// healthBody is what /healthz and /livez answer, with kube-proxy's field names.
type healthBody struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
	Healthy      bool      `json:"healthy"`
}

func (h *health) state() (body healthBody, eligible bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	body = healthBody{LastUpdated: h.synced, CurrentTime: now, Healthy: true}
	oldest := h.taken
	if oldest.IsZero() {
		oldest = h.waiting
	}
	// Until the first pass has succeeded, the proxier is starting and not ill.
	if !h.synced.IsZero() && !oldest.IsZero() && now.Sub(oldest) >= h.limit {
		body.Healthy = false
	}
	if body.Healthy {
		body.LastUpdated = now // as kube-proxy: with nothing to do, the node is up to date now
	}
	return body, h.eligible
}

// ok says whether the node is kept up to date.
func (h *health) ok() bool {
	body, _ := h.state()
	return body.Healthy
}

// handler serves /healthz, which is for balancers and fails for a node about to be deleted, and /livez, which is for who
// would restart the proxier.
func (h *health) handler(count func(endpoint string, code int)) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, endpoint string, body healthBody, ok bool) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		code := http.StatusOK
		if !ok {
			code = http.StatusServiceUnavailable
		}
		count(endpoint, code)
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body) // the client is gone: its matter
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		body, eligible := h.state()
		body.NodeEligible = &eligible
		answer(w, "healthz", body, body.Healthy && eligible)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		body, _ := h.state()
		answer(w, "livez", body, body.Healthy)
	})
	return mux
}
