package kind

import (
	"net/netip"
	"strings"
	"testing"
)

// Containers of the same network have blocks that do not overlap, far from where Docker gives addresses.
func TestVIPBlock(t *testing.T) {
	for _, c := range []struct{ subnet, own, low, high string }{
		{"172.18.0.0/16", "172.18.0.0", "172.18.255.1", "172.18.255.254"},
		{"172.18.0.0/16", "172.18.0.5", "172.18.250.1", "172.18.250.254"},
		{"172.18.0.0/16", "172.18.0.6", "172.18.249.1", "172.18.249.254"},
		{"10.1.16.0/20", "10.1.16.9", "10.1.29.129", "10.1.29.190"},
		{"192.168.7.0/24", "192.168.7.4", "192.168.7.177", "192.168.7.190"},
		{"fc00:f853:ccd:e793::/64", "fc00:f853:ccd:e793::5", "fc00:f853:ccd:e793:ffff:ffff:ffff:fa01", "fc00:f853:ccd:e793:ffff:ffff:ffff:fafe"},
	} {
		low, high, err := vipBlock(netip.MustParsePrefix(c.subnet), netip.MustParseAddr(c.own))
		if err != nil || low.String() != c.low || high.String() != c.high {
			t.Errorf("%s in %s: %s to %s, %v; want %s to %s", c.own, c.subnet, low, high, err, c.low, c.high)
		}
	}
	for _, c := range [][2]string{{"172.18.0.0/24", "172.18.0.16"}, {"172.18.0.0/16", "172.18.255.9"}, {"172.18.0.0/30", "172.18.0.1"}} {
		if _, _, err := vipBlock(netip.MustParsePrefix(c[0]), netip.MustParseAddr(c[1])); err == nil || !strings.Contains(err.Error(), "no room") {
			t.Errorf("%v: %v", c, err)
		}
	}
}
