#!/usr/bin/env bash
# Fetch axe-core, which looks for what keeps people from using a page, from npm into .cache, and print where it is. Tests of the
# web page run it in a browser; it is no part of proxylab.
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.10.3
file=$PWD/.cache/axe-core-$version.js
if [ ! -s "$file" ]; then
  tmp=$(mktemp -d)
  trap 'rm -rf "$tmp"' EXIT
  (cd "$tmp" && npm pack --silent "axe-core@$version" >/dev/null && tar xzf "axe-core-$version.tgz" package/axe.min.js)
  mkdir -p .cache && mv "$tmp/package/axe.min.js" "$file"
fi
echo "$file"
