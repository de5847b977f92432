#!/usr/bin/env bash
# Install, with apt-get, the Debian or Ubuntu packages whose commands are missing; say so first.
# Usage: hack/deps.sh [run|test|kind]. "test" adds the C compiler that the race detector wants, curl, haproxy (the data plane
# of load balancers is compared with it), and kubectl where the system has a package of it (tests with kubectl are skipped
# without); "kind" what hack/docker and hack/node-image need.
set -euo pipefail

declare -A package_of=([iptables-legacy]=iptables [iptables-nft]=iptables [nft]=nftables [ip]=iproute2)
[ "${1:-run}" = test ] && package_of+=([gcc]="gcc libc6-dev" [curl]=curl [haproxy]=haproxy)
[ "${1:-run}" = kind ] && package_of+=([docker]=docker.io [dockerd]=docker.io [runc]=runc [jq]=jq [mmdebstrap]=mmdebstrap)

PATH="$PATH:/usr/sbin:/sbin"
missing=()
for command in "${!package_of[@]}"; do
  command -v "$command" >/dev/null || missing+=("${package_of[$command]}")
done
if ! command -v go >/dev/null; then
  echo "proxylab is built with Go, which is not here: install it from https://go.dev/dl/ and call again" >&2
  exit 1
fi
optional=()
[ "${1:-run}" = test ] && ! command -v kubectl >/dev/null && optional+=(kubernetes-client)
if [ "${1:-run}" = test ]; then
  command -v openstack >/dev/null || optional+=(python3-openstackclient)
  /usr/bin/python3 -c 'import octaviaclient' 2>/dev/null || optional+=(python3-octaviaclient)
fi
[ ${#missing[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ] && exit 0

read -ra packages <<<"$(printf '%s\n' "${missing[@]:-}" | sort -u | tr '\n' ' ')"
if ! command -v apt-get >/dev/null; then
  [ ${#packages[@]} -gt 0 ] || exit 0
  echo "missing: ${packages[*]} (Debian's names); install them with this system's package manager and call again" >&2
  exit 1
fi
sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo)
echo "installing with apt-get: ${packages[*]} ${optional[*]}"
"${sudo[@]}" apt-get update -qq
install=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends)
[ ${#packages[@]} -eq 0 ] || "${install[@]}" "${packages[@]}"
[ ${#optional[@]} -eq 0 ] || "${install[@]}" "${optional[@]}" ||
  echo "not installed: ${optional[*]}; what needs it is skipped"
