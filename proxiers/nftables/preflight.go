package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"
	"proxylab/proxiers/services"
)

// feature is a part of the kernel's nf_tables that the proxier cannot do without.
type feature struct {
	name, config string
	rules        string // commands for a table "ip preflight" with a chain of the right kind
}

var features = []feature{
	{"NAT", "NFT_NAT", "add chain ip preflight c { type nat hook prerouting priority -100 ; }\n" +
		"add rule ip preflight c ip protocol tcp dnat to 192.0.2.1:80\n"},
	{"masquerading", "NFT_MASQ", "add chain ip preflight c { type nat hook postrouting priority 100 ; }\n" +
		"add rule ip preflight c masquerade fully-random\n"},
	{"fib lookups", "NFT_FIB_IPV4", "add chain ip preflight c { type filter hook prerouting priority 0 ; }\n" +
		"add rule ip preflight c fib daddr type local accept\n"},
	{"number generators", "NFT_NUMGEN", "add chain ip preflight c\nadd rule ip preflight c numgen random mod 2 vmap { 0 : accept }\n"},
	{"conntrack matches", "NFT_CT", "add chain ip preflight c\nadd rule ip preflight c ct state invalid drop\n"},
	{"reject", "NFT_REJECT", "add chain ip preflight c { type filter hook forward priority 0 ; }\n" +
		"add rule ip preflight c reject\nadd rule ip preflight c meta l4proto tcp reject with tcp reset\n"},
	{"sets that packets change", "NF_TABLES 4.18", "add set ip preflight s { type ipv4_addr ; flags dynamic,timeout ; size 8 ; }\n" +
		"add chain ip preflight c\nadd rule ip preflight c update @s { ip saddr timeout 5s }\nadd rule ip preflight c delete @s { ip saddr }\n"},
	{"sets of ranges", "NF_TABLES 5.6", "add set ip preflight s { type ipv4_addr . ipv4_addr ; flags interval ; }\n" +
		"add element ip preflight s { 192.0.2.1 . 192.0.2.0/24 }\n"},
}

// Preflight says whether this proxier can run on this machine; what is missing is said all at once, with the remedy. It writes
// the real rules into a network namespace that is gone afterwards, so it needs root. IPv6 is not required.
func Preflight(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("writing rules needs root: use sudo")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return fmt.Errorf("%w: install it (Debian: apt-get install nftables)", err)
	}
	errs := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, and the namespace with it
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			errs <- fmt.Errorf("new network namespace: %w", err)
			return
		}
		errs <- rehearse(ctx)
	}()
	return <-errs
}

// rehearse syncs an example of everything.
func rehearse(ctx context.Context) error {
	if _, err := nft(ctx, "", "list", "tables"); err != nil {
		return fmt.Errorf("the kernel has no nf_tables: load it (modprobe nf_tables) or use another kernel: %w", err)
	}
	if err := lacking(ctx); err != nil {
		return err
	}
	p, err := New(Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	want := example(services.IPv4)
	if len(p.families) > 1 {
		for k, sp := range example(services.IPv6).Ports {
			want.Ports[k] = sp
		}
	}
	for range 2 { // made anew, and filled again
		for _, f := range p.families {
			f.valid = false
			if _, err := f.sync(ctx, want, false); err != nil {
				return fmt.Errorf("the kernel or this version of nft cannot do what the rules need; use others: %w", err)
			}
		}
	}
	return nil
}

// lacking tries the features one by one.
func lacking(ctx context.Context) error {
	var errs []error
	for _, f := range features {
		if _, err := nft(ctx, "add table ip preflight\ndelete table ip preflight\nadd table ip preflight\n"+f.rules, "-f", "-"); err != nil {
			errs = append(errs, fmt.Errorf("the kernel lacks %s (%s): load its modules, or use another kernel: %w", f.name, f.config, shorten(err)))
		}
	}
	_, err := nft(ctx, "add table ip preflight\ndelete table ip preflight\n", "-f", "-")
	return errors.Join(append(errs, err)...)
}

// example is a Service with everything, and one with affinity.
func example(family services.Family) services.Snapshot {
	addr := func(n byte) netip.Addr {
		if family == services.IPv6 {
			return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: n})
		}
		return netip.AddrFrom4([4]byte{192, 0, 2, n})
	}
	here := services.Endpoint{Addr: netip.AddrPortFrom(addr(1), 8080), Local: true, Ready: true, Serving: true}
	there := services.Endpoint{Addr: netip.AddrPortFrom(addr(2), 8080), Ready: true, Serving: true}
	whole := netip.PrefixFrom(addr(0), addr(0).BitLen()-4)
	want := services.Snapshot{Full: true, Ports: map[services.Key]*services.ServicePort{},
		Node: services.Node{Name: "preflight", Addresses: []netip.Addr{addr(1)}, PodCIDRs: []netip.Prefix{whole}}}
	for i, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		sp := &services.ServicePort{
			Key:       services.Key{Namespace: "preflight", Service: "example", Protocol: protocol, Family: family},
			ClusterIP: addr(3), Port: 80, NodePort: 30080, ExternalIPs: []netip.Addr{addr(4)}, LoadBalancerVIPs: []netip.Addr{addr(5)},
			SourceRanges: []netip.Prefix{whole}, ExternalLocal: true, HasAnyEndpoints: true,
			ClusterEndpoints: []services.Endpoint{here, there}, LocalEndpoints: []services.Endpoint{here},
		}
		if i == 0 {
			sp.AffinityTimeout = time.Minute
		}
		want.Ports[sp.Key] = sp
	}
	return want
}
