package iptables

import (
	"fmt"
	"os"
	"strings"
)

const (
	// sysctlRouteLocalnet lets packets for 127.0.0.0/8 be routed, which a node port on 127.0.0.1 needs once its
	// destination was translated.
	sysctlRouteLocalnet = "net/ipv4/conf/all/route_localnet"
	// sysctlTCPLiberal makes conntrack call fewer packets INVALID.
	sysctlTCPLiberal = "net/netfilter/nf_conntrack_tcp_be_liberal"
)

// sysctls reads and writes kernel settings below root, /proc/sys for real.
type sysctls struct{ root string }

// on says whether a setting is there and not 0.
func (s sysctls) on(name string) bool {
	data, err := os.ReadFile(s.root + "/" + name)
	v := strings.TrimSpace(string(data))
	return err == nil && v != "" && v != "0"
}

func (s sysctls) set(name, value string) error {
	if err := os.WriteFile(s.root+"/"+name, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set %s to %s: %w", strings.ReplaceAll(name, "/", "."), value, err)
	}
	return nil
}
