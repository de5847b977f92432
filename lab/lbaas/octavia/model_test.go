package octavia

import (
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// model is what a client's own balancer must be like. Nobody else writes it; when an operation of it fails, the client
// deletes it and begins again.
type model struct {
	*client
	lb        string
	isReady   bool // it is there, and ACTIVE
	listeners map[string]*modelListener
	pools     map[string]*modelPool
}

type modelListener struct {
	protocol string
	port     int
	pool     string
}

type modelPool struct {
	protocol string
	members  map[string]modelMember // address
	monitor  string
}

type modelMember struct {
	id     string
	weight int
}

// step makes one write at the balancer, and wants the status the model foresees and the state it has then.
func (m *model) step() {
	if !m.isReady {
		if m.isReady = m.ready(); !m.isReady {
			return
		}
	}
	switch n := m.n(10); {
	case n < 2:
		m.createListener()
	case n < 4:
		m.createPool()
	case n == 4:
		m.createMonitor()
	case n < 8:
		m.replaceMembers()
	case n == 8:
		m.createMember()
	default:
		m.deleteSomething()
	}
	if m.isReady = m.ready(); m.isReady {
		m.compare()
	}
}

// ready waits until the balancer is ACTIVE; one in ERROR is thrown away, and none is replaced by a new one.
func (m *model) ready() bool {
	if m.lb == "" {
		code, body := m.call("POST", "loadbalancers", obj{"loadbalancer": obj{"name": "own",
			"vip_subnet_id": "6c3f7bb1-1111-4444-8888-000000000001"}})
		m.want("create balancer", code, http.StatusCreated)
		m.lb = idOf(body, "loadbalancer")
		m.listeners, m.pools = map[string]*modelListener{}, map[string]*modelPool{}
	}
	for m.s.Pending()[m.lb].Name != "" {
		runtime.Gosched()
	}
	code, body := m.call("GET", "loadbalancers/"+m.lb, nil)
	m.want("show balancer", code, http.StatusOK)
	state, _ := body["loadbalancer"].(map[string]any)["provisioning_status"].(string)
	switch state {
	case active:
		return true
	case failed:
		code, _ := m.call("POST", "listeners", obj{"listener": obj{"loadbalancer_id": m.lb, "protocol": "TCP", "protocol_port": 9}})
		m.want("create below ERROR", code, http.StatusConflict)
		code, _ = m.call("DELETE", "loadbalancers/"+m.lb+"?cascade=true", nil)
		m.want("delete in ERROR", code, http.StatusNoContent)
		for m.s.Pending()[m.lb].Name != "" {
			runtime.Gosched()
		}
		if code, _ = m.call("GET", "loadbalancers/"+m.lb, nil); code == http.StatusNotFound { // else the deletion failed too
			m.lb = ""
		}
	default:
		m.Errorf("balancer %s waits for nothing and is %s", m.lb, state)
	}
	return false
}

// want compares a status.
func (m *model) want(what string, have, want int) {
	if have != want {
		m.Errorf("%s of %s: %d, want %d (%+v %+v)", what, m.lb, have, want, m.listeners, m.pools)
	}
}

func (m *model) createListener() {
	protocol, port := []string{"TCP", "UDP", "HTTP"}[m.n(3)], 80+m.n(3)
	want := http.StatusCreated
	for _, l := range m.listeners {
		if transport(l.protocol) == transport(protocol) && l.port == port {
			want = http.StatusConflict
		}
	}
	code, body := m.call("POST", "listeners", obj{"listener": obj{"loadbalancer_id": m.lb, "protocol": protocol, "protocol_port": port}})
	m.want("create listener", code, want)
	if code == http.StatusCreated {
		m.listeners[idOf(body, "listener")] = &modelListener{protocol: protocol, port: port}
	}
}

// anyOf picks a key, always the same for the same random numbers.
func anyOf[V any](m *model, of map[string]V) string {
	keys := slices.Sorted(maps.Keys(of))
	if len(keys) == 0 {
		return ""
	}
	return keys[m.n(len(keys))]
}

func (m *model) createPool() {
	listener := anyOf(m, m.listeners)
	if listener == "" {
		return
	}
	l := m.listeners[listener]
	protocol := []string{"TCP", "UDP", "HTTP"}[m.n(3)]
	want := http.StatusCreated
	switch fits := l.protocol == protocol || l.protocol == "TCP" && protocol == "HTTP"; {
	case !fits:
		want = http.StatusBadRequest
	case l.pool != "":
		want = http.StatusConflict
	}
	code, body := m.call("POST", "pools", obj{"pool": obj{"listener_id": listener, "protocol": protocol, "lb_algorithm": "LEAST_CONNECTIONS"}})
	m.want("create pool", code, want)
	if code == http.StatusCreated {
		l.pool = idOf(body, "pool")
		m.pools[l.pool] = &modelPool{protocol: protocol, members: map[string]modelMember{}}
	}
}

func (m *model) createMonitor() {
	pool := anyOf(m, m.pools)
	if pool == "" {
		return
	}
	p := m.pools[pool]
	kind := []string{"TCP", "HTTP", "UDP-CONNECT"}[m.n(3)]
	want := http.StatusCreated
	switch {
	case kind == "UDP-CONNECT" && p.protocol != "UDP":
		want = http.StatusBadRequest
	case p.monitor != "":
		want = http.StatusConflict
	}
	code, body := m.call("POST", "healthmonitors", obj{"healthmonitor": obj{"pool_id": pool, "type": kind, "delay": 5, "timeout": 3, "max_retries": 1}})
	m.want("create monitor", code, want)
	if code == http.StatusCreated {
		p.monitor = idOf(body, "healthmonitor")
	}
}

func (m *model) createMember() {
	pool := anyOf(m, m.pools)
	if pool == "" {
		return
	}
	address := fmt.Sprintf("10.1.0.%d", m.n(5))
	want := http.StatusCreated
	if _, there := m.pools[pool].members[address]; there {
		want = http.StatusConflict
	}
	code, body := m.call("POST", "pools/"+pool+"/members", obj{"member": obj{"address": address, "protocol_port": 80, "weight": 3}})
	m.want("create member", code, want)
	if code == http.StatusCreated {
		m.pools[pool].members[address] = modelMember{idOf(body, "member"), 3}
	}
}

func (m *model) replaceMembers() {
	pool := anyOf(m, m.pools)
	if pool == "" {
		return
	}
	additive := m.n(3) == 0
	members, sent := []obj{}, map[string]int{}
	for i := range 5 {
		if m.n(2) == 0 {
			address, weight := fmt.Sprintf("10.1.0.%d", i), m.n(257)
			members, sent[address] = append(members, obj{"address": address, "protocol_port": 80, "weight": weight}), weight
		}
	}
	code, _ := m.call("PUT", fmt.Sprintf("pools/%s/members?additive_only=%t", pool, additive), obj{"members": members})
	m.want("batch", code, http.StatusAccepted)
	have := m.pools[pool].members
	for address := range have {
		if _, stays := sent[address]; !stays && !additive {
			delete(have, address)
		}
	}
	for address, weight := range sent {
		have[address] = modelMember{have[address].id, weight}
	}
}

func (m *model) deleteSomething() {
	switch m.n(4) {
	case 0:
		if l := anyOf(m, m.listeners); l != "" {
			code, _ := m.call("DELETE", "listeners/"+l, nil)
			m.want("delete listener", code, http.StatusNoContent)
			delete(m.listeners, l)
		}
	case 1:
		if p := anyOf(m, m.pools); p != "" {
			code, _ := m.call("DELETE", "pools/"+p, nil)
			m.want("delete pool", code, http.StatusNoContent)
			delete(m.pools, p)
			for _, l := range m.listeners {
				if l.pool == p {
					l.pool = ""
				}
			}
		}
	case 2:
		if p := anyOf(m, m.pools); p != "" && m.pools[p].monitor != "" {
			code, _ := m.call("DELETE", "healthmonitors/"+m.pools[p].monitor, nil)
			m.want("delete monitor", code, http.StatusNoContent)
			m.pools[p].monitor = ""
		}
	case 3:
		code, _ := m.call("DELETE", "loadbalancers/"+m.lb, nil)
		if len(m.listeners)+len(m.pools) > 0 {
			m.want("delete balancer with children", code, http.StatusBadRequest)
			return
		}
		m.want("delete balancer", code, http.StatusNoContent)
		m.listeners, m.pools = map[string]*modelListener{}, map[string]*modelPool{}
		for m.s.Pending()[m.lb].Name != "" {
			runtime.Gosched()
		}
		if code, _ = m.call("GET", "loadbalancers/"+m.lb, nil); code == http.StatusNotFound {
			m.lb = ""
		}
		m.isReady = false
	}
}

// compare looks at the whole balancer.
func (m *model) compare() {
	if m.n(3) > 0 {
		return
	}
	_, body := m.call("GET", "listeners?loadbalancer_id="+m.lb, nil)
	have := map[string]modelListener{}
	for _, o := range body["listeners"].([]any) {
		l := o.(map[string]any)
		pool, _ := l["default_pool_id"].(string)
		have[l["id"].(string)] = modelListener{l["protocol"].(string), int(l["protocol_port"].(float64)), pool}
	}
	want := map[string]modelListener{}
	for id, l := range m.listeners {
		want[id] = *l
	}
	if d := cmp.Diff(want, have, cmp.AllowUnexported(modelListener{})); d != "" {
		m.Errorf("listeners of %s (-model +service):\n%s", m.lb, d)
	}
	pool := anyOf(m, m.pools)
	if pool == "" {
		return
	}
	_, body = m.call("GET", "pools/"+pool+"/members", nil)
	weights := map[string]int{}
	for _, o := range body["members"].([]any) {
		member := o.(map[string]any)
		weights[member["address"].(string)] = int(member["weight"].(float64))
		if member["provisioning_status"] != active {
			m.Errorf("member %v of an ACTIVE balancer is %v", member["id"], member["provisioning_status"])
		}
	}
	wanted := map[string]int{}
	for address, member := range m.pools[pool].members {
		wanted[address] = member.weight
	}
	if d := cmp.Diff(wanted, weights); d != "" {
		m.Errorf("members of pool %s (-model +service):\n%s", pool, d)
	}
}
