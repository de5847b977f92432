package fabric_test

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"proxylab/lab/lbaas/plane"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/netns/ns"
)

var vips = []netip.AddrPort{netip.MustParseAddrPort("10.10.1.7:8081"), netip.MustParseAddrPort("[fd00:10:10::1:7]:8081")}

// inNamespace is netlink in a namespace.
func inNamespace(t testing.TB, path string, f func(*netlink.Handle)) {
	t.Helper()
	target, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = target.Close() }()
	h, err := netlink.NewHandleAt(target, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	f(h)
}

func addVIPs(t testing.TB, path string) {
	t.Helper()
	inNamespace(t, path, func(h *netlink.Handle) {
		eth0, err := h.LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		for _, vip := range vips {
			a, err := netlink.ParseAddr(netip.PrefixFrom(vip.Addr(), vip.Addr().BitLen()).String())
			if err == nil {
				err = h.AddrReplace(eth0, a)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// forgetNeighbours does what an instance's announcement does to those who know the VIP elsewhere.
func forgetNeighbours(t testing.TB, path string) {
	t.Helper()
	inNamespace(t, path, func(h *netlink.Handle) {
		list, err := h.NeighList(0, netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		for _, neigh := range list {
			if neigh.State != netlink.NUD_PERMANENT {
				_ = h.NeighDel(&neigh) // it may be gone by itself
			}
		}
	})
}

// A VIP is where an instance has it, and nowhere once that one is dead; the other can have it then.
func TestVIPsMoveBetweenInstances(t *testing.T) {
	p, _ := network(t, "vip")
	for range 2 { // it can be repeated
		if err := fabric.EnsureBalancers(p, 2); err != nil {
			t.Fatal(err)
		}
	}
	n := p.Nodes()[0]
	pod(t, p, n, "client", 9)
	places := map[string]string{
		"the fabric": fabric.Path(p.Lab), "a node": fabric.NodePath(p.Lab, n.Name), "a pod": fabric.PodPath(p.Lab, "default", "client"),
	}
	for _, lb := range []string{"lb1", "lb2"} {
		path := fabric.BalancerPath(p.Lab, lb)
		addVIPs(t, path)
		serve(t, path, lb, lb)
		for from, path := range places {
			for _, vip := range vips {
				if who, _, err := ask(path, "tcp", vip); err != nil || who != lb {
					t.Errorf("%s asks %s: answer of %q, error %v, want %s", from, vip, who, err, lb)
				}
			}
		}
		if err := ns.Do(path, func() error { return plane.RemoveVIPs("eth0") }); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{fabric.Path(p.Lab), fabric.NodePath(p.Lab, "node1"), fabric.NodePath(p.Lab, "node2")} {
			forgetNeighbours(t, path)
		}
	}
	if who, _, err := ask(fabric.Path(p.Lab), "tcp", vips[0]); err == nil {
		t.Errorf("%s answers for a VIP that no instance has", who)
	}
}

// An instance reaches the nodes from an address of its own.
func TestInstancesReachNodes(t *testing.T) {
	p, _ := network(t, "lbout")
	if err := fabric.EnsureBalancers(p, 1); err != nil {
		t.Fatal(err)
	}
	addVIPs(t, fabric.BalancerPath(p.Lab, "lb1"))
	n, b := p.Nodes()[1], fabric.Balancers(1)[0]
	serve(t, fabric.NodePath(p.Lab, n.Name), n.Name, n.Name)
	for _, c := range []struct{ to, from netip.Addr }{{n.Addr4.Addr(), b.Addr4.Addr()}, {n.Addr6.Addr(), b.Addr6.Addr()}} {
		who, client, err := ask(fabric.BalancerPath(p.Lab, "lb1"), "tcp", netip.AddrPortFrom(c.to, 8081))
		if err != nil || who != n.Name {
			t.Fatalf("%s: answer of %q, error %v", c.to, who, err)
		}
		if client != c.from.String() {
			t.Errorf("%s was asked from %s, want %s", c.to, client, c.from)
		}
	}
}

func TestLinkDownAndUpAgain(t *testing.T) {
	p, _ := network(t, "cut")
	n := p.Nodes()[0]
	serve(t, fabric.NodePath(p.Lab, n.Name), n.Name, n.Name)
	to := netip.AddrPortFrom(n.Addr4.Addr(), 8081)
	if _, _, err := ask(fabric.Path(p.Lab), "tcp", to); err != nil {
		t.Fatal(err)
	}
	for _, isUp := range []bool{false, true} {
		if err := fabric.SetLink(p.Lab, n.Name, isUp); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ask(fabric.Path(p.Lab), "tcp", to); (err == nil) != isUp {
			t.Errorf("link up %v: %v", isUp, err)
		}
	}
}
