#!/usr/bin/env bash
# What must hold on kind: a cluster of two nodes, the quickstart with kube-proxy and with ours in the same modes, the modes
# swapped node by node under traffic, behaviours that are different on a real cluster; and nothing is left in Docker, also
# after a kill in the middle. Starts a Docker daemon where none runs, and ends it again.
# Usage: hack/kind.sh BINARY
#   KIND_TESTS=all runs every test of kind instead (TestKind* of cmd/proxylab), of which each makes a cluster of its own.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
[ -x "$1" ] || { echo "$1 is no program: make build makes bin/proxylab" >&2; exit 2; }
binary=$(realpath "$1")
cd "$(dirname "$0")/.."
root=()
[ "$(id -u)" = 0 ] || root=(sudo -E env "PATH=$PATH")
lab=kind-$$

started=
docker version >/dev/null 2>&1 || started=1
"${root[@]}" hack/docker up
end() {
  "${root[@]}" "$binary" down "$lab" >/dev/null 2>&1 || true
  [ -z "$started" ] || "${root[@]}" hack/docker down
}
trap end EXIT
trap 'exit 1' INT TERM HUP

image=$("${root[@]}" hack/node-image)
objects() { # all that a lab might leave in Docker
  "${root[@]}" docker ps -a --format '{{.Names}} {{.Image}}'
  "${root[@]}" docker network ls --format '{{.Name}}'
  "${root[@]}" docker images --format '{{.Repository}}:{{.Tag}} {{.ID}}'
  "${root[@]}" docker volume ls --format '{{.Name}}'
}
before=$(objects)

tests=TestKindKilled
[ "${KIND_TESTS:-}" != all ] || tests=TestKind
exec=()
[ "$(id -u)" = 0 ] || exec=(-exec "sudo -E")
PROXYLAB_KIND_IMAGE=$image CGO_ENABLED=0 go test -count 1 -timeout 40m "${exec[@]}" -run "^$tests" ./cmd/proxylab

"${root[@]}" "$binary" up --lab kind --name "$lab" --image "$image" --proxier kube-proxy/iptables
"${root[@]}" "$binary" run quickstart --name "$lab" --proxiers kube-proxy/iptables,kube-proxy/nftables,iptables,nftables
"${root[@]}" "$binary" run live-swap --name "$lab" --proxiers iptables
"${root[@]}" "$binary" run lb-publish --name "$lab" --proxiers nftables
"${root[@]}" "$binary" conformance --name "$lab" --quick --parallel 8 --kills 3 --proxiers iptables,nftables
"${root[@]}" "$binary" down "$lab"

diff <(echo "$before") <(objects) || { echo "left behind in Docker, see above" >&2; exit 1; }
