package cloud

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// TestDrift is what somebody does to a balancer behind the controller's back, and what is done about it.
func TestDrift(t *testing.T) {
	tests := []struct {
		name, row string
		edit      func(*model)
		want      []string
	}{
		{name: "nothing", edit: func(*model) {}},
		{name: "a pool emptied", row: "cpo 2962", edit: func(m *model) { m.Pools[0].Members = nil },
			want: []string{"set members of pool 80/TCP +node-1 +node-2"}},
		{name: "a member deleted", row: "cpo 2370, 2008", edit: func(m *model) { m.Pools[0].Members = m.Pools[0].Members[:1] },
			want: []string{"set members of pool 80/TCP +node-2"}},
		{name: "a member too many", row: "k53451, k78954, k121090", edit: func(m *model) {
			m.Pools[1].Members = append(m.Pools[1].Members, haveMember{ID: "m", AdminUp: true, wantMember: wantMember{Name: "node-9", Address: "10.0.0.19", Port: 30053, Weight: 1}})
		}, want: []string{"set members of pool 53/UDP -node-9"}},
		{name: "a member's weight", row: "cpo 2370, 2008", edit: func(m *model) { m.Pools[0].Members[0].Weight = 0 },
			want: []string{"set members of pool 80/TCP ~node-1"}},
		{name: "a member's port to ask", edit: func(m *model) { m.Pools[0].Members[1].MonitorPort = 0; m.Pools[0].Members[0].Backup = true },
			want: []string{"set members of pool 80/TCP ~node-1 ~node-2"}},
		{name: "a monitor deleted", row: "cpo 2370, 2008", edit: func(m *model) { m.Pools[0].Monitor = nil },
			want: []string{"create health monitor of pool 80/TCP"}},
		{name: "a monitor changed", row: "cpo 2370, 2008", edit: func(m *model) { m.Pools[0].Monitor.Delay, m.Pools[0].Monitor.Path = 60, "/" },
			want: []string{"update health monitor of pool 80/TCP: delay, url_path"}},
		{name: "a monitor of another type", row: "cpo 2370, 2008", edit: func(m *model) { m.Pools[1].Monitor.Type = "UDP-CONNECT" },
			want: []string{"delete health monitor of pool 53/UDP (from UDP-CONNECT to HTTP)", "create health monitor of pool 53/UDP"}},
		{name: "a listener deleted, its pool left", edit: func(m *model) { m.Listeners = m.Listeners[1:] },
			want: []string{"delete pool pool_0_kube_service_kubernetes_default_web (no listener uses it)", "create listener 80/TCP"}},
		{name: "a listener's limits", edit: func(m *model) {
			m.Listeners[0].ConnectionLimit, m.Listeners[0].AllowedCIDRs, m.Listeners[0].AdminUp = 1, []string{"10.0.0.0/8"}, false
			m.Listeners[1].ClientData = nil
		}, want: []string{"update listener 80/TCP: admin_state_up, allowed_cidrs, connection_limit", "update listener 53/UDP: timeout_client_data"}},
		{name: "a pool deleted", edit: func(m *model) { m.Pools, m.Listeners[0].DefaultPoolID = m.Pools[1:], "" },
			want: []string{"create pool 80/TCP (the listener has none)"}},
		{name: "affinity taken away", row: "a changed sessionAffinity", edit: func(m *model) { m.Pools[0].Persistence = nil },
			want: []string{"update pool 80/TCP: session_persistence"}},
		{name: "the algorithm", edit: func(m *model) { m.Pools[0].Algorithm = "SOURCE_IP" }, want: []string{"update pool 80/TCP: lb_algorithm"}},
		{name: "a pool without the PROXY protocol", row: "cpo 1287, 1167", edit: func(m *model) { m.Pools[0].Protocol = "TCP" },
			want: []string{"replace pool 80/TCP (from TCP to PROXY)", "delete pool pool_0_kube_service_kubernetes_default_web (replaced)"}},
		{name: "tags taken away", edit: func(m *model) { m.Balancer.Tags, m.Listeners[0].Tags = nil, nil },
			want: []string{"update load balancer kube_service_kubernetes_default_web: tags", "update listener 80/TCP: tags"}},
		{name: "switched off", edit: func(m *model) { m.Balancer.AdminUp = false }, want: []string{"update load balancer kube_service_kubernetes_default_web: admin_state_up"}},
		{name: "tags, names and listeners of others", edit: func(m *model) {
			m.Balancer.Tags = append(m.Balancer.Tags, "kube_service_c_ns_other")
			m.Listeners[0].Name, m.Listeners[0].Tags = "renamed", append(m.Listeners[0].Tags, "theirs")
			m.Listeners = append(m.Listeners, haveListener{ID: "x", DefaultPoolID: "y", wantListener: wantListener{Name: "listener_0_kube_service_c_ns_other", Protocol: "TCP", Port: 8080}})
			m.Pools = append(m.Pools, havePool{ID: "y", wantPool: wantPool{Name: "pool_0_kube_service_c_ns_other"}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := wanted(requestFor(t, newService(localPolicy, clientIP(60), annotated(annProxy, "true")), newest, Config{}))
			m := madeFrom(w)
			tt.edit(m)
			var got []string
			for _, s := range converge(t, w, m) {
				got = append(got, s.String())
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestChange is a Service that is changed, and the writes that its balancer takes.
func TestChange(t *testing.T) {
	tests := []struct {
		name, row string
		from, to  []func(*corev1.Service)
		want      []string
	}{
		{name: "affinity on", row: "a changed sessionAffinity", to: []func(*corev1.Service){clientIP(60)},
			want: []string{"update pool 80/TCP: session_persistence", "update pool 53/UDP: session_persistence"}},
		{name: "affinity off", row: "a changed sessionAffinity", from: []func(*corev1.Service){clientIP(60)},
			want: []string{"update pool 80/TCP: session_persistence", "update pool 53/UDP: session_persistence"}},
		{name: "affinity's timeout", row: "a changed sessionAffinity", from: []func(*corev1.Service){clientIP(60)}, to: []func(*corev1.Service){clientIP(90)},
			want: []string{"update pool 53/UDP: session_persistence"}},
		{name: "PROXY switched on", row: "cpo 1287, 1167", to: []func(*corev1.Service){annotated(annProxy, "true")},
			want: []string{"replace pool 80/TCP (from TCP to PROXY)", "delete pool pool_0_kube_service_kubernetes_default_web (replaced)"}},
		{name: "X-Forwarded-For switched on", to: []func(*corev1.Service){annotated(annForwardedFor, "true")},
			want: []string{"delete listener 80/TCP (its protocol is to be HTTP)", "delete pool pool_0_kube_service_kubernetes_default_web (no listener uses it)", "create listener 80/HTTP"}},
		{name: "Local", to: []func(*corev1.Service){localPolicy}, want: []string{
			"set members of pool 80/TCP ~node-1 ~node-2", "create health monitor of pool 80/TCP",
			"set members of pool 53/UDP ~node-1 ~node-2", "create health monitor of pool 53/UDP"}},
		{name: "Cluster", from: []func(*corev1.Service){localPolicy}, want: []string{
			"set members of pool 80/TCP ~node-1 ~node-2", "delete health monitor of pool 80/TCP (none is wanted)",
			"set members of pool 53/UDP ~node-1 ~node-2", "delete health monitor of pool 53/UDP (none is wanted)"}},
		{name: "ports", to: []func(*corev1.Service){ports(port("TCP", 443, 30443), port("TCP", 80, 30081))}, want: []string{
			"delete listener 53/UDP (no port of the Service)", "delete pool pool_1_kube_service_kubernetes_default_web (no listener uses it)",
			"create listener 443/TCP", "set members of pool 80/TCP +node-1 +node-2 -node-1 -node-2"}},
		{name: "source ranges", to: []func(*corev1.Service){func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }},
			want: []string{"update listener 80/TCP: allowed_cidrs", "update listener 53/UDP: allowed_cidrs"}},
		{name: "timeouts and limits", to: []func(*corev1.Service){annotated(annClientData, "1000", annConnectionLimit, "5")}, want: []string{
			"update listener 80/TCP: connection_limit, timeout_client_data", "update listener 53/UDP: connection_limit, timeout_client_data"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := madeFrom(wanted(requestFor(t, newService(tt.from...), newest, Config{})))
			var got []string
			for _, s := range converge(t, wanted(requestFor(t, newService(tt.to...), newest, Config{})), m) {
				got = append(got, s.String())
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestForeignListenerInTheWay(t *testing.T) {
	w := wanted(requestFor(t, newService(), newest, Config{}))
	m := madeFrom(w)
	m.Listeners[0].Name, m.Listeners[0].Tags = "theirs", nil
	if _, err := diff(w, m.have); err == nil || !strings.Contains(err.Error(), "port 80/TCP of the load balancer belongs to listener theirs") {
		t.Errorf("%v", err)
	}
}

// TestConvergence turns any balancer of a Service into any other, and leaves alone what is not the Service's.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := anyWant(t, "from"), anyWant(t, "to")
		m := madeFrom(from)
		theirs := haveListener{ID: "x", DefaultPoolID: "y", wantListener: wantListener{Name: "listener_0_theirs", Protocol: "TCP", Port: 9999}}
		m.Listeners = append(m.Listeners, theirs)
		m.Pools = append(m.Pools, havePool{ID: "y", wantPool: wantPool{Name: "pool_0_theirs"}})
		for range rapid.IntRange(0, 4).Draw(t, "edits") {
			anyEdit(t, m)
		}
		converge(t, to, m)
		if l := m.listenerAt("x"); l == nil || m.poolAt("y") == nil || l.Name != theirs.Name {
			t.Fatalf("what is another's has changed")
		}
		if len(m.Listeners) != len(to.Listeners)+1 || len(m.Pools) != len(to.Listeners)+1 {
			t.Fatalf("%d listeners and %d pools for %d ports", len(m.Listeners), len(m.Pools), len(to.Listeners))
		}
	})
}

func anyWant(t *rapid.T, label string) want {
	svc := newService(ports())
	for n := range rapid.IntRange(0, 5).Draw(t, label+" ports") {
		protocol := rapid.SampledFrom([]corev1.Protocol{"TCP", "UDP", "SCTP"}).Draw(t, "protocol")
		svc.Spec.Ports = append(svc.Spec.Ports, port(protocol, int32(80+n), int32(30000+rapid.IntRange(0, 9).Draw(t, "node port"))))
	}
	if rapid.Bool().Draw(t, "local") {
		localPolicy(svc)
	}
	if rapid.Bool().Draw(t, "affinity") {
		clientIP(int32(rapid.IntRange(1, 3).Draw(t, "seconds")))(svc)
	}
	if rapid.Bool().Draw(t, "dual stack") {
		dualStack(svc)
	}
	for name, values := range map[string][]string{annProxy: {"", "v1", "v2"}, annMonitor: {"", "true"}, annTLS: {"", "x"}, annConnectionLimit: {"", "7"}, annTCPInspect: {"", "9"}} {
		svc.Annotations[name] = rapid.SampledFrom(values).Draw(t, name)
	}
	if svc.Annotations[annProxy] == "" {
		svc.Annotations[annForwardedFor] = rapid.SampledFrom([]string{"", "true"}).Draw(t, annForwardedFor)
	}
	s, err := settingsOf(svc, Config{SubnetID: subnet, SubnetID6: "six"}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	nodes := twoNodes()[:rapid.IntRange(0, 2).Draw(t, "nodes")]
	return wanted(request{service: svc, nodes: nodes, settings: s, features: newest, cluster: "kubernetes", clusterID: "c1"})
}

func anyEdit(t *rapid.T, m *model) {
	edits := map[string]func(){
		"balancer": func() { m.Balancer.AdminUp, m.Balancer.Tags = false, nil },
	}
	if n := len(m.Listeners) - 1; n > 0 {
		i := rapid.IntRange(0, n-1).Draw(t, "listener")
		l := &m.Listeners[i]
		edits["delete listener"] = func() { m.Listeners = slices.Delete(m.Listeners, i, i+1) }
		edits["unlink"] = func() { l.DefaultPoolID = "" }
		edits["limit"] = func() { l.ConnectionLimit, l.AllowedCIDRs = 3, nil }
	}
	if n := len(m.Pools) - 1; n > 0 {
		i := rapid.IntRange(0, n-1).Draw(t, "pool")
		p := &m.Pools[i]
		edits["empty"] = func() { p.Members = nil }
		edits["monitor"] = func() { p.Monitor = nil }
		edits["affinity"] = func() { p.Persistence = nil }
		edits["delete pool"] = func() {
			for j := range m.Listeners {
				if m.Listeners[j].DefaultPoolID == p.ID {
					m.Listeners[j].DefaultPoolID = ""
				}
			}
			m.Pools = slices.Delete(m.Pools, i, i+1)
		}
	}
	edits[rapid.SampledFrom(slices.Sorted(maps.Keys(edits))).Draw(t, "edit")]()
}
