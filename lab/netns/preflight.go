package netns

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"proxylab/lab"
	"proxylab/lab/netns/ns"
)

// Problem is something that a netns lab needs and this machine lacks.
type Problem = lab.Missing

// Preflight finds out whether this machine can run a netns lab, by trying it in a namespace that is gone afterwards.
// The programs that proxiers use are theirs to ask for: the lab itself needs none.
func Preflight() []Problem {
	if os.Geteuid() != 0 {
		return []Problem{{What: "a netns lab needs root, to make network namespaces", Remedy: "run the command again with sudo"}}
	}
	var problems []Problem
	_ = ns.Throwaway(func() error {
		problems = tryNamespace()
		return nil
	})
	return problems
}

func tryNamespace() (problems []Problem) {
	lacks := func(remedy, format string, args ...any) {
		problems = append(problems, Problem{What: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		lacks("in a container, start it with --privileged; otherwise use a kernel with CONFIG_NET_NS",
			"network and mount namespaces cannot be made: %v", err)
		return problems
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		lacks("in a container, start it with --privileged", "mounts cannot be changed: %v", err)
	}
	if f, err := os.OpenFile("/proc/sys/net/ipv4/ip_forward", os.O_WRONLY, 0); err != nil {
		lacks("mount /proc/sys for writing; in a container, start it with --privileged", "kernel parameters cannot be set: %v", err)
	} else {
		_ = f.Close()
	}
	if _, err := os.Stat("/proc/sys/net/ipv6/conf/all/disable_ipv6"); err != nil {
		lacks("boot without ipv6.disable=1, or load the module ipv6", "the kernel has no IPv6")
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		lacks("use a kernel with CONFIG_NET", "netlink: %v", err)
		return problems
	}
	defer h.Close()
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = "try0"
	if err := h.LinkAdd(bridge); err != nil {
		lacks("load the module: modprobe bridge", "a bridge cannot be made: %v", err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "try2"}
	veth.Name = "try1"
	if err := h.LinkAdd(veth); err != nil {
		lacks("load the module: modprobe veth", "a veth pair cannot be made: %v", err)
	}
	return problems
}

// missing makes one error of problems; nil where there are none. errors.As finds a lab.Missing in it.
func missing(problems []Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}
