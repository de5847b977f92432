package fabric

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"proxylab/lab"
)

// Ranges of the VIPs of load balancers. They are on the fabric's link, and belong to the instance that answers for them.
const (
	VIPCIDR4 = "10.10.1.0/24"
	VIPCIDR6 = "fd00:10:10::1:0/112"
)

// MaxBalancers is the largest number of balancer instances of a lab.
const MaxBalancers = 2

// Balancer is a place for an instance of the load balancers: a namespace on the fabric.
type Balancer struct {
	Name         string       // lb1, lb2
	Addr4, Addr6 netip.Prefix // of eth0: where its traffic to members comes from
}

// Balancers are the first so many.
func Balancers(count int) []Balancer {
	all := make([]Balancer, count)
	for i, name := range lab.BalancerNames(count) {
		host := byte(251 + i)
		all[i] = Balancer{
			Name:  name,
			Addr4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 10, 0, host}), Fabric4.Bits()),
			Addr6: netip.PrefixFrom(withLast(Fabric6.Addr(), host), Fabric6.Bits()),
		}
	}
	return all
}

// BalancerPath is the file of the network namespace of an instance.
func BalancerPath(lab, name string) string { return filepath.Join(namesDir, namePrefix+lab+"-"+name) }

// EnsureBalancers makes the namespaces of instances, joins them to the fabric, which must be there, and tells fabric and
// nodes where VIPs are.
func EnsureBalancers(p Plan, count int) error {
	for _, b := range Balancers(count) {
		if err := ensureBalancer(p.Lab, b); err != nil {
			return err
		}
	}
	err := atNamespace(Path(p.Lab), func(h *netlink.Handle) error { return routeToVIPs(h, bridgeName) })
	for _, n := range p.Nodes() {
		err = errors.Join(err, atNamespace(NodePath(p.Lab, n.Name), func(h *netlink.Handle) error { return routeToVIPs(h, "eth0") }))
	}
	return err
}

func ensureBalancer(lab string, b Balancer) error {
	return ensurePlace(lab, BalancerPath(lab, b.Name), append(everywhere(), clients()...), func(h *netlink.Handle, fabric netns.NsHandle) error {
		return setUpBalancer(h, b, fabric)
	})
}

func setUpBalancer(h *netlink.Handle, b Balancer, fabric netns.NsHandle) error {
	eth0, err := cable(h, fabric, b.Name, b.Addr4, b.Addr6)
	if err != nil {
		return err
	}
	// A route may name an address only when that is not tentative any more.
	if err := awaitAddrs(h, "eth0"); err != nil {
		return err
	}
	// What an instance asks of members comes from its own address. Without these the kernel would choose one of the VIPs.
	own4, own6 := b.Addr4.Addr().AsSlice(), b.Addr6.Addr().AsSlice()
	const first = 1 // metric: before the routes that come with the addresses
	for _, r := range []netlink.Route{
		{LinkIndex: eth0.Attrs().Index, Dst: ipNet(Fabric4), Src: own4, Scope: unix.RT_SCOPE_LINK},
		{LinkIndex: eth0.Attrs().Index, Dst: ipNet(Fabric6), Src: own6, Priority: first},
		{LinkIndex: eth0.Attrs().Index, Dst: everything(Fabric4.Addr()), Gw: Fabric4.Addr().AsSlice(), Src: own4},
		{LinkIndex: eth0.Attrs().Index, Dst: everything(Fabric6.Addr()), Gw: Fabric6.Addr().AsSlice(), Src: own6},
	} {
		if err := h.RouteReplace(&r); err != nil {
			return fmt.Errorf("route %s: %w", r.Dst, err)
		}
	}
	return routeToVIPs(h, "eth0")
}

// routeToVIPs says that VIPs are on the link. Those of IPv6 are in the fabric's own network.
func routeToVIPs(h *netlink.Handle, device string) error {
	link, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	dst := ipNet(netip.MustParsePrefix(VIPCIDR4))
	if err := h.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Scope: unix.RT_SCOPE_LINK}); err != nil {
		return fmt.Errorf("route %s: %w", dst, err)
	}
	return nil
}

// SetLink puts the fabric's end of a node's link down, as if its cable were pulled, or up again.
func SetLink(lab, node string, isUp bool) error {
	return atNamespace(Path(lab), func(h *netlink.Handle) error {
		link, err := h.LinkByName(node)
		if err != nil {
			return fmt.Errorf("fabric's end of %s: %w", node, err)
		}
		if isUp {
			return h.LinkSetUp(link)
		}
		return h.LinkSetDown(link)
	})
}
