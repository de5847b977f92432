// Package nftables is the native nftables proxier. Its rules do not grow with the cluster: Services and endpoints are
// elements of maps, and a packet finds its endpoint by a handful of lookups, however many Services there are.
//
// # Tables
//
// There is one table for each IP family, "ip proxylab" and "ip6 proxylab". Addresses of both families do not fit one map, so
// a shared "inet" table would hold everything twice anyway; with two, families fail, are repaired and are read one by
// one. Their name is not kube-proxy's ("kube-proxy"), so that neither program can meet the other's tables; chains, maps and
// sets are named as in kube-proxy's where they are for the same. No other table is ever listed, read or changed.
//
// # Layout
//
// A destination is what a client sends to: address . protocol . port. A node port is the destination 0.0.0.0 (or ::) .
// protocol . node port, because it is served on every local address. For each destination
//
//	service-policies  says who is to be masqueraded, for those that are not cluster IPs
//	service-ips       says among how many endpoints to choose: goto tcp-endpoints-4
//	tcp-endpoints     has these, numbered: address . port . 0 to address . port . 3
//
// and the chain tcp-endpoints-4, the same for all Services with four endpoints, is one rule: DNAT to what the map tcp-endpoints
// has for the destination and a random number below four. Such a chain exists for each number of endpoints that is in use. A
// new endpoint is one element more and one with another value; one replaced is one element. UDP and SCTP have maps and chains
// of their own, as nft 1.0.6 cannot translate to a map for any protocol. The maps with "local-" before their name are for
// externalTrafficPolicy Local: what comes from outside looks there, what pods and the node itself send does not.
//
// # Session affinity
//
// The sets tcp-affinity, udp-affinity and sctp-affinity remember client . destination . slot, each with its own time limit, and
// are written by packets, not by this program. A slot is an endpoint's number for as long as it lives; the next endpoint takes over a slot that was given up.
// affinity-slots has the slots that are in use, so that nobody is sent, or renews his stay, where no endpoint is any
// more; affinity-picks numbers the slots without gaps, to choose at random. Chains again depend on numbers alone:
// affinity-3-4 chooses among three endpoints in up to four slots, tcp-slot-2-10800s translates to the endpoint in slot 2.
//
// The sets outlive syncs. They outlive the process too, and clients find their endpoints again, as a new process reads once,
// when it starts, which endpoint had which slot. They are lost where the table has to be made anew: after it was removed by somebody,
// and after a version with another layout.
//
// What differs from kube-proxy: affinity is to a destination. A client that uses a cluster IP and a node port of one Service may
// have a different endpoint at each.
//
// # Node ports
//
// kube-proxy's nftables mode serves node ports on the node's primary address. Here they are served on every address
// of the node, as in mode iptables, but not on loopback (127.0.0.0/8 and ::1): what is sent from there cannot leave the host
// without route_localnet, which opens what listens on loopback alone to the neighbours.
// Nobody listens there, so connections are refused. https://issues.k8s.io/142183
//
// # Syncs
//
// What the tables hold is remembered. A sync renders the Service ports that changed, before and after, and writes the
// difference in one transaction of nft, without listing anything. The first pass, and one after a failure, empties and
// fills the table, again in one transaction, so packets meet either the old or the new state. The kernel's count of
// transactions, and the number of rules in each chain if somebody else changed anything, tell whether the table is
// still there. Only the names of its chains are read before it is written whole.
//
// If two Services claim one destination (an external IP, say), a cluster IP wins over others, then the first name;
// the other takes over when it is gone.
package nftables
