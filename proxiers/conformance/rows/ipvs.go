package rows

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"time"

	c "proxylab/proxiers/conformance"
)

var ipvs = []row{
	{Area: ipvsOnly, Name: "a server that is removed drains with weight 0 and goes when it is idle", Faults: []string{"k57841", "k99162"},
		NotApplicable: notIPVS, Run: func(t *trial) {
			web := t.Web()
			web.Has(local1, remote1)
			t.Settle()
			flow := t.Open(client, web.VIP(c.IPv4, tcp), 0)
			other := map[string]string{local1: remote1, remote1: local1}[flow.Pod]
			server := netip.AddrPortFrom(t.PodAddr(flow.Pod, c.IPv4), 8081)
			web.Has(other)
			t.Settle()
			if weight, there := servers(t, web.VIP(c.IPv4, tcp))[server]; !there || weight != 0 {
				t.Errorf("server %s has an open connection: want weight 0, there: %t, weight %d", server, there, weight)
			}
			flow.Answers(flow.Pod, "while it drains")
			flow.Close()
			t.Eventually(150*time.Second, func() string {
				if weight, there := servers(t, web.VIP(c.IPv4, tcp))[server]; there {
					return fmt.Sprintf("server %s, which has no connections any more, is there with weight %d", server, weight)
				}
				return ""
			})
		}, Limit: 4 * time.Minute},
	{Area: ipvsOnly, Name: "ready endpoints have weight 1 after a restart", Faults: []string{"k92019", "k108319"}, Alone: true,
		NotApplicable: notIPVS, Run: func(t *trial) {
			web := t.Web()
			web.Has(local1, remote1)
			t.Settle()
			flow := t.Open(client, web.VIP(c.IPv4, tcp), 0)
			other := map[string]string{local1: remote1, remote1: local1}[flow.Pod]
			web.Has(other)
			t.Settle()
			t.KillProxier(1)
			web.Has(local1, remote1)
			t.StartProxier(1)
			t.Settle()
			for _, p := range both {
				for server, weight := range servers(t, web.VIP(c.IPv4, p)) {
					if weight == 0 {
						t.Errorf("%s: server %s of a ready endpoint has weight 0", web.VIP(c.IPv4, p), server)
					}
				}
			}
			t.Ask(client, web.VIP(c.IPv4, tcp)).Answers(local1, remote1)
		}},
	{Area: ipvsOnly, Name: "an endpoint that comes back while it drains serves again", NotApplicable: notIPVS, Run: func(t *trial) {
		web := t.Web()
		web.Has(local1, remote1)
		t.Settle()
		flow := t.Open(client, web.VIP(c.IPv4, tcp), 0)
		other := map[string]string{local1: remote1, remote1: local1}[flow.Pod]
		web.Has(other)
		t.Settle()
		web.Has(local1, remote1)
		t.Settle()
		t.Ask(client, web.VIP(c.IPv4, tcp)).Answers(local1, remote1)
		flow.Answers(flow.Pod, "after its endpoint came back")
	}},
}

var notIPVS = notApplicable("about IPVS servers, which this mode has not", "userspace", "iptables", "nftables")

// servers are the weights of a virtual server's real servers on node 1. The kernel hands its table out in pieces, by number: it
// skips a virtual server when another goes in between, as the sentinel's former ports do. What is read twice is right.
func servers(t *trial, of c.Target) map[netip.AddrPort]int {
	const tries = 20
	weights := readServers(t, of)
	for range tries {
		again := readServers(t, of)
		if maps.Equal(weights, again) {
			break
		}
		weights = again
	}
	return weights
}

func readServers(t *trial, of c.Target) map[netip.AddrPort]int {
	weights := map[netip.AddrPort]int{}
	within := false
	for line := range strings.Lines(t.MustRun(node1, "cat", "/proc/net/ip_vs")) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2:
		case fields[0] == "TCP" || fields[0] == "UDP" || fields[0] == "SCTP":
			within = strings.EqualFold(fields[0], of.Network) && parseAddrPort(fields[1]) == of.Addr
		case fields[0] == "->" && within && len(fields) > 3:
			var weight int
			if _, err := fmt.Sscan(fields[3], &weight); err == nil {
				weights[parseAddrPort(fields[1])] = weight
			}
		}
	}
	return weights
}

// parseAddrPort reads "0A600001:0050", or an IPv6 address in brackets with a port in hexadecimal digits; zero: neither.
func parseAddrPort(s string) netip.AddrPort {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return netip.AddrPort{}
	}
	var port uint16
	if _, err := fmt.Sscanf(s[i+1:], "%x", &port); err != nil {
		return netip.AddrPort{}
	}
	if a, err := netip.ParseAddr(strings.Trim(s[:i], "[]")); err == nil {
		return netip.AddrPortFrom(a, port)
	}
	b, err := hex.DecodeString(s[:i])
	if err != nil || len(b) != 4 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b)), port)
}
