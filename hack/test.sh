#!/usr/bin/env bash
# Run every test: with the race detector, but for packages that link Kubernetes' own commands in (building those with
# it takes most of an hour) and for lab/kernel (its test binary runs inside a User Mode Linux kernel, which has not the
# addresses that the race detector wants). Tests of namespaces and rules need root: as another user, they run through sudo.
set -euo pipefail
cd "$(dirname "$0")/.."

root=()
[ "$(id -u)" = 0 ] || root=(-exec "sudo -E")

# go list tells what a package and its tests import, all the way down.
linked=$(go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | grep ' k8s.io/kubernetes/' | sed -E 's/[ .].*//; s/_test$//' | sort -u)
linked=$(printf '%s\nproxylab/lab/kernel\n' "$linked" | sort -u)
all=$(go list ./...)
alone=$(comm -23 <(sort <<<"$all") <(sort <<<"$linked"))

echo "== with the race detector"
CGO_ENABLED=1 go test -race -timeout 15m "${root[@]}" "$@" $alone
echo "== without"
CGO_ENABLED=0 go test -timeout 20m "${root[@]}" "$@" $linked
echo "== the node image's own programs"
(cd hack/nodeimage && CGO_ENABLED=0 go test "$@" ./podnet)
