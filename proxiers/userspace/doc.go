// Package userspace is the native proxier that does what kube-proxy's first mode did: it listens on a local port for
// each Service port, redirects what is sent to the Service to that port with a rule, and carries the bytes to an endpoint
// itself. The kernel does not balance; this process does, and pays for it.
//
// # What it does with traffic
//
// Endpoints take turns. Session affinity is by client address, with the Service's timeout counted from the client's last
// connection. An endpoint that refuses a TCP connection, or takes too long, is passed over and the next one is tried;
// the client's affinity then moves. A Service port without endpoints is refused at once, by the kernel: its local port
// stays reserved but closed (see holder). Local ports keep their numbers as long as the process lives.
//
// TCP bytes are moved by splice(2). The end of one direction is passed on while the other stays open. Each UDP client
// address has a socket of its own to its endpoint; a flow whose endpoint is gone ends at the sync that removes it, and
// the client's next datagram goes to another. A UDP endpoint that refuses loses that datagram, and the next goes to
// another.
//
// Rules lead to the local port at the node's address (DNAT), which works whatever interface a packet comes in by. Where
// no interface has an address that the Node object names, they use REDIRECT.
//
// Endpoints see the node's address, never the client's. SCTP is left out, with a warning.
//
// # What the next mode meets
//
// When the process ends, for whatever reason, its connections end with it. Its rules stay, like those of the other
// modes, and lead to closed ports: until the next mode is in front of them or Cleanup removes them, new connections are
// refused at once instead of hanging. The iptables modes put their jumps in front of these. The rules of nftables mode
// are in a hook of the same priority, so they are reached only after Cleanup.
package userspace
