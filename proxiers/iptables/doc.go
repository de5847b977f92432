// Package iptables is the native iptables proxier. It speaks kube-proxy's language, the same chains under the same
// names, so that what it wrote can be read, compared and taken over by whoever knows kube-proxy's.
//
// # Layouts
//
// Legacy iptables replaces a whole table in the kernel at every restore, and the nft back end slows down with every
// chain, so the number of rules and chains is the cost. Up to a thousand endpoints (LargeThreshold) the layout is
// kube-proxy's rule for rule (but TCP is refused by a reset, see reject). Above it kube-proxy leaves out comments; this proxier goes further where no packet
// can tell the difference:
//
//   - an endpoint has a chain of its own only where that chain does something: it records affinity, or it masquerades
//     a pod's connection to itself, which can only happen on the pod's own node. For all others the KUBE-SVC- chain
//     does the DNAT itself: one rule instead of three and a chain;
//   - no rule carries a comment;
//   - the rule that masquerades what comes from outside the cluster matches the destination again only where traffic
//     to another destination can meet it.
//
// # Syncs
//
// A full pass lists the chains (only their names: the listing is cut off at the first rule of a user chain), writes
// everything, deletes stale chains, and puts missing jumps back. What was written is remembered in a mirror. A partial
// pass renders the Service ports that changed, compares chain by chain with the mirror and writes the difference.
// Where Full is asked for while the mirror is believed (the periodic pass), the tables are first checked against it,
// rules counted chain by chain; they are written whole only if they differ, or once an hour. With the nft back end the
// kernel's count of transactions spares that check as long as nobody else made one.
//
// There is one iptables-restore per family and pass. Whatever it prints is in the error, with the line it names.
package iptables
