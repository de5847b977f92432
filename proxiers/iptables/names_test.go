package iptables

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/services"
)

// The names are what the real kube-proxy gives the same Services.
func TestChainNamesAreKubeProxys(t *testing.T) {
	key := func(ns, name, port string, proto corev1.Protocol) services.Key {
		return services.Key{Namespace: ns, Service: name, Port: port, Protocol: proto, Family: services.IPv4}
	}
	svc1 := key("ns1", "svc1", "p80", corev1.ProtocolTCP)
	for _, c := range []struct{ what, got, want string }{
		{"kubernetes", ClusterChain(key("default", "kubernetes", "https", corev1.ProtocolTCP)), "KUBE-SVC-NPX46M4PTMTKRN6Y"},
		{"dns over UDP", ClusterChain(key("kube-system", "kube-dns", "dns", corev1.ProtocolUDP)), "KUBE-SVC-TCOU7JCQXEZGVUNU"},
		{"dns over TCP", ClusterChain(key("kube-system", "kube-dns", "dns-tcp", corev1.ProtocolTCP)), "KUBE-SVC-ERIFXISQEP7F7OF4"},
		{"cluster", ClusterChain(svc1), "KUBE-SVC-XPGD46QRK7WJZT7O"},
		{"local", LocalChain(key("ns2", "svc2", "p80", corev1.ProtocolTCP)), "KUBE-SVL-GNZBNJ2PO5MGZ6GT"},
		{"external", ExternalChain(key("ns2", "svc2", "p80", corev1.ProtocolTCP)), "KUBE-EXT-GNZBNJ2PO5MGZ6GT"},
		{"firewall", FirewallChain(key("ns5", "svc5", "p80", corev1.ProtocolTCP)), "KUBE-FW-NUKIZ6OKUXPJNT4C"},
		{"endpoint", EndpointChain(svc1, netip.MustParseAddrPort("10.180.0.1:80")), "KUBE-SEP-SXIVWICOYRO3J4NJ"},
		{"endpoint", EndpointChain(key("ns3", "svc3", "p80", corev1.ProtocolTCP), netip.MustParseAddrPort("10.180.0.3:80")),
			"KUBE-SEP-OYPFS5VJICHGATKP"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
}

func TestOtherProgramsChainsAreNotOurs(t *testing.T) {
	for _, name := range []string{"KUBE-POD-FW-ABCDEFGHIJKLMNOP", "KUBE-NWPLCY-DEFAULT", "KUBE-SEP-SHORT", "KUBE-KUBELET-CANARY",
		"KUBE-IPTABLES-HINT", "KUBE-LOAD-BALANCER", "CNI-HOSTPORT-DNAT", "KUBE-SVC-XPGD46QRK7WJZT7OX", "cali-FORWARD"} {
		if isOurs(name) {
			t.Errorf("%s is taken for ours", name)
		}
	}
}
