package fabric

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// setting is a kernel parameter below /proc/sys/net.
type setting struct {
	name, value string
	optional    bool // not every kernel has it
}

// everywhere: addresses are usable at once, and the kernel makes up no routes of its own.
func everywhere() []setting {
	var s []setting
	for _, conf := range []string{"all", "default"} {
		s = append(s,
			setting{"ipv6/conf/" + conf + "/disable_ipv6", "0", false},
			setting{"ipv6/conf/" + conf + "/accept_dad", "0", false},
			setting{"ipv6/conf/" + conf + "/dad_transmits", "0", false},
			setting{"ipv6/conf/" + conf + "/accept_ra", "0", false},
			setting{"ipv4/conf/" + conf + "/rp_filter", "0", false})
	}
	return s
}

// clients open thousands of connections a second from one address: they may use most ports, and use one again as
// soon as TCP's timestamps tell the connections apart.
func clients() []setting {
	return []setting{{"ipv4/ip_local_port_range", "10000 65535", false}, {"ipv4/tcp_tw_reuse", "1", false}}
}

func routers() []setting {
	return []setting{
		{"ipv4/ip_forward", "1", false},
		{"ipv6/conf/all/forwarding", "1", false},
		{"ipv6/conf/default/forwarding", "1", false},
	}
}

// fabricSettings keep rules that nodes make away from frames that the bridge passes on.
func fabricSettings() []setting {
	s := append(append(everywhere(), clients()...), routers()...)
	for _, f := range []string{"iptables", "ip6tables", "arptables"} {
		s = append(s, setting{"bridge/bridge-nf-call-" + f, "0", true})
	}
	return s
}

// nodeSettings are those of kube-proxy's defaults, so that every proxier works on the same terms whether it sets
// them or not; timestamps are for measuring.
func nodeSettings() []setting {
	return append(append(everywhere(), routers()...),
		setting{"netfilter/nf_conntrack_tcp_timeout_established", "86400", true},
		setting{"netfilter/nf_conntrack_tcp_timeout_close_wait", "3600", true},
		setting{"netfilter/nf_conntrack_tcp_be_liberal", "0", true},
		setting{"netfilter/nf_conntrack_timestamp", "1", true})
}

// apply sets them in the calling thread's network namespace, which is what /proc/sys/net shows to it.
func apply(settings []setting) error {
	for _, s := range settings {
		// O_TRUNC and O_CREATE, which os.WriteFile sets, mean nothing here.
		f, err := os.OpenFile("/proc/sys/net/"+s.name, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(s.value)
			err = errors.Join(err, f.Close())
		}
		if err != nil && !(s.optional && errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("set net/%s to %s: %w", s.name, s.value, err)
		}
	}
	return nil
}
