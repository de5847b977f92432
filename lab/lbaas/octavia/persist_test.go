package octavia

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRestart stops a service in the middle of things, and goes on with what it has kept.
func TestRestart(t *testing.T) {
	file := FileStore(filepath.Join(t.TempDir(), "state.json"))
	data := &recorder{}
	opts := Options{Manual: true, Store: file, Apply: data.apply, Network: &ports{have: map[string]string{}}}
	h := newHarness(t, opts)
	s := h.stack(true)
	http := h.make("listener", "listeners", obj{"loadbalancer_id": s.lb, "protocol": "HTTP", "protocol_port": 8080,
		"insert_headers": obj{"X-Forwarded-For": "true"}, "tags": []string{"a"}})
	policy := h.make("l7policy", "l7policies", obj{"listener_id": http, "action": "REJECT",
		"rules": []obj{{"type": "PATH", "compare_type": "STARTS_WITH", "value": "/x"}}})
	h.make("pool", "pools", obj{"loadbalancer_id": s.lb, "protocol": "UDP", "lb_algorithm": "SOURCE_IP",
		"session_persistence": obj{"type": "SOURCE_IP", "persistence_timeout": 7}})
	web := h.make("pool", "pools", obj{"loadbalancer_id": s.lb, "protocol": "HTTP", "lb_algorithm": "SOURCE_IP"})
	h.make("healthmonitor", "healthmonitors", obj{"pool_id": web, "type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 1,
		"http_version": 1.1, "domain_name": "a.example"})
	h.do("PUT", "/v2.0/lbaas/quotas/p", obj{"quota": obj{"listener": 5}}, 202)
	if err := h.s.ForceMember(s.b, offline); err != nil {
		t.Fatal(err)
	}
	h.do("PUT", "/v2.0/lbaas/pools/"+s.pool+"/members", obj{"members": []obj{{"address": "10.0.0.2", "protocol_port": 80}}}, 202)
	before := everything(t, h.s)
	if err := h.s.Close(); err != nil {
		t.Fatal(err)
	}
	told := data.last(t)

	again := newHarness(t, opts)
	if d := cmp.Diff(before, everything(t, again.s)); d != "" {
		t.Error(d)
	}
	if op := again.s.Pending()[s.lb]; op.Name != "member.batch_update" || op.Resource != s.pool || op.Project != "p" {
		t.Errorf("%+v", op)
	}
	if got := again.show("pools/" + s.pool + "/members/" + s.a)["provisioning_status"]; got != pendingDelete {
		t.Error(got)
	}
	again.settle()
	again.do("GET", "/v2.0/lbaas/pools/"+s.pool+"/members/"+s.a, nil, 404)
	if got := data.last(t); got[0].ID != told[0].ID || len(got[0].Pools[0].Members) != 1 || got[0].Pools[0].Members[0].AdminUp ||
		got[0].Listeners[1].Policies[0].ID != policy || got[0].Pools[2].Monitor.HTTPVersion != 1.1 {
		t.Errorf("%+v", got)
	}
}

// TestRestartTellsTheDataPlane wants what was carried before to be carried again, without a call of the API.
func TestRestartTellsTheDataPlane(t *testing.T) {
	file := FileStore(filepath.Join(t.TempDir(), "state.json"))
	first := newHarness(t, Options{Manual: true, Store: file, Apply: (&recorder{}).apply})
	s := first.stack(false)
	first.do("PUT", "/v2.0/lbaas/listeners/"+s.listener, obj{"listener": obj{"connection_limit": 9}}, 200)
	if err := first.s.Close(); err != nil {
		t.Fatal(err)
	}
	data := &recorder{}
	again := newHarness(t, Options{Manual: true, Store: file, Apply: data.apply})
	p := &pending{done: make(chan struct{})}
	again.s.mu.Lock()
	again.s.queue(p)
	again.s.mu.Unlock()
	<-p.done
	got := data.last(t)
	if len(got) != 1 || len(got[0].Pools[0].Members) != 2 || got[0].Listeners[0].ConnectionLimit != -1 {
		t.Errorf("not what was carried before the update that is pending: %+v", got)
	}
}

func TestBrokenState(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":         `{"version":1,`,
		"other version":   `{"version":7}`,
		"unknown kind":    `{"version":1,"objects":[{"kind":"cat","id":"x","seq":1,"attrs":{}}]}`,
		"orphan":          `{"version":1,"objects":[{"kind":"member","id":"x","parent":"y","seq":1,"attrs":{}}]}`,
		"balancer no VIP": `{"version":1,"objects":[{"kind":"loadbalancer","id":"x","balancer":"x","seq":1,"attrs":{}}]}`,
	} {
		file := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Store: FileStore(file)}); err == nil || !strings.Contains(err.Error(), "state") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Options{Store: FileStore(t.TempDir())}); err == nil {
		t.Error("a directory is no state")
	}
}

// fullDisk fails for a while.
type fullDisk struct {
	kept  []byte
	fails int
	tried chan struct{}
}

func (d *fullDisk) Load() ([]byte, error) { return d.kept, nil }

func (d *fullDisk) Save(data []byte) error {
	defer func() { d.tried <- struct{}{} }()
	if d.fails > 0 {
		d.fails--
		return errors.New("no space left on device")
	}
	d.kept = data
	return nil
}

func TestStateIsWrittenAgain(t *testing.T) {
	disk := &fullDisk{fails: 1, tried: make(chan struct{}, 100)}
	h := newHarness(t, Options{Manual: true, Store: disk})
	h.do("POST", "/v2.0/lbaas/loadbalancers", obj{"loadbalancer": obj{"vip_subnet_id": subnet}}, 201)
	select {
	case <-disk.tried:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was written")
	}
	if err := h.s.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(disk.kept), subnet) {
		t.Error("what could not be written at first was not written at the end")
	}
}
