#!/usr/bin/env bash
# Try every behaviour with every proxier: on this machine's kernel those that it runs, and at the same time, in a User Mode
# Linux kernel, which takes one processor, those of IPVS and of iptables beside. Fails when a native proxier differs.
# Usage: hack/conformance.sh BINARY [FLAG...]   flags go to "proxylab conformance"
#   UML_PROXIERS (ipvs,kube-proxy/ipvs,iptables,kube-proxy/iptables) are those in User Mode Linux: kube-proxy calls
#   programs so often that its rows take three quarters of an hour there, and the native ones' a quarter.
set -euo pipefail
binary=$1
shift
root=()
[ "$(id -u)" = 0 ] || root=(sudo -E)

# One processor is the kernel's, but for what this machine's own kernel has to do there, which goes first; the others, where
# there are any, are for what runs beside.
last=$(($(nproc) - 1))
rest=0
[ "$last" -lt 2 ] || rest=0-$((last - 1))

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

"${root[@]}" nice -n 5 taskset -c "$last" "$binary" conformance --kernel uml "$@" \
  --proxiers "${UML_PROXIERS:-ipvs,kube-proxy/ipvs,iptables,kube-proxy/iptables}" >"$out/uml" 2>"$out/uml.log" &
uml=$!
trap 'kill "$uml" 2>/dev/null || true' INT TERM # bash has what runs in the background ignore Ctrl-C

status=0
"${root[@]}" taskset -c "$rest" "$binary" conformance "$@" \
  --proxiers userspace,iptables,nftables,kube-proxy/iptables,kube-proxy/nftables || status=$?
echo "those in User Mode Linux go on" >&2
if ! wait "$uml"; then
  status=1
  cat "$out/uml.log" >&2
fi
cat "$out/uml"
exit "$status"
