package plane

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/pires/go-proxyproto"
)

// proxyVersion is that of the PROXY protocol which a pool's members are spoken to in; 0: none.
func proxyVersion(protocol string) byte {
	switch protocol {
	case "PROXY":
		return 1
	case "PROXYV2":
		return 2
	}
	return 0
}

// preface is what tells a member who its client is; nil for a pool without the PROXY protocol.
func preface(protocol string, client, vip netip.AddrPort) ([]byte, error) {
	version := proxyVersion(protocol)
	if version == 0 {
		return nil, nil
	}
	h := proxyproto.HeaderProxyFromAddrs(version, net.TCPAddrFromAddrPort(client), net.TCPAddrFromAddrPort(vip))
	b, err := h.Format()
	if err != nil {
		return nil, fmt.Errorf("PROXY protocol header: %w", err)
	}
	return b, nil
}

// prefaceOfProbe is that of the balancer's own connections: there is no client.
func prefaceOfProbe(protocol string) []byte {
	switch proxyVersion(protocol) {
	case 1:
		return []byte("PROXY UNKNOWN\r\n")
	case 2:
		return slices.Concat(proxyproto.SIGV2, []byte{byte(proxyproto.LOCAL), byte(proxyproto.UNSPEC), 0, 0})
	}
	return nil
}
