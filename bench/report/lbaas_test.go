package report

import (
	"slices"
	"strings"
	"testing"

	"proxylab/bench/events"
)

// lbaasLog is a subject with two Services of type LoadBalancer, of which one is never reached, and a killed instance.
func lbaasLog() []events.Event {
	id := &events.Subject{Proxier: "iptables", Repetition: 1}
	at, lost := 1.5, 2
	list := []events.Event{
		{SubjectStarted: &events.SubjectStarted{}},
		{LBCall: &events.LBCall{Operation: "loadbalancer.create", Write: true, Code: 201, Seconds: 0.1}},
		{LBCall: &events.LBCall{Operation: "loadbalancer.show", Code: 200, Seconds: 0.01}},
		{LBCall: &events.LBCall{Operation: "member.batch_update", Write: true, Code: 409, Seconds: 0.02}},
		{LBCall: &events.LBCall{Operation: "member.batch_update", Write: true, Seconds: 0.03}},
		{LBCall: &events.LBCall{Operation: "loadbalancer.show", Code: 404, Seconds: 0.01}},
		{LBState: &events.LBState{Kind: "loadbalancer", ID: "1", Status: "provisioning", To: "PENDING_CREATE"}},
		{LBState: &events.LBState{Kind: "loadbalancer", ID: "1", Status: "provisioning", From: "PENDING_CREATE", To: "ACTIVE", Seconds: 2}},
		{LBState: &events.LBState{Kind: "member", ID: "m", Status: "operating", To: "NO_MONITOR"}},
		{LBState: &events.LBState{Kind: "member", ID: "m", Status: "operating", From: "ONLINE", To: "ERROR", Seconds: 9}},
		{LBState: &events.LBState{Kind: "member", ID: "n", Status: "operating", From: "OFFLINE", To: "ERROR", Seconds: 9}},
		{LBState: &events.LBState{Kind: "member", ID: "m", Status: "operating", From: "ERROR", To: "ONLINE", Seconds: 1}},
		{LBState: &events.LBState{Kind: "member", ID: "m", Status: "operating", From: "ONLINE", To: "DELETED", Seconds: 1}},
		{LBPublished: &events.LBPublished{Service: "default/a", Address: "10.10.0.128:80", Created: true, AddressSeconds: &at, Seconds: 2}},
		{LBPublished: &events.LBPublished{Service: "default/b", Created: true, Seconds: 30, Error: "no answer"}},
		{LBFailover: &events.LBFailover{From: "lb1", To: "lb2", Seconds: 0.4, FlowsLost: &lost, FlowsKept: new(int)}},
		{LBFault: &events.LBFault{Name: "busy", What: "on", Text: "member.batch_update is answered 409"}},
		{LBFault: &events.LBFault{Name: "busy", What: "struck"}},
		{PartUsage: &events.PartUsage{Part: "lbaas", PID: 1, CPUSeconds: 1, MaxRSSBytes: 1 << 20}},
		{PartUsage: &events.PartUsage{Part: "lbaas", PID: 2, CPUSeconds: 0.5, MaxRSSBytes: 2 << 20}},
		{NodeChange: &events.NodeChange{Node: "node3", What: "killed"}},
	}
	for i := range list {
		list[i].Subject = id
	}
	return list
}

func TestExpectationsAboutLoadBalancers(t *testing.T) {
	r := Fold(slices.Values(lbaasLog()))
	for text, want := range map[string]string{
		"lb.publish.p50 == 2s":           "2s",
		"lb.publish.max == 30s":          "30s",
		"lb.publish.samples == 2":        "2",
		"lb.publish.unobserved == 1":     "1",
		"lb.publish.address.p99 == 1.5s": "1.5s",
		"lb.provisioning.max == 2s":      "2s",
		"lb.provisioning.samples == 1":   "1",
		"lb.api.calls == 5":              "5",
		"lb.api.writes == 3":             "3",
		"lb.api.member_writes == 2":      "2",
		"lb.api.errors == 2":             "2",
		"lb.api.seconds.max == 100ms":    "100ms",
		"lb.members.changes == 3":        "3",
		"lb.members.down == 1":           "1",
		"lb.failover.count == 1":         "1",
		"lb.failover.max < 1s":           "400ms",
		"lb.failover.flows_lost == 2":    "2",
		"lb.failover.flows_kept == 0":    "0",
	} {
		e, err := ParseExpectation(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if v := Evaluate(r, []Expectation{e})[0]; !v.Holds || v.Got != want {
			t.Errorf("%s: holds %v, got %q, want %q", text, v.Holds, v.Got, want)
		}
		if v := Evaluate(&Result{Subjects: []*Subject{{}}}, []Expectation{e})[0]; v.Holds || !strings.HasPrefix(v.Got, "no samples: ") {
			t.Errorf("%s, nothing measured: holds %v, got %q", text, v.Holds, v.Got)
		}
	}
}

func TestEachMetricOfLoadBalancersIsTried(t *testing.T) {
	r := Fold(slices.Values(lbaasLog()))
	for _, m := range lbaasMetrics() {
		if v, why := m.get(r.Subjects[0]); v == nil {
			t.Errorf("%s has no value: %s", m.name, why)
		}
	}
}

func TestLBaaSInTheResult(t *testing.T) {
	l := Fold(slices.Values(lbaasLog())).Subjects[0].LBaaS
	op := l.API.Operations["member.batch_update"]
	if op == nil || op.Calls != 2 || op.Codes[409] != 1 || op.Codes[0] != 1 {
		t.Errorf("member.batch_update: %+v", op)
	}
	if l.FaultsStruck["busy"] != 1 {
		t.Errorf("faults: %v", l.FaultsStruck)
	}
	// Two processes were the server, one after the other.
	if u := l.Parts["lbaas"]; u == nil || u.CPUSeconds != 1.5 || u.MaxRSSBytes != 2<<20 {
		t.Errorf("cost: %+v", u)
	}
	if l := Fold(slices.Values(lbaasLog()[:1])).Subjects[0].LBaaS; l != nil {
		t.Errorf("without load balancers there is %+v", l)
	}
}

func TestLBaaSInTheTable(t *testing.T) {
	table := Table(Fold(slices.Values(lbaasLog())), TableOptions{Width: 100})
	for _, want := range []string{
		"Load balancers", "Services published", "create to first byte, max", "not within the time limit", "members that went down",
		"longest", "flows lost", "CPU, lbaas", "peak memory",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in the table:\n%s", want, table)
		}
	}
	if without := Table(Fold(slices.Values(lbaasLog()[:1])), TableOptions{}); strings.Contains(without, "Load balancers") {
		t.Errorf("a run without any speaks of load balancers:\n%s", without)
	}
}

// TestFlowsNobodyCounted: an instance that was killed may not have told how many there were.
func TestFlowsNobodyCounted(t *testing.T) {
	log := append(lbaasLog(), events.Event{
		Subject:    &events.Subject{Proxier: "iptables", Repetition: 1},
		LBFailover: &events.LBFailover{From: "lb2", To: "lb1", Seconds: 0.5},
	})
	e, err := ParseExpectation("lb.failover.flows_lost == 2")
	if err != nil {
		t.Fatal(err)
	}
	if v := Evaluate(Fold(slices.Values(log)), []Expectation{e})[0]; v.Holds {
		t.Errorf("holds with %q although one was not counted", v.Got)
	}
}

func TestLBaaSInTheProgress(t *testing.T) {
	var out strings.Builder
	show := Progress(&out)
	for _, e := range lbaasLog() {
		show(e)
	}
	for _, want := range []string{
		"iptables: default/a answers at 10.10.0.128:80, 2s after it was created", "iptables: default/b does not answer 30s after it was created: no answer",
		"iptables: lb1 ended, lb2 took over in 400ms: 2 flows lost, 0 kept", "iptables: fault busy on", "iptables: node3 killed",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the progress:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "struck") {
		t.Errorf("each time that a fault strikes is a line:\n%s", out.String())
	}
}
