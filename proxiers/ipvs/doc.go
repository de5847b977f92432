// Package ipvs is the native ipvs proxier. It speaks kube-proxy's language: the link kube-ipvs0 with the Service addresses,
// a virtual server for each address and port, ipsets and chains under kube-proxy's names.
//
// # How a packet goes
//
// A Service address is an address of the node, so a packet for it comes in (chain INPUT), where IPVS takes it after the
// filter table, chooses a server and sends it on; a packet that the node itself sends meets IPVS right after the nat
// table's OUTPUT, before the filter table's. The number of iptables rules is constant: what differs from Service to
// Service is in ipsets.
//
// # What differs from kube-proxy's ipvs mode, on purpose
//
//   - A Service without endpoints is refused by a rule (set KUBE-NO-ENDPOINTS), TCP by a reset, and has no virtual server: IPVS
//     would answer by an ICMP error, of which the kernel sends few per second. It does answer what the node itself sends
//     while the last endpoint drains.
//   - Under internalTrafficPolicy Local without an endpoint here, packets are dropped (KUBE-NO-LOCAL-ENDPOINTS); kube-proxy
//     sends them to other nodes. Under externalTrafficPolicy Local without one, what comes from outside is dropped
//     (KUBE-NO-LOCAL-EXTERNAL), and the node and its pods reach endpoints elsewhere. Where there is one, they too meet only
//     those of this node: IPVS has one list of servers for all comers.
//   - loadBalancerSourceRanges hold for the node's own connections by a rule in the mangle table, before IPVS; kube-proxy has
//     a rule per Service for that.
//   - Virtual servers that are not of this mode stay, without any list of excluded ranges: see Cleanup.
//   - Schedulers sh and mh take another server where the one that the hash names is draining.
//
// # Draining
//
// A server that is to go gets the weight 0: no new connection meets it, and those that it has go on. It is removed once it
// has none, or after an hour (Options.DrainLimit); that is looked at with every sync and every sync period. The sysctl
// expire_nodest_conn keeps a client that uses a port again from reviving it, expire_quiescent_template ends affinity to
// it. A server that comes back while it drains has the weight 1 again. UDP has no connections: its servers go at once,
// and flows move with the next packet. When a whole Service is deleted its connections end, because its address is gone.
//
// # Affinity
//
// ClientIP is IPVS's persistence with the Service's timeout. IPVS keeps a client with its server also as long as it remembers
// a connection between the two: for two minutes after a TCP connection ended and five after a UDP flow's last packet. A
// timeout shorter than that has no effect, with kube-proxy neither.
//
// # Addresses
//
// kube-ipvs0 is down and does no ARP, as kube-proxy's. Every node of a cluster has every Service address, so none may
// answer for them in the nodes' network: on the links that have the node's addresses arp_ignore is 1 and arp_announce 2
// (kube-proxy's strictARP sets them on all links, and by default not at all; MetalLB's layer 2 mode needs them). IPv6 never
// answers for an address of another link. Settings that were changed are noted on the link (ip link show: alias) and
// restored by Cleanup.
//
// Node ports answer on all addresses of the node but loopback's and link-local ones.
//
// # Syncs
//
// A full pass reads links, sets, virtual servers and chains, and writes the difference; rules of mode iptables are
// replaced in the transaction that writes this mode's. A partial pass compares what the changed ports want with what was
// written, and asks the kernel for nothing. Sets come first, then virtual servers, and last the address that lets traffic
// in; the reverse when they go.
package ipvs
