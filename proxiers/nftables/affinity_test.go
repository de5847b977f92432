package nftables

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

var sticky = bed.Affinity(time.Hour)

func without(all []string, names map[string]int) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return names[s] > 0 })
}

func TestAffinity(t *testing.T) {
	n := newNode(t)
	all := []string{"local1", "local2", "remote1", "remote2"}
	n.Sync(with(web(all...), sticky, bed.NodePort(30080)))
	for _, v6 := range both {
		first := n.TCP(bed.Client, vip(1, v6), 20)
		atPort := n.TCP(bed.Client, onNode(v6, 30080), 20)
		if len(first) != 1 || len(atPort) != 1 {
			t.Errorf("one client met %v and at the node port %v", first, atPort)
		}
		n.Sync(with(web(all...), sticky, bed.NodePort(30080)), dns("local1"))
		if again := n.TCP(bed.Client, vip(1, v6), 20); fmt.Sprint(first) != fmt.Sprint(again) {
			t.Errorf("after another Service's sync the client met %v, before %v", again, first)
		}
		rest := without(all, first)
		n.Sync(with(web(rest...), sticky, bed.NodePort(30080)))
		moved := n.TCP(bed.Client, vip(1, v6), 20)
		if len(moved) != 1 || moved[bed.KindTimeout] > 0 {
			t.Errorf("without its endpoint the client met %v", moved)
		}
		// With the endpoint back the client stays where it is now.
		n.Sync(with(web(all...), sticky, bed.NodePort(30080)))
		if stayed := n.TCP(bed.Client, vip(1, v6), 20); fmt.Sprint(stayed) != fmt.Sprint(moved) {
			t.Errorf("with its endpoint back the client met %v, before %v", stayed, moved)
		}
		n.Sync(with(web(all...), bed.NodePort(30080)))
		n.Only("without affinity", n.TCP(bed.Client, vip(1, v6), bed.OfFour), all...)
		n.Sync(with(web(all...), sticky, bed.NodePort(30080)))
	}
}

// A client whose endpoint stays is not moved by others that go, whatever their numbers are.
func TestAffinityOfOthersStays(t *testing.T) {
	n := newNode(t, bed.Pods(6, 0))
	all := []string{"local1", "local2", "local3", "local4", "local5", "local6"}
	n.Sync(with(web(all...), sticky))
	mine := one(n.TCP(bed.Client, vip(1, false), 1))
	for i := range all {
		left := []string{mine}
		for j, pod := range all {
			if pod != mine && (i+j)%3 != 0 {
				left = append(left, pod)
			}
		}
		n.Sync(with(web(left...), sticky))
		n.Only(fmt.Sprintf("with %v", left), n.TCP(bed.Client, vip(1, false), 5), mine)
	}
}

// Clients spread over all endpoints, gaps in their numbers or not.
func TestAffinitySpreads(t *testing.T) {
	n := newNode(t)
	all := []string{"local1", "local2", "remote1", "remote2"}
	for _, pods := range [][]string{all, {"local1", "remote1", "remote2"}, {"local2", "remote2"}} {
		n.Sync(with(web(pods...), bed.Affinity(time.Second)))
		got := map[string]int{}
		for range 40 {
			for _, from := range []string{bed.Client, bed.Client2, bed.Node, bed.Node2, bed.Outside, "local1", "local2"} {
				for pod, c := range n.TCP(from, vip(1, false), 1) {
					got[pod] += c
				}
			}
			if len(got) == len(pods) {
				break
			}
			n.MustExec(bed.Node, "nft", "flush", "set", "ip", Table, affinityOf(0)) // everybody forgets
		}
		n.Only(fmt.Sprint(pods), got, pods...)
	}
}

// Policy Local has an affinity of its own, to endpoints of this node.
func TestAffinityWithPolicyLocal(t *testing.T) {
	n := newNode(t)
	n.Sync(with(web("local1", "local2", "remote1", "remote2"), sticky, externalLocal, bed.NodePort(30080), balancer(1)))
	for _, v6 := range both {
		for _, from := range []string{bed.Outside, bed.Client, bed.Node} {
			for range 2 {
				got := n.TCP(from, onNode(v6, 30080), 20)
				if len(got) != 1 || from == bed.Outside && got["local1"]+got["local2"] != 20 {
					t.Errorf("from %s: %v", from, got)
				}
			}
		}
		if got := n.TCP(bed.Outside, external(1, v6), 20); len(got) != 1 || got["local1"]+got["local2"] != 20 {
			t.Errorf("balancer: %v", got)
		}
	}
}

// UDP flows and those of several timeouts side by side.
func TestAffinityOfUDP(t *testing.T) {
	n := newNode(t)
	all := []string{"local1", "local2", "remote1", "remote2"}
	n.Sync(with(dns(all...), bed.Affinity(90*time.Second)), with(web(all...), sticky))
	for _, v6 := range both {
		if got := n.UDP(bed.Client, vip(2, v6), 20); len(got) != 1 {
			t.Errorf("UDP: %v", got)
		}
		if got := n.TCP(bed.Client, vip(1, v6), 20); len(got) != 1 {
			t.Errorf("TCP: %v", got)
		}
	}
}

// Clients find their endpoints again after a restart, and after a pass that writes everything.
func TestAffinityOutlivesTheProcess(t *testing.T) {
	n := newNode(t)
	all := []string{"local1", "local2", "remote1", "remote2"}
	services := func(pods ...string) []bed.Service {
		return []bed.Service{with(web(pods...), sticky, externalLocal, bed.NodePort(30080), balancer(1)),
			with(bed.Service{Name: "inside", IP: bed.VIPs(7), Pods: pods}, sticky, internalLocal)}
	}
	// A history: numbers that a new process would not give.
	n.Sync(services("remote2", "local2")...)
	n.Sync(services("local2")...)
	n.Sync(services(all...)...)
	ask := func() (out []string) {
		for _, v6 := range both {
			for _, from := range []string{bed.Client, bed.Client2, bed.Node, bed.Outside, bed.Node2} {
				out = append(out, fmt.Sprint(from, n.TCP(from, vip(1, v6), 3), n.TCP(from, external(1, v6), 3), n.TCP(from, vip(7, v6), 3)))
			}
		}
		return out
	}
	before := ask()
	n.Running.Kill()
	n.Start()
	n.Sync(services(all...)...)
	if after := ask(); !slices.Equal(before, after) {
		t.Errorf("before the restart %v\nafter %v", before, after)
	}
	n.MustExec(bed.Node, "nft", "flush", "chain", "ip", Table, chainServices)
	n.resync(true)
	if after := ask(); !slices.Equal(before, after) {
		t.Errorf("before the repair %v\nafter %v", before, after)
	}
}

// resync asks for a pass that trusts nothing, with nothing changed.
func (n *node) resync(whole bool) {
	n.t.Helper()
	want := services.Snapshot{Node: n.Last.Node, Ports: n.Last.Ports, Full: true}
	if r, err := n.Running.Sync(n.t.Context(), want); err != nil || r.Full != whole {
		n.t.Errorf("%+v, %v; want it written whole: %v", r, err, whole)
	}
}

// The set of clients is listed by whoever looks at the node, and by nft itself for commands that have nothing to do
// with it: that has to work once there are several.
func TestRememberedClientsCanBeListed(t *testing.T) {
	n := newNode(t)
	n.Sync(with(web("local1", "remote1"), bed.Affinity(time.Hour)), with(dns("local1", "remote1"), bed.Affinity(time.Hour)))
	for _, v6 := range []bool{false, true} {
		for _, from := range []string{bed.Client, bed.Client2, bed.Node2, bed.Outside} {
			n.TCP(from, vip(1, v6), 1)
			n.UDP(from, vip(2, v6), 1)
		}
	}
	list := n.MustExec(bed.Node, "nft", "list", "ruleset")
	for _, set := range []string{"tcp-affinity", "udp-affinity"} {
		_, rest, _ := strings.Cut(list, "set "+set+" {")
		body, _, _ := strings.Cut(rest, "}")
		if got := strings.Count(body, "expires"); got != 4 || !strings.Contains(body, "typeof") {
			t.Errorf("%s has %d clients, want 4, by what they are:\n%s", set, got, body)
		}
	}
	n.MustExec(bed.Node, "nft", "list", "tables")
}
