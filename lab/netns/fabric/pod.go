package fabric

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A pod sees its node as these gateways. They are nobody's addresses: both ends of a pod's link know each other's
// hardware address from the start, which also keeps hundreds of pods out of the kernel's one neighbour table, whose
// entries that were learnt are limited to about a thousand for all namespaces together.
var (
	gateway4   = netip.MustParseAddr("169.254.1.1")
	gateway6   = netip.MustParseAddr("fe80::1")
	gatewayMAC = net.HardwareAddr{0x0a, 0x58, 169, 254, 1, 1}
)

// linkName is the node's end of a pod's link.
func linkName(namespace, pod string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + pod))
	return "pod" + hex.EncodeToString(sum[:6])
}

// EnsurePod makes a pod's namespace on a node and links it. A namespace that is there already, with these addresses
// and its link, is kept with all that runs in it; any other is replaced.
func EnsurePod(lab string, n Node, namespace, pod string, addrs PodAddrs) error {
	path := PodPath(lab, namespace, pod)
	if is, ok := PodAddrsAt(path); ok && is == addrs && hasLink(lab, n, namespace, pod) {
		return nil
	}
	if err := RemovePod(lab, n, namespace, pod); err != nil {
		return err
	}
	node, err := netns.GetFromPath(NodePath(lab, n.Name))
	if err != nil {
		return fmt.Errorf("network namespace of %s: %w", n.Name, err)
	}
	defer func() { _ = node.Close() }()
	return createNamed(path, func() error {
		if err := apply(append(everywhere(), clients()...)); err != nil {
			return err
		}
		here, err := netns.Get()
		if err != nil {
			return err
		}
		defer func() { _ = here.Close() }()
		if err := linkPod(node, here, n, linkName(namespace, pod), addrs); err != nil {
			return err
		}
		return setUpPod(addrs)
	})
}

// linkPod makes the pair in the node's namespace, its peer in the pod's.
func linkPod(node, pod netns.NsHandle, n Node, name string, addrs PodAddrs) error {
	h, err := netlink.NewHandleAt(node, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in %s: %w", n.Name, err)
	}
	defer h.Close()
	link := &netlink.Veth{
		LinkAttrs: netlink.NewLinkAttrs(), PeerName: "eth0", PeerHardwareAddr: hardwareAddr(addrs.V4), PeerNamespace: netlink.NsFd(pod),
	}
	link.Name = name
	link.Flags = net.FlagUp
	link.HardwareAddr = gatewayMAC
	if err := h.LinkAdd(link); err != nil {
		return fmt.Errorf("add veth pair %s in %s: %w", name, n.Name, err)
	}
	for _, a := range []struct{ pod, node netip.Addr }{{addrs.V4, n.Addr4.Addr()}, {addrs.V6, n.Addr6.Addr()}} {
		if err := h.NeighSet(neighbour(link.Index, a.pod, hardwareAddr(addrs.V4))); err != nil {
			return fmt.Errorf("neighbour %s in %s: %w", a.pod, n.Name, err)
		}
		route := &netlink.Route{LinkIndex: link.Index, Dst: ipNet(host(a.pod)), Src: a.node.AsSlice(), Scope: unix.RT_SCOPE_LINK}
		if err := h.RouteReplace(route); err != nil {
			return fmt.Errorf("route %s in %s: %w", a.pod, n.Name, err)
		}
	}
	return nil
}

// setUpPod works in the namespace of the calling thread.
func setUpPod(addrs PodAddrs) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer h.Close()
	eth0, err := h.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("eth0: %w", err)
	}
	// A pod and its node know each other as permanent neighbours: nobody asks for the address, so it need not wait.
	if err := errors.Join(loopbackUp(h), h.LinkSetUp(eth0), addAddrsWith(h, unix.IFA_F_NODAD, eth0, host(addrs.V4), host(addrs.V6))); err != nil {
		return err
	}
	for _, gw := range []netip.Addr{gateway4, gateway6} {
		if err := h.NeighSet(neighbour(eth0.Attrs().Index, gw, gatewayMAC)); err != nil {
			return fmt.Errorf("neighbour %s: %w", gw, err)
		}
		route := &netlink.Route{LinkIndex: eth0.Attrs().Index, Dst: everything(gw), Gw: gw.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
		if err := h.RouteReplace(route); err != nil {
			return fmt.Errorf("default route via %s: %w", gw, err)
		}
	}
	return nil
}

func neighbour(index int, a netip.Addr, mac net.HardwareAddr) *netlink.Neigh {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	return &netlink.Neigh{LinkIndex: index, Family: family, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac}
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// PodAddrsAt reads the addresses of the pod whose namespace is at path; false where there is no such pod.
func PodAddrsAt(path string) (addrs PodAddrs, ok bool) {
	if !isNamespace(path) {
		return PodAddrs{}, false
	}
	err := atNamespace(path, func(h *netlink.Handle) error {
		eth0, err := h.LinkByName("eth0")
		if err != nil {
			return err
		}
		list, err := h.AddrList(eth0, netlink.FAMILY_ALL)
		for _, a := range list {
			if a.Scope != unix.RT_SCOPE_UNIVERSE {
				continue
			}
			if ip, _ := netip.AddrFromSlice(a.IP); ip.Unmap().Is4() {
				addrs.V4 = ip.Unmap()
			} else {
				addrs.V6 = ip
			}
		}
		return err
	})
	return addrs, err == nil && addrs.V4.IsValid() && addrs.V6.IsValid()
}

func hasLink(lab string, n Node, namespace, pod string) bool {
	return atNamespace(NodePath(lab, n.Name), func(h *netlink.Handle) error {
		_, err := h.LinkByName(linkName(namespace, pod))
		return err
	}) == nil
}

// RemovePod removes a pod's link and namespace. The link goes first and at once: the kernel takes its time with a
// namespace, and the node would go on routing to it.
func RemovePod(lab string, n Node, namespace, pod string) error {
	var unlink error
	if node := NodePath(lab, n.Name); isNamespace(node) { // otherwise its links are gone as well
		unlink = atNamespace(node, func(h *netlink.Handle) error {
			return deleteLink(h, linkName(namespace, pod))
		})
	}
	return errors.Join(unlink, removeNamed(PodPath(lab, namespace, pod)))
}

// RemovePodAt removes the pod namespace at path, whoever's pod it was.
func RemovePodAt(path string) error {
	if isNamespace(path) {
		// An error is no harm: the link ends with the namespace anyway, only later.
		_ = atNamespace(path, func(h *netlink.Handle) error { return deleteLink(h, "eth0") })
	}
	return removeNamed(path)
}
