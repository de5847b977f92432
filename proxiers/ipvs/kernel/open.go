package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Open opens the kernel of the calling thread's network namespace, and says how to close it. It fails with ErrNoIPVS.
func Open() (Kernel, func(), error) {
	t, err := openTable()
	if err != nil {
		return Kernel{}, nil, err
	}
	return Kernel{Table: t, Links: links{}, Sets: ipset{}, Settings: settings{}}, t.Close, nil
}

// OpenWithout is Open for a kernel that may lack IPVS: then there is no Table.
func OpenWithout() (Kernel, func(), error) {
	k, end, err := Open()
	if errors.Is(err, ErrNoIPVS) {
		return Kernel{Links: links{}, Sets: ipset{}, Settings: settings{}}, func() {}, nil
	}
	return k, end, err
}

// checkSets makes one set of each kind that the proxier uses.
const checkSets = `create PROXYLAB-1 hash:ip,port family inet
create PROXYLAB-2 hash:ip,port,ip family inet
create PROXYLAB-3 hash:ip,port,net family inet
create PROXYLAB-4 hash:ip family inet
create PROXYLAB-5 bitmap:port range 0-65535
`

// Check says all that the machine lacks for the proxier with this scheduler, by trying it in a network namespace that is
// gone afterwards. It needs root.
func Check(ctx context.Context, scheduler string) error {
	if err := HasIPVS(); err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, and the namespace with it
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("new network namespace: %w", err)
			return
		}
		result <- check(ctx, scheduler)
	}()
	return <-result
}

func check(ctx context.Context, scheduler string) error {
	var errs []error
	if err := netlink.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "proxylab-dummy"}}); err != nil {
		errs = append(errs, fmt.Errorf("the kernel has no dummy links: load them (modprobe dummy), or use another kernel (--kernel uml): %w", err))
	}
	if err := FindIPSet(); err != nil {
		errs = append(errs, err)
	} else if _, err := run(ctx, []byte(checkSets), "ipset", "restore"); err != nil {
		errs = append(errs, fmt.Errorf("the kernel lacks a kind of ipset: load them (modprobe ip_set_hash_ipport and so on), "+
			"or use another kernel (--kernel uml): %w", err))
	}
	t, err := openTable()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer t.Close()
	for _, a := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} {
		err := t.AddServer(Server{Key: Key{netip.MustParseAddrPort(a), corev1.ProtocolTCP}, Scheduler: scheduler})
		if errors.Is(err, ErrNoScheduler) {
			err = fmt.Errorf("the kernel has no IPVS scheduler %q: load it (modprobe ip_vs_%s), or choose another with --ipvs-scheduler", scheduler, scheduler)
		} else if err != nil && strings.HasPrefix(a, "[") {
			continue // IPv6 is optional
		}
		if err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}
