package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// nftBatch uses what kube-proxy's nftables mode needs from the kernel: NAT, maps of verdicts, fib, numgen, updates of
// a set from a rule (for affinity), reject.
const nftBatch = `add table %[1]s proxylab-preflight
add set %[1]s proxylab-preflight seen { type %[2]s ; flags dynamic,timeout ; }
add chain %[1]s proxylab-preflight out { type filter hook forward priority 0 ; }
add chain %[1]s proxylab-preflight nat { type nat hook prerouting priority -100 ; }
add chain %[1]s proxylab-preflight post { type nat hook postrouting priority 100 ; }
add chain %[1]s proxylab-preflight one
add map %[1]s proxylab-preflight services { type %[2]s . inet_proto . inet_service : verdict ; }
add element %[1]s proxylab-preflight services { %[3]s . tcp . 80 : goto one }
add rule %[1]s proxylab-preflight nat %[1]s daddr . meta l4proto . th dport vmap @services
add rule %[1]s proxylab-preflight nat fib daddr type local %[1]s daddr != %[4]s numgen random mod 2 vmap { 0 : goto one, 1 : goto one }
add rule %[1]s proxylab-preflight one update @seen { %[1]s saddr timeout 10s } meta l4proto tcp dnat to %[5]s
add rule %[1]s proxylab-preflight post mark & 0x4000 != 0 mark set mark ^ 0x4000 masquerade fully-random
add rule %[1]s proxylab-preflight out ct state new reject
`

// iptablesBatch uses the matches and targets of kube-proxy's iptables mode.
const iptablesBatch = `*filter
:PROXYLAB - [0:0]
-A PROXYLAB -m comment --comment "preflight" -m addrtype --dst-type LOCAL -p tcp -m tcp --dport 80 -j REJECT
-A PROXYLAB -m conntrack --ctstate INVALID -j DROP
COMMIT
*nat
:PROXYLAB - [0:0]
-A PROXYLAB -m statistic --mode random --probability 0.5 -p tcp -m tcp -j DNAT --to-destination %[1]s
-A PROXYLAB -m recent --name PROXYLAB --rcheck --seconds 10 --reap -j RETURN
-A PROXYLAB -m mark ! --mark 0x4000/0x4000 -j RETURN
-A PROXYLAB -j MARK --xor-mark 0x4000
-A PROXYLAB -j MASQUERADE --random-fully
COMMIT
`

// Preflight says whether kube-proxy can run in this mode on this machine, with the iptables back end as in
// Options.Backend; what is missing is said all at once, with the remedy. It tries the real thing in a network namespace
// that is gone afterwards, so it needs root.
func Preflight(ctx context.Context, mode, backend string) error {
	if !known(mode) {
		return fmt.Errorf("kube-proxy/%s: no such mode", mode)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("kube-proxy/%s: writing rules needs root: use sudo", mode)
	}
	err := throwAwayNamespace(func() error {
		switch mode {
		case "nftables":
			return checkNFT(ctx)
		case "ipvs":
			return errors.Join(checkIPVS(), checkIPTables(ctx, backend))
		}
		return checkIPTables(ctx, backend)
	})
	if err != nil {
		return fmt.Errorf("kube-proxy/%s: %w", mode, err)
	}
	return nil
}

// throwAwayNamespace calls f in a new network namespace, which programs that f starts share.
func throwAwayNamespace(f func() error) error {
	errs := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, and the namespace with it
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			errs <- fmt.Errorf("new network namespace: %w", err)
			return
		}
		errs <- f()
	}()
	return <-errs
}

func checkNFT(ctx context.Context) error {
	if _, err := exec.LookPath("nft"); err != nil {
		return fmt.Errorf("%w: install it (Debian: apt-get install nftables)", err)
	}
	batch := fmt.Sprintf(nftBatch, "ip", "ipv4_addr", "192.0.2.1", "127.0.0.0/8", "192.0.2.2:8080") +
		fmt.Sprintf(nftBatch, "ip6", "ipv6_addr", "2001:db8::1", "::1", "[2001:db8::2]:8080")
	if _, err := nft(ctx, batch, "-f", "-"); err != nil {
		return fmt.Errorf("the kernel lacks a part of nf_tables (NFT_NAT, NFT_MASQ, NFT_FIB, NFT_NUMGEN, NFT_REJECT, NFT_CT): "+
			"load its modules (modprobe nf_tables) or use another kernel: %w", err)
	}
	return nil
}

func checkIPTables(ctx context.Context, backend string) error {
	var errs []error
	for tool, target := range map[string]string{"iptables": "192.0.2.2:8080", "ip6tables": "[2001:db8::2]:8080"} {
		args := []string{tool + "-restore", "--noflush"}
		if program := multiCall(backend); program != "" {
			args = append([]string{program}, args...)
		}
		if _, err := exec.LookPath(args[0]); err != nil {
			errs = append(errs, fmt.Errorf("%w: install it (Debian: apt-get install iptables)", err))
			continue
		}
		if _, err := run(ctx, fmt.Sprintf(iptablesBatch, target), args[0], args[1:]...); err != nil {
			errs = append(errs, fmt.Errorf("the kernel lacks a part of iptables that kube-proxy needs: "+
				"load its modules, choose the other back end, or use another kernel: %w", err))
		}
	}
	return errors.Join(errs...)
}

// checkIPVS asks for the kernel's generic netlink family: every other request of the IPVS library is answered by a
// kernel without ip_vs with no error and an empty list.
func checkIPVS() error {
	var errs []error
	if _, err := netlink.GenlFamilyGet("IPVS"); err != nil {
		errs = append(errs, fmt.Errorf("the kernel has no ip_vs (%w): load it (modprobe ip_vs) or use another kernel (--kernel uml)", err))
	}
	if _, err := exec.LookPath("ipset"); err != nil {
		errs = append(errs, fmt.Errorf("%w: install it (Debian: apt-get install ipset)", err))
	}
	dummy := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "proxylab-dummy"}}
	if err := netlink.LinkAdd(dummy); err != nil {
		errs = append(errs, fmt.Errorf("the kernel has no dummy interfaces (%w): load them (modprobe dummy) or use another kernel (--kernel uml)", err))
	}
	return errors.Join(errs...)
}
