package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const bridgeName = "br0"

// EnsureFabric makes the fabric's namespace with its bridge.
func EnsureFabric(lab string) error {
	return createNamed(Path(lab), func() error {
		if err := apply(fabricSettings()); err != nil {
			return err
		}
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		defer h.Close()
		bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
		bridge.Name = bridgeName
		bridge.Flags = net.FlagUp
		bridge.HardwareAddr = hardwareAddr(Fabric4.Addr()) // or it would change with every port
		if err := h.LinkAdd(bridge); err != nil {
			return fmt.Errorf("add bridge: %w", err)
		}
		return errors.Join(loopbackUp(h), addAddrs(h, bridge, Fabric4, Fabric6))
	})
}

// EnsureNodes makes the namespaces of all nodes of the plan, joins them to the fabric, which must be there, and sets
// up the routes between their pods. Nodes that are there already learn the routes to new ones.
func EnsureNodes(p Plan, mountDir string) error {
	if err := ensureMountDir(mountDir); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(4)
	for _, n := range p.Nodes() {
		g.Go(func() error {
			if err := ensureNode(p.Lab, n); err != nil {
				return err
			}
			return errors.Join(ensureMounts(p.Lab, n.Name, mountDir), routeToOthers(p, n))
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return atNamespace(Path(p.Lab), func(h *netlink.Handle) error {
		// Without a port that is up the bridge is not, and its addresses are tentative.
		return errors.Join(routeToPods(h, bridgeName, p.Nodes()), awaitAddrs(h, bridgeName))
	})
}

func ensureNode(lab string, n Node) error {
	return ensurePlace(lab, NodePath(lab, n.Name), nodeSettings(), func(h *netlink.Handle, fabric netns.NsHandle) error {
		return setUpNode(h, n, fabric)
	})
}

// ensurePlace makes a namespace that is joined to the fabric, by setUp, unless it is there.
func ensurePlace(lab, path string, settings []setting, setUp func(h *netlink.Handle, fabric netns.NsHandle) error) error {
	fabric, err := netns.GetFromPath(Path(lab))
	if err != nil {
		return fmt.Errorf("fabric of lab %s: %w", lab, err)
	}
	defer func() { _ = fabric.Close() }()
	return createNamed(path, func() error {
		if err := apply(settings); err != nil {
			return err
		}
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		defer h.Close()
		return setUp(h, fabric)
	})
}

// cable joins the namespace of h to the fabric, where the other end has that name; here it is eth0, with the addresses.
func cable(h *netlink.Handle, fabric netns.NsHandle, name string, addr4, addr6 netip.Prefix) (netlink.Link, error) {
	eth0 := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: name, PeerNamespace: netlink.NsFd(fabric)}
	eth0.Name = "eth0"
	eth0.Flags = net.FlagUp
	eth0.HardwareAddr = hardwareAddr(addr4.Addr())
	if err := unplug(fabric, name); err != nil {
		return nil, err
	}
	if err := h.LinkAdd(eth0); err != nil {
		return nil, fmt.Errorf("add veth pair: %w", err)
	}
	if err := plug(fabric, name); err != nil {
		return nil, err
	}
	return eth0, errors.Join(loopbackUp(h), addAddrs(h, eth0, addr4, addr6))
}

func setUpNode(h *netlink.Handle, n Node, fabric netns.NsHandle) error {
	eth0, err := cable(h, fabric, n.Name, n.Addr4, n.Addr6)
	if err != nil {
		return err
	}
	for _, r := range []netlink.Route{
		{LinkIndex: eth0.Attrs().Index, Dst: everything(Fabric4.Addr()), Gw: Fabric4.Addr().AsSlice()},
		{LinkIndex: eth0.Attrs().Index, Dst: everything(Fabric6.Addr()), Gw: Fabric6.Addr().AsSlice()},
		// What has no pod is nowhere: without these it would go round between node and fabric.
		{Type: unix.RTN_UNREACHABLE, Dst: ipNet(n.Pods4)},
		{Type: unix.RTN_UNREACHABLE, Dst: ipNet(n.Pods6)},
	} {
		if err := h.RouteReplace(&r); err != nil {
			return fmt.Errorf("route %s: %w", r.Dst, err)
		}
	}
	return awaitAddrs(h, "eth0")
}

// unplug removes what an earlier node of this name, which may still be dying, has in the fabric.
func unplug(fabric netns.NsHandle, name string) error {
	h, err := netlink.NewHandleAt(fabric, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in the fabric: %w", err)
	}
	defer h.Close()
	return deleteLink(h, name)
}

// deleteLink is content with a link that is not there.
func deleteLink(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err == nil {
		err = h.LinkDel(link)
	}
	if errors.As(err, &netlink.LinkNotFoundError{}) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete link %s: %w", name, err)
	}
	return nil
}

// plug joins the fabric's end of a node's link to the bridge.
func plug(fabric netns.NsHandle, name string) error {
	h, err := netlink.NewHandleAt(fabric, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in the fabric: %w", err)
	}
	defer h.Close()
	bridge, err := h.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("bridge of the fabric: %w", err)
	}
	port, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("fabric's end of %s: %w", name, err)
	}
	return errors.Join(h.LinkSetMaster(port, bridge), h.LinkSetUp(port))
}

func routeToOthers(p Plan, self Node) error {
	return atNamespace(NodePath(p.Lab, self.Name), func(h *netlink.Handle) error {
		var others []Node
		for _, n := range p.Nodes() {
			if n.Name != self.Name {
				others = append(others, n)
			}
		}
		return routeToPods(h, "eth0", others)
	})
}

// routeToPods routes the pod ranges of nodes to these nodes.
func routeToPods(h *netlink.Handle, device string, nodes []Node) error {
	link, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	for _, n := range nodes {
		for _, r := range []netlink.Route{
			{LinkIndex: link.Attrs().Index, Dst: ipNet(n.Pods4), Gw: n.Addr4.Addr().AsSlice()},
			{LinkIndex: link.Attrs().Index, Dst: ipNet(n.Pods6), Gw: n.Addr6.Addr().AsSlice()},
		} {
			if err := h.RouteReplace(&r); err != nil {
				return fmt.Errorf("route %s: %w", r.Dst, err)
			}
		}
	}
	return nil
}

// atNamespace calls f with netlink in the network namespace at path.
func atNamespace(path string, f func(*netlink.Handle) error) error {
	target, err := netns.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", path, err)
	}
	defer func() { _ = target.Close() }()
	h, err := netlink.NewHandleAt(target, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in %s: %w", path, err)
	}
	defer h.Close()
	if err := f(h); err != nil {
		return fmt.Errorf("in %s: %w", path, err)
	}
	return nil
}

func loopbackUp(h *netlink.Handle) error {
	lo, err := h.LinkByName("lo")
	if err == nil {
		err = h.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// addAddrs gives a link its addresses. An IPv6 one may be tentative for a moment: see awaitAddrs.
func addAddrs(h *netlink.Handle, link netlink.Link, addrs ...netip.Prefix) error {
	return addAddrsWith(h, 0, link, addrs...)
}

func addAddrsWith(h *netlink.Handle, flags6 int, link netlink.Link, addrs ...netip.Prefix) error {
	for _, a := range addrs {
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}}
		if a.Addr().Is6() {
			addr.Flags = flags6
		}
		if err := h.AddrReplace(link, addr); err != nil {
			return fmt.Errorf("add address %s: %w", a, err)
		}
	}
	return nil
}

// awaitAddrs returns once no address of a link is tentative: only then does the kernel answer neighbour requests for it.
// (With IFA_F_NODAD an address is never tentative, and nothing tells when that is; a connection made too early then
// takes a second.)
func awaitAddrs(h *netlink.Handle, device string) error {
	link, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		addrs, err := h.AddrList(link, netlink.FAMILY_V6)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("addresses of %s: %w", device, err)
		}
		tentative := err != nil || slices.ContainsFunc(addrs, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE != 0 })
		if !tentative {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("addresses of %s stay tentative: %v", device, addrs)
		}
	}
}

// ipNet is the network of a prefix.
func ipNet(p netip.Prefix) *net.IPNet {
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// everything is the destination of a default route of the address's family.
func everything(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: make(net.IP, a.BitLen()/8), Mask: net.CIDRMask(0, a.BitLen())}
}

// RemoveNode removes a node's link and its namespaces. Nothing may run there any more.
func RemoveNode(lab, node, mountDir string) error {
	err := atNamespace(Path(lab), func(h *netlink.Handle) error { return deleteLink(h, node) })
	if path := MountPath(mountDir, node); isNamespace(path) {
		if e := unix.Unmount(path, unix.MNT_DETACH); e != nil {
			err = errors.Join(err, fmt.Errorf("unmount %s: %w", path, e))
		}
	}
	return errors.Join(err, removeNamed(NodePath(lab, node)))
}
