#!/usr/bin/env bash
# Try every behaviour with every proxier: on this machine's kernel those that it runs, and at the same time, on one
# processor, those of IPVS beside iptables in a User Mode Linux kernel. Fails when a native proxier differs.
# Usage: hack/conformance.sh BINARY
set -euo pipefail
binary=$1
root=()
[ "$(id -u)" = 0 ] || root=(sudo -E)

inside=$(mktemp)
trap 'rm -f "$inside"' EXIT
"${root[@]}" "$binary" conformance --kernel uml --proxiers ipvs,kube-proxy/ipvs,iptables,kube-proxy/iptables >"$inside" 2>&1 &
uml=$!
trap 'kill "$uml" 2>/dev/null || true' INT TERM # bash has what runs in the background ignore Ctrl-C

status=0
"${root[@]}" "$binary" conformance --proxiers userspace,iptables,nftables,kube-proxy/iptables,kube-proxy/nftables || status=$?
wait "$uml" || status=$?
cat "$inside"
exit "$status"
