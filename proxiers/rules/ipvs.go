package rules

import (
	"bufio"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// virtualServer is an IPVS service with its destinations.
type virtualServer struct {
	text, protocol, scheduler string
	to                        netip.AddrPort
	persistent                bool
	destinations              []destination
}

type destination struct {
	text   string
	to     netip.AddrPort
	weight int
}

// parseIPVS reads /proc/net/ip_vs, whose lines are "TCP  0A600001:01BB rr persistent 10800 FFFFFFFF" and
// "  -> 0AF40102:1F90      Masq    1      0          0".
func parseIPVS(text string) (servers []virtualServer, err error) {
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 3 {
			continue
		}
		switch fields[0] {
		case "TCP", "UDP", "SCTP":
			to, err := hexAddrPort(fields[1])
			if err != nil {
				return nil, fmt.Errorf("%q: %w", s.Text(), err)
			}
			servers = append(servers, virtualServer{protocol: strings.ToLower(fields[0]), to: to, scheduler: fields[2],
				persistent: strings.Contains(s.Text(), " persistent "),
				text:       strings.Join(append([]string{fields[0], to.String()}, fields[2:]...), " ")})
		case "->":
			to, err := hexAddrPort(fields[1])
			if err != nil || len(servers) == 0 || len(fields) < 4 {
				continue // the heading
			}
			weight, _ := strconv.Atoi(fields[3]) // the kernel's own digits
			last := &servers[len(servers)-1]
			last.destinations = append(last.destinations, destination{to: to, weight: weight,
				text: fmt.Sprintf("-> %s %s weight %s, active %s", to, fields[2], fields[3], at(fields, 4))})
		}
	}
	return servers, nil
}

func at(fields []string, i int) string {
	if i < len(fields) {
		return fields[i]
	}
	return "?"
}

// hexAddrPort reads "0A600001:01BB" and "[fd00:...]:01BB".
func hexAddrPort(s string) (netip.AddrPort, error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return netip.AddrPort{}, fmt.Errorf("no port in %q", s)
	}
	port, err := strconv.ParseUint(s[i+1:], 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if inner, ok := strings.CutPrefix(s[:i], "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return netip.AddrPortFrom(a, uint16(port)), err
	}
	n, err := strconv.ParseUint(s[:i], 16, 32)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), uint16(port)), err
}

func followIPVS(t *trail) {
	t.way.local = true // kube-ipvs0 holds the Service's addresses
	t.intoNAT()
	t.throughFilter()
	t.virtualServer()
	t.outByNAT()
}

// virtualServer shows the packet's stop in IPVS, which takes it on its way to the node itself.
func (t *trail) virtualServer() {
	for _, v := range t.ipvs {
		if v.to != t.way.to || v.protocol != t.way.protocol {
			continue
		}
		says := fmt.Sprintf("IPVS takes packets to this address on their way into the node (kube-ipvs0 holds it) and chooses by %s", v.scheduler)
		if v.persistent {
			says += "; a client that is known goes where it went before"
		}
		t.hop(0, "ipvs", v.text, says)
		for _, d := range v.destinations {
			says := "an endpoint: the destination becomes " + t.whose(d.to.String())
			if d.weight == 0 {
				says = t.whose(d.to.String()) + " drains: it keeps the connections that it has and gets no new ones"
			}
			t.hop(1, "ipvs", d.text, says)
		}
		if len(v.destinations) == 0 {
			t.hop(1, "ipvs", "no destination", "there is no endpoint to send it to")
		}
	}
}
