#!/usr/bin/env bash
# Try every behaviour with every proxier: on this machine's kernel those that it runs, and at the same time, in User Mode
# Linux kernels, on a processor each, those of IPVS and of iptables beside. Fails when a native proxier differs.
# Usage: hack/conformance.sh BINARY [FLAG...]   flags go to "proxylab conformance"
set -euo pipefail
binary=$1
shift
root=()
[ "$(id -u)" = 0 ] || root=(sudo -E)

out=$(mktemp -d)
pids=()
trap 'rm -rf "$out"' EXIT
trap 'kill "${pids[@]}" 2>/dev/null || true' INT TERM # bash has what runs in the background ignore Ctrl-C

# try NAME CPU ARG...: in the background, what it prints goes to files
try() {
  local name=$1 cpu=$2
  shift 2
  "${root[@]}" taskset -c "$cpu" "$binary" conformance "$@" >"$out/$name" 2>"$out/$name.log" &
  pids+=($!)
}

kernels=(ipvs,kube-proxy/ipvs iptables,kube-proxy/iptables)
for i in "${!kernels[@]}"; do
  try "$i" $((i % $(nproc))) --kernel uml --proxiers "${kernels[i]}" "$@"
done

status=0
"${root[@]}" "$binary" conformance --proxiers userspace,iptables,nftables,kube-proxy/iptables,kube-proxy/nftables "$@" || status=$?
for i in "${!kernels[@]}"; do
  if ! wait "${pids[i]}"; then
    status=1
    cat "$out/$i.log" >&2
  fi
  cat "$out/$i"
done
exit "$status"
