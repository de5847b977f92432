package octavia

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxylab/lab/lbaas/plane"
)

// client makes random calls.
type client struct {
	*testing.T
	s      *Service
	rnd    *rand.Rand
	number int
	left   int // calls to make
	shared *register
	codes  map[int]int
}

// register is what all clients know.
type register struct {
	mu  sync.Mutex
	ids map[string][]string // kind -> IDs that exist or did
}

func (r *register) add(kind, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids[kind] = append(r.ids[kind], id)
}

func (r *register) pick(rnd *rand.Rand, kind string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.ids[kind]
	if len(all) == 0 || rnd.IntN(20) == 0 {
		return "00000000-dead-beef-0000-000000000000"
	}
	return all[max(0, len(all)-1-rnd.IntN(30))]
}

// call makes one, and looks at the answer.
func (c *client) call(method, path string, body any) (int, map[string]any) {
	c.left--
	var text string
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			c.Fatal(err)
		}
		text = string(data)
	}
	r := httptest.NewRequestWithContext(c.Context(), method, "/v2.0/lbaas/"+path, strings.NewReader(text))
	r.Header.Set("X-Project-Id", "project-"+strconv.Itoa(c.number%4))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	c.s.ServeHTTP(w, r)
	c.codes[w.Code]++
	if w.Code >= 500 {
		c.Errorf("%s %s %s: %d %s", method, path, text, w.Code, w.Body)
	}
	var decoded map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &decoded); err != nil {
			c.Errorf("%s %s: %v", method, path, err)
		}
	}
	if w.Code >= 400 && decoded["faultstring"] == nil && decoded["title"] == nil {
		c.Errorf("%s %s: %d without a fault: %s", method, path, w.Code, w.Body)
	}
	return w.Code, decoded
}

type obj = map[string]any

func idOf(body map[string]any, root string) string {
	o, _ := body[root].(map[string]any)
	id, _ := o["id"].(string)
	return id
}

// TestRandomCalls makes 10,000 calls from 16 clients at once, over a data plane that fails at times. Half of a client's
// calls go to a balancer of its own, and are compared with a model; the others go anywhere.
func TestRandomCalls(t *testing.T) {
	const clients, calls = 16, 10000
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("OCTAVIA_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	t.Logf("OCTAVIA_SEED=%d", seed)
	dataPlane := &unreliable{rnd: rand.New(rand.NewPCG(seed, 1)), told: make(chan struct{}, 1)}
	network := &ports{have: map[string]string{}}
	file := FileStore(filepath.Join(t.TempDir(), "state"))
	delays := rand.New(rand.NewPCG(seed, 2))
	opts := Options{Store: file, Network: network, Apply: dataPlane.apply, Fault: dataPlane,
		Delay: func(Operation) time.Duration { return time.Duration(delays.IntN(1500)) * time.Microsecond }}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	shared := &register{ids: map[string][]string{}}
	var all sync.WaitGroup
	codes := make([]map[int]int, clients)
	for n := range clients {
		codes[n] = map[int]int{}
		all.Go(func() {
			c := &client{T: t, s: s, rnd: rand.New(rand.NewPCG(seed, uint64(n+10))), number: n, left: calls / clients,
				shared: shared, codes: codes[n]}
			c.live()
		})
	}
	all.Wait()
	total, sum := 0, map[int]int{}
	for _, m := range codes {
		for code, n := range m {
			sum[code] += n
			total += n
		}
	}
	t.Logf("%d calls: %v", total, sum)
	if total < calls {
		t.Errorf("%d calls, want %d", total, calls)
	}
	finish(t, s, dataPlane, network)
	before := everything(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opts.Fault, opts.Delay = nil, nil
	again, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if d := cmp.Diff(before, everything(t, again)); d != "" {
		t.Errorf("after a restart:\n%s", d)
	}
	if bad := again.broken(); len(bad) > 0 {
		t.Error("after a restart:", strings.Join(bad, "\n"))
	}
}

// finish waits until nothing is pending any more, and looks at what is left.
func finish(t *testing.T, s *Service, dataPlane *unreliable, network *ports) {
	t.Helper()
	dataPlane.mu.Lock()
	dataPlane.reliable = true
	dataPlane.mu.Unlock()
	if err := s.Settle("", false); err != nil {
		t.Fatal(err)
	}
	s.resync("") // the last call of all may have been one that failed
	for late := time.After(30 * time.Second); dataPlane.carried(s) != ""; {
		select {
		case <-dataPlane.told: // what was changed behind the API's back is told again, if need be
			continue
		case <-late:
		}
		break
	}
	if d := dataPlane.carried(s); d != "" {
		t.Errorf("data plane (-balancers +data plane):\n%s", d)
	}
	if n := len(s.Pending()); n > 0 {
		t.Errorf("%d operations are pending", n)
	}
	if bad := s.broken(); len(bad) > 0 {
		t.Error(strings.Join(bad, "\n"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[string]string{}
	for _, lb := range s.db.all(kindBalancer) {
		held[lb.VIPs[0].PortID] = lb.ID
	}
	network.mu.Lock()
	defer network.mu.Unlock()
	if d := cmp.Diff(held, network.have); d != "" {
		t.Errorf("ports (-balancers +network):\n%s", d)
	}
}

// everything is all lists, as a client sees them.
func everything(t *testing.T, s *Service) map[string]any {
	t.Helper()
	out := map[string]any{}
	get := func(path string) map[string]any {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2.0/lbaas/"+path, nil))
		var body map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %v", path, w.Code, err)
		}
		out[path] = body
		return body
	}
	for _, kind := range []string{"loadbalancers", "listeners", "healthmonitors", "l7policies", "flavors", "quotas"} {
		get(kind)
	}
	for _, p := range get("pools")["pools"].([]any) {
		get("pools/" + p.(map[string]any)["id"].(string) + "/members")
	}
	return out
}

// live makes the client's calls.
func (c *client) live() {
	m := &model{client: c}
	for c.left > 0 {
		if c.rnd.IntN(2) == 0 {
			m.step()
		} else {
			c.anything()
		}
		if c.rnd.IntN(40) == 0 {
			if bad := c.s.broken(); len(bad) > 0 {
				c.Error(strings.Join(bad, "\n"))
				return
			}
		}
	}
}

func (c *client) n(most int) int { return c.rnd.IntN(most) }

func (c *client) port() int { return []int{0, 80, 81, 82, 83, 443, 70000}[c.n(7)] }

func (c *client) protocol() string {
	return []string{"TCP", "UDP", "HTTP", "HTTPS", "SCTP", "PROXY", "QUIC"}[c.n(7)]
}

func (c *client) member() obj {
	m := obj{"address": fmt.Sprintf("10.0.0.%d", c.n(6)), "protocol_port": 80 + c.n(2)}
	switch c.n(8) {
	case 0:
		m["weight"] = c.n(300)
	case 1:
		m["monitor_port"] = "8080"
	case 2:
		m["address"] = []any{"fd00::1", "bad", nil, 7}[c.n(4)]
	case 3:
		m["backup"] = true
	case 4:
		m["tags"] = []string{"a", "b"}
	}
	return m
}

func (c *client) monitor() obj {
	return obj{"type": []string{"TCP", "HTTP", "UDP-CONNECT", "PING", "NO"}[c.n(5)], "delay": c.n(5), "timeout": c.n(5),
		"max_retries": c.n(12)}
}

func (c *client) pool() obj {
	p := obj{"name": []string{"a", "b", ""}[c.n(3)], "protocol": c.protocol(), "lb_algorithm": "ROUND_ROBIN"}
	if c.n(3) == 0 {
		p["session_persistence"] = obj{"type": []string{"SOURCE_IP", "HTTP_COOKIE", "APP_COOKIE"}[c.n(3)]}
	}
	return p
}

func (c *client) tree() obj {
	lb := obj{"name": "shared", "vip_subnet_id": "6c3f7bb1-1111-4444-8888-000000000001"}
	var listeners []obj
	for range c.n(3) {
		pool := c.pool()
		pool["members"] = []obj{c.member(), c.member()}
		if c.n(2) == 0 {
			pool["healthmonitor"] = c.monitor()
		}
		listeners = append(listeners, obj{"protocol": c.protocol(), "protocol_port": c.port(), "default_pool": pool})
	}
	if listeners != nil {
		lb["listeners"] = listeners
	}
	return lb
}

// anything makes a call at whatever is there, right or wrong.
func (c *client) anything() {
	pick := func(kind string) string { return c.shared.pick(c.rnd, kind) }
	create := func(kind, path string, body obj) {
		if code, answer := c.call("POST", path, obj{kind: body}); code == http.StatusCreated {
			c.shared.add(kind, idOf(answer, kind))
		}
	}
	pool := "pools/" + pick("pool")
	switch c.n(24) {
	case 0, 1:
		create("loadbalancer", "loadbalancers", c.tree())
	case 2, 3:
		create("listener", "listeners", obj{"loadbalancer_id": pick("loadbalancer"), "protocol": c.protocol(), "protocol_port": c.port()})
	case 4:
		p := c.pool()
		p["loadbalancer_id"] = pick("loadbalancer")
		create("pool", "pools", p)
	case 5:
		p := c.pool()
		p["listener_id"] = pick("listener")
		create("pool", "pools", p)
	case 6:
		create("member", pool+"/members", c.member())
	case 7, 8:
		c.call("PUT", pool+"/members?additive_only="+[]string{"true", "False", "x"}[c.n(3)], obj{"members": []obj{c.member(), c.member(), c.member()}})
	case 9:
		m := c.monitor()
		m["pool_id"] = pick("pool")
		create("healthmonitor", "healthmonitors", m)
	case 10, 11:
		create("l7policy", "l7policies", obj{"listener_id": pick("listener"), "action": []string{"REJECT", "REDIRECT_TO_POOL", "REDIRECT_TO_URL"}[c.n(3)],
			"redirect_pool_id": pick("pool"), "redirect_url": "http://a.example/", "position": 1 + c.n(4)})
	case 12:
		create("rule", "l7policies/"+pick("l7policy")+"/rules", obj{"type": "PATH", "compare_type": "STARTS_WITH", "value": "/a"})
	case 13:
		kind := []string{"listener", "pool", "loadbalancer"}[c.n(3)]
		c.call("PUT", kind+"s/"+pick(kind), obj{kind: obj{"name": "n", "admin_state_up": c.n(4) > 0, "tags": nil}})
	case 14:
		c.call("PUT", "l7policies/"+pick("l7policy"), obj{"l7policy": obj{"position": 1 + c.n(5)}})
	case 15:
		c.call("DELETE", []string{"listeners/" + pick("listener"), pool, "healthmonitors/" + pick("healthmonitor"), "l7policies/" + pick("l7policy")}[c.n(4)], nil)
	case 16:
		c.call("DELETE", pool+"/members/"+pick("member"), nil)
	case 17:
		c.call("DELETE", "loadbalancers/"+pick("loadbalancer")+"?cascade="+[]string{"true", "false"}[c.n(2)], nil)
	case 18:
		c.call("PUT", "loadbalancers/"+pick("loadbalancer")+"/failover", nil)
	case 19:
		c.call("GET", "loadbalancers/"+pick("loadbalancer")+[]string{"", "/status", "/stats", "/nosuch"}[c.n(4)], nil)
	case 20:
		c.call("GET", []string{"loadbalancers?limit=3&sort=name:desc", "listeners?protocol=TCP", "pools?tags=a", "listeners?nosuch=1"}[c.n(4)], nil)
	case 21:
		c.observe(pick("member"))
	case 22:
		c.behindItsBack(pick)
	case 23:
		c.call("GET", pool+"/members", nil)
	}
}

// observe tells what a data plane might have seen.
func (c *client) observe(member string) {
	c.s.mu.Lock()
	var status []plane.Status
	if m := c.s.db.get(kindMember, member); m != nil {
		status = []plane.Status{{ID: m.Balancer, Members: map[string]string{member: []string{online, failed, draining}[c.n(3)]}}}
	}
	c.s.mu.Unlock()
	c.s.Observe(status)
}

// behindItsBack does what other people's hands do; that it is refused at times is right.
func (c *client) behindItsBack(pick func(string) string) {
	switch c.n(4) {
	case 0:
		_ = c.s.Remove(pick([]string{"listener", "pool", "member", "loadbalancer"}[c.n(4)]))
	case 1:
		_ = c.s.ForceMember(pick("member"), []string{"", failed}[c.n(2)])
	case 2:
		_ = c.s.SetProvisioningStatus(pick("loadbalancer"), failed)
	case 3:
		_ = c.s.Edit(pick("listener"), obj{"connection_limit": c.n(100)})
	}
}
