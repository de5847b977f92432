package bed

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Prefixes that the outside client reaches through node1.
var throughNode = []string{
	"10.96.0.0/16", "fd00:10:96::/112", // Services
	"203.0.113.0/24", "2001:db8::/64", // external and balancer addresses
}

// build makes the namespaces, links, addresses, routes and servers.
func (b *Bed) build(p plan) error {
	for _, place := range []string{Outside, Node, Node2} {
		if err := b.addSpace(place, place == Node); err != nil {
			return err
		}
	}
	if err := b.addFabric(); err != nil {
		return err
	}
	names := []string{Client, Client2}
	for i := 1; i <= p.local; i++ {
		names = append(names, fmt.Sprintf("local%d", i))
	}
	for i, name := range names {
		if err := b.addPod(name, 1, i+10); err != nil {
			return err
		}
	}
	for i := 1; i <= p.remote; i++ {
		if err := b.addPod(fmt.Sprintf("remote%d", i), 2, i+9); err != nil {
			return err
		}
	}
	return b.awaitLinks()
}

// awaitLinks returns when all links carry packets and all IPv6 addresses answer for themselves. The kernel sees to both
// some time after they were set up; a neighbour request that is lost until then is repeated only a second later.
func (b *Bed) awaitLinks() error {
	deadline := time.Now().Add(30 * time.Second)
	for place := range b.spaces {
		for {
			var pending []string
			if err := b.wire(place, func(w *wiring) { pending, w.err = w.pending() }); err != nil {
				return fmt.Errorf("links of %s: %w", place, err)
			}
			if len(pending) == 0 {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("links of %s do not come up: %s", place, strings.Join(pending, ", "))
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// pending lists links that are not up and addresses that are tentative.
func (w *wiring) pending() (what []string, err error) {
	links, err := w.LinkList()
	if err == nil {
		for _, l := range links {
			// Kernels with tunnels built in have a link for them in every namespace, which stays down.
			if a := l.Attrs(); a.Name != "lo" && a.Flags&net.FlagUp != 0 && a.OperState != netlink.OperUp {
				what = append(what, a.Name)
			}
		}
		var addrs []netlink.Addr
		addrs, err = w.AddrList(nil, netlink.FAMILY_V6)
		for _, a := range addrs {
			if a.Flags&unix.IFA_F_TENTATIVE != 0 {
				what = append(what, a.IP.String())
			}
		}
	}
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return []string{"(still changing)"}, nil
	}
	return what, err
}

// addSpace makes a place's namespaces with forwarding on and a loopback.
func (b *Bed) addSpace(place string, mounts bool) error {
	s, err := newSpace(mounts)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	b.spaces[place] = s
	return s.do(func() error {
		err := sysctl(map[string]string{
			"net/ipv4/ip_forward":                "1",
			"net/ipv6/conf/all/forwarding":       "1",
			"net/ipv6/conf/all/accept_dad":       "0", // addresses work at once
			"net/ipv6/conf/default/accept_dad":   "0",
			"net/ipv6/conf/default/accept_ra":    "0",
			"net/ipv4/conf/all/rp_filter":        "0",
			"net/ipv4/conf/default/rp_filter":    "0",
			"net/ipv4/ping_group_range":          "0 0",
			"net/ipv4/icmp_ratemask":             "0", // every refusal must be seen: no limit by peer, and none for all
			"net/ipv6/icmp/ratemask":             "\n",
			"net/ipv4/conf/all/send_redirects":   "0",
			"net/ipv4/conf/default/accept_local": "0",
		})
		if err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
}

// addFabric joins the nodes by a bridge in the outside client's namespace.
func (b *Bed) addFabric() error {
	return b.wire(Outside, func(w *wiring) {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		w.do("add bridge", func() error { return w.LinkAdd(bridge) })
		for n := 1; n <= 2; n++ {
			w.addr("br0", netip.PrefixFrom(OutsideAddr(n, false), 24))
			w.addr("br0", netip.PrefixFrom(OutsideAddr(n, true), 64))
		}
		w.up("br0")
		for n, node := range []string{Node, Node2} {
			port := fmt.Sprintf("port%d", n+1)
			w.veth(port, "eth0", b.spaces[node])
			w.do("join bridge", func() error {
				link, err := w.LinkByName(port)
				if err != nil {
					return err
				}
				return w.LinkSetMaster(link, bridge)
			})
			w.up(port)
			w.nested(b, node, func(nw *wiring) { addNode(nw, n+1) })
		}
		for _, v6 := range []bool{false, true} {
			for n := 1; n <= 2; n++ {
				w.route(podCIDR(n, v6), NodeAddr(n, v6), "br0")
			}
		}
		for _, cidr := range throughNode {
			p := netip.MustParsePrefix(cidr)
			w.route(p, NodeAddr(1, p.Addr().Is6()), "br0")
		}
	})
}

// addNode sets up the node's side: n counts from 1.
func addNode(w *wiring, n int) {
	w.addr("eth0", netip.PrefixFrom(NodeAddr(n, false), 24))
	w.addr("eth0", netip.PrefixFrom(NodeAddr(n, true), 64))
	w.up("eth0")
	for _, v6 := range []bool{false, true} {
		w.route(anywhere(v6), OutsideAddr(1, v6), "eth0")
		w.route(podCIDR(3-n, v6), NodeAddr(3-n, v6), "eth0")
	}
}

// addPod makes a pod with servers; host is the last part of its address.
func (b *Bed) addPod(name string, n, host int) error {
	pod := Pod{Name: name, Node: []string{Node, Node2}[n-1], V4: podAddr(n, host, false), V6: podAddr(n, host, true)}
	if err := b.addSpace(name, false); err != nil {
		return err
	}
	b.pods[name], b.order = pod, append(b.order, name)
	err := b.wire(pod.Node, func(w *wiring) {
		veth := "v-" + name
		w.veth(veth, "eth0", b.spaces[name])
		w.up(veth)
		w.nested(b, name, func(pw *wiring) { pw.up("eth0") })
		for _, v6 := range []bool{false, true} {
			gateway := podAddr(n, 1, v6)
			w.addr(veth, host32(gateway))
			w.route(host32(pod.Addr(v6)), netip.Addr{}, veth)
			w.nested(b, name, func(pw *wiring) {
				pw.addr("eth0", host32(pod.Addr(v6)))
				pw.route(host32(gateway), netip.Addr{}, "eth0")
				pw.route(anywhere(v6), gateway, "eth0")
			})
		}
	})
	if err != nil || name == Client || name == Client2 {
		return err
	}
	return b.serve(pod)
}

func podCIDR(node int, v6 bool) netip.Prefix {
	if v6 {
		return netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%x::/64", node))
	}
	return netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", node))
}

func podAddr(node, host int, v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:244:%x::%x", node, host))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.244.%d.%d", node, host))
}

func host32(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func anywhere(v6 bool) netip.Prefix {
	if v6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// wiring talks to one namespace's netlink and keeps the first error, so that a topology reads as a list.
type wiring struct {
	*netlink.Handle
	place string
	err   error
}

func (b *Bed) wire(place string, f func(*wiring)) error {
	h, err := netlink.NewHandleAt(netns.NsHandle(b.spaces[place].net.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink at %s: %w", place, err)
	}
	defer h.Close()
	w := &wiring{Handle: h, place: place}
	f(w)
	return w.err
}

func (w *wiring) nested(b *Bed, place string, f func(*wiring)) {
	if w.err == nil {
		w.err = b.wire(place, f)
	}
}

func (w *wiring) do(what string, f func() error) {
	if w.err != nil {
		return
	}
	if err := f(); err != nil {
		w.err = fmt.Errorf("at %s: %s: %w", w.place, what, err)
	}
}

func (w *wiring) veth(name, peer string, peerSpace space) {
	w.do("add veth "+name, func() error {
		return w.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer,
			PeerNamespace: netlink.NsFd(peerSpace.net.Fd())})
	})
}

func (w *wiring) on(link, what string, f func(netlink.Link) error) {
	w.do(what, func() error {
		l, err := w.LinkByName(link)
		if err != nil {
			return err
		}
		return f(l)
	})
}

func (w *wiring) up(link string) {
	w.on(link, "set up "+link, func(l netlink.Link) error { return w.LinkSetUp(l) })
}

func (w *wiring) addr(link string, p netip.Prefix) {
	w.on(link, "add address "+p.String(), func(l netlink.Link) error {
		// Not IFA_F_NODAD: an address with that is never tentative, and one cannot see when the kernel has joined its
		// group for neighbour requests. Nothing is probed for anyway, see accept_dad.
		return w.AddrAdd(l, &netlink.Addr{IPNet: ipNet(p)})
	})
}

func (w *wiring) route(to netip.Prefix, via netip.Addr, link string) {
	w.on(link, fmt.Sprintf("add route to %s via %s", to, via), func(l netlink.Link) error {
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(to), Scope: netlink.SCOPE_UNIVERSE}
		if via.IsValid() {
			r.Gw = via.AsSlice()
		} else {
			r.Scope = netlink.SCOPE_LINK
		}
		return w.RouteAdd(r)
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
