package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// handle is a Table through moby/ipvs. It must be used by one goroutine at a time.
type handle struct{ h *ipvs.Handle }

// ErrNoIPVS says that the kernel has no IPVS at all.
var ErrNoIPVS = errors.New("this kernel has no IPVS: load it (modprobe ip_vs), use a kernel that has it (--kernel uml), " +
	"or take another mode (--fallback iptables)")

// HasIPVS asks the kernel for its generic netlink family; asking loads the module where there is one. Without the family
// the library would answer every question with no error and an empty list.
func HasIPVS() error {
	if _, err := netlink.GenlFamilyGet("IPVS"); err != nil {
		return fmt.Errorf("%w (%w)", ErrNoIPVS, err)
	}
	return nil
}

// openTable opens the table of the calling thread's network namespace.
func openTable() (*handle, error) {
	if err := HasIPVS(); err != nil {
		return nil, err
	}
	h, err := ipvs.New("")
	if err != nil {
		return nil, fmt.Errorf("open IPVS: %w", err)
	}
	return &handle{h}, nil
}

func (t *handle) Close() { t.h.Close() }

var protocols = map[corev1.Protocol]uint16{
	corev1.ProtocolTCP: unix.IPPROTO_TCP, corev1.ProtocolUDP: unix.IPPROTO_UDP, corev1.ProtocolSCTP: unix.IPPROTO_SCTP,
}

func protocolName(number uint16) corev1.Protocol {
	for name, n := range protocols {
		if n == number {
			return name
		}
	}
	return ""
}

func service(k Key) *ipvs.Service {
	a := k.Addr.Addr()
	s := &ipvs.Service{Address: net.IP(a.AsSlice()), Port: k.Addr.Port(), Protocol: protocols[k.Protocol],
		AddressFamily: unix.AF_INET, Netmask: 0xffffffff}
	if a.Is6() {
		s.AddressFamily, s.Netmask = unix.AF_INET6, 128 // a prefix length
	}
	return s
}

func serviceOf(s Server) *ipvs.Service {
	out := service(s.Key)
	out.SchedName, out.Flags, out.Timeout = s.Scheduler, s.Flags, s.Timeout
	return out
}

// destination forwards by translating the address (masquerade is 0). Thresholds are off.
func destination(a netip.AddrPort, weight int) *ipvs.Destination {
	d := &ipvs.Destination{Address: net.IP(a.Addr().AsSlice()), Port: a.Port(), Weight: weight, AddressFamily: unix.AF_INET}
	if a.Addr().Is6() {
		d.AddressFamily = unix.AF_INET6
	}
	return d
}

// failed names what was tried and turns the kernel's number into what it means for the request.
func failed(err error, noEntry error, format string, args ...any) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EEXIST):
		err = ErrExists
	case errors.Is(err, syscall.ESRCH):
		err = ErrNoServer
	case errors.Is(err, syscall.ENOENT):
		err = noEntry
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func (t *handle) Servers() ([]Server, error) {
	list, err := t.h.GetServices()
	if err != nil {
		return nil, fmt.Errorf("list virtual servers: %w", err)
	}
	out := make([]Server, 0, len(list))
	for _, s := range list {
		a, ok := netip.AddrFromSlice(s.Address)
		p := protocolName(s.Protocol)
		if !ok || p == "" || s.FWMark != 0 { // of another kind: somebody else's
			continue
		}
		srv := Server{Key: Key{netip.AddrPortFrom(a, s.Port), p}, Scheduler: s.SchedName, Flags: s.Flags & KnownFlags}
		if srv.Flags&Persistent != 0 {
			srv.Timeout = s.Timeout
		}
		out = append(out, srv)
	}
	return out, nil
}

func (t *handle) Destinations(k Key) ([]Destination, error) {
	list, err := t.h.GetDestinations(service(k))
	if err != nil {
		return nil, failed(err, ErrNoServer, "list destinations of %s", k)
	}
	out := make([]Destination, 0, len(list))
	for _, d := range list {
		a, ok := netip.AddrFromSlice(d.Address)
		if !ok {
			continue
		}
		out = append(out, Destination{netip.AddrPortFrom(a, d.Port), d.Weight, d.ActiveConnections, d.InactiveConnections,
			d.ConnectionFlags&ipvs.ConnFwdMask == ipvs.ConnFwdMasq})
	}
	return out, nil
}

func (t *handle) AddServer(s Server) error {
	return failed(t.h.NewService(serviceOf(s)), ErrNoScheduler, "add virtual server %s (scheduler %s)", s.Key, s.Scheduler)
}

func (t *handle) UpdateServer(s Server) error {
	return failed(t.h.UpdateService(serviceOf(s)), ErrNoScheduler, "change virtual server %s (scheduler %s)", s.Key, s.Scheduler)
}

func (t *handle) DeleteServer(k Key) error {
	return failed(t.h.DelService(service(k)), ErrNoServer, "delete virtual server %s", k)
}

func (t *handle) AddDestination(k Key, a netip.AddrPort, weight int) error {
	return failed(t.h.NewDestination(service(k), destination(a, weight)), ErrNoDestination, "add %s to %s", a, k)
}

func (t *handle) UpdateDestination(k Key, a netip.AddrPort, weight int) error {
	return failed(t.h.UpdateDestination(service(k), destination(a, weight)), ErrNoDestination, "set weight %d of %s at %s", weight, a, k)
}

func (t *handle) DeleteDestination(k Key, a netip.AddrPort) error {
	return failed(t.h.DelDestination(service(k), destination(a, 0)), ErrNoDestination, "delete %s from %s", a, k)
}
