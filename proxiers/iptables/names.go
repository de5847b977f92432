package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
	"strings"

	"proxylab/proxiers/services"
)

// Chains that exist once, in kube-proxy's names.
const (
	chainServices         = "KUBE-SERVICES"          // nat: destinations; filter: cluster IPs without endpoints
	chainExternalServices = "KUBE-EXTERNAL-SERVICES" // filter: other destinations without endpoints
	chainNodePorts        = "KUBE-NODEPORTS"         // nat: node ports; filter: health check ports
	chainPostrouting      = "KUBE-POSTROUTING"       // nat: masquerades what is marked
	chainMarkMasq         = "KUBE-MARK-MASQ"         // nat: sets the mark
	chainForward          = "KUBE-FORWARD"           // filter
	chainProxyFirewall    = "KUBE-PROXY-FIREWALL"    // filter: what loadBalancerSourceRanges keep out
	chainCanary           = "KUBE-PROXY-CANARY"      // every table: empty; when it is gone somebody flushed the table
	chainKubeletFirewall  = "KUBE-FIREWALL"          // filter: shared with kubelet
	// chainLocalnetNote is empty and jumped to by nothing. It exists where this proxier switched route_localnet on,
	// so that Cleanup, which may be another process, knows that it has to be switched off again.
	chainLocalnetNote = "PROXYLAB-ROUTE-LOCALNET"
)

// Prefixes of the chains that one Service port has for itself. All of these are in the nat table.
const (
	prefixCluster  = "KUBE-SVC-"
	prefixLocal    = "KUBE-SVL-"
	prefixFirewall = "KUBE-FW-"
	prefixExternal = "KUBE-EXT-"
	prefixEndpoint = "KUBE-SEP-"
)

var portPrefixes = []string{prefixCluster, prefixLocal, prefixFirewall, prefixExternal, prefixEndpoint}

// portName is how kube-proxy writes a Service port: namespace/name, and :port if the port has a name.
func portName(k services.Key) string {
	name := k.Namespace + "/" + k.Service
	if k.Port != "" {
		name += ":" + k.Port
	}
	return name
}

// ClusterChain is the name of the KUBE-SVC- chain of a Service port: it spreads over all endpoints.
func ClusterChain(k services.Key) string { return prefixCluster + portHash(k) }

// LocalChain is the name of the KUBE-SVL- chain of a Service port: it spreads over this node's endpoints.
func LocalChain(k services.Key) string { return prefixLocal + portHash(k) }

// ExternalChain is the name of the KUBE-EXT- chain of a Service port: traffic to node ports, external IPs and load
// balancer IPs passes through it.
func ExternalChain(k services.Key) string { return prefixExternal + portHash(k) }

// FirewallChain is the name of the KUBE-FW- chain of a Service port: it lets loadBalancerSourceRanges in.
func FirewallChain(k services.Key) string { return prefixFirewall + portHash(k) }

// EndpointChain is the name of the KUBE-SEP- chain of one endpoint of a Service port.
func EndpointChain(k services.Key, ep netip.AddrPort) string {
	return prefixEndpoint + shortHash(portName(k)+protocolName(k)+ep.String())
}

func portHash(k services.Key) string { return shortHash(portName(k) + protocolName(k)) }

func protocolName(k services.Key) string { return strings.ToLower(string(k.Protocol)) }

// shortHash keeps chain names within the kernel's 28 characters, as kube-proxy does.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	var text [16]byte
	base32.StdEncoding.Encode(text[:], sum[:10])
	return string(text[:])
}

// isPortChain tells the chains of single Service ports from all others, among them those of other programs that start
// with KUBE- too (network policy controllers, host port plug-ins).
func isPortChain(name string) bool {
	for _, prefix := range portPrefixes {
		if strings.HasPrefix(name, prefix) && len(name) == len(prefix)+16 {
			return true
		}
	}
	return false
}
