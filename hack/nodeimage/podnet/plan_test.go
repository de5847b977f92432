package main

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name string, ranges []string, addresses ...string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{PodCIDRs: ranges}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a})
	}
	n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeHostName, Address: name})
	return n
}

func TestPlanOfDualStack(t *testing.T) {
	nodes := []*v1.Node{
		node("b", []string{"10.244.1.0/24", "fd00:10:244:1::/64"}, "172.18.0.3", "fc00::3"),
		node("a", []string{"10.244.0.0/24", "fd00:10:244::/64"}, "172.18.0.2", "fc00::2"),
		node("new", nil, "172.18.0.4", "fc00::4"),
	}
	p, err := planFor("a", nodes)
	if err != nil {
		t.Fatal(err)
	}
	want := []route{
		{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("172.18.0.3")},
		{netip.MustParsePrefix("fd00:10:244:1::/64"), netip.MustParseAddr("fc00::3")},
	}
	if len(p.routes) != 2 || p.routes[0] != want[0] || p.routes[1] != want[1] {
		t.Errorf("routes %v, want %v", p.routes, want)
	}
	rules := p.rules()
	for _, line := range []string{
		"ip saddr 10.244.0.0/24 ip daddr != { 10.244.0.0/24, 10.244.1.0/24, 172.18.0.2/32, 172.18.0.3/32, 172.18.0.4/32 } masquerade",
		"ip6 saddr fd00:10:244::/64 ip6 daddr != { fc00::2/128, fc00::3/128, fc00::4/128, fd00:10:244:1::/64, fd00:10:244::/64 } masquerade",
	} {
		if !strings.Contains(rules, line) {
			t.Errorf("rules lack %q:\n%s", line, rules)
		}
	}
	config, err := p.cni(1500)
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet string }
				Routes []struct{ Dst string }
			}
		}
	}
	if err := json.Unmarshal(config, &parsed); err != nil {
		t.Fatal(err)
	}
	ipam := parsed.Plugins[0].IPAM
	if len(ipam.Ranges) != 2 || ipam.Ranges[1][0].Subnet != "fd00:10:244::/64" || ipam.Routes[1].Dst != "::/0" {
		t.Errorf("addresses of pods: %+v", ipam)
	}
}

func TestPlanOfOneFamily(t *testing.T) {
	for _, c := range []struct{ pods, other, self, via, absent string }{
		{"10.244.0.0/24", "10.244.1.0/24", "172.18.0.2", "172.18.0.3", "ip6"},
		{"fd00:10:244::/64", "fd00:10:244:1::/64", "fc00::2", "fc00::3", "ip saddr"},
	} {
		p, err := planFor("a", []*v1.Node{node("a", []string{c.pods}, c.self), node("b", []string{c.other}, c.via)})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.routes) != 1 || p.routes[0].via.String() != c.via {
			t.Errorf("%s: routes %v", c.pods, p.routes)
		}
		if rules := p.rules(); strings.Contains(rules, c.absent) {
			t.Errorf("%s: a rule of the other family:\n%s", c.pods, rules)
		}
	}
}

func TestNoPlanYet(t *testing.T) {
	for name, nodes := range map[string][]*v1.Node{
		"unknown":    {node("b", []string{"10.244.1.0/24"}, "172.18.0.3")},
		"no range":   {node("a", nil, "172.18.0.2")},
		"no address": {node("a", []string{"10.244.0.0/24"})},
		"bad range":  {node("a", []string{"10.244.0.0/33"}, "172.18.0.2")},
	} {
		if p, err := planFor("a", nodes); err == nil {
			t.Errorf("%s: a plan: %v", name, p)
		}
	}
}
