#!/usr/bin/env bash
# Formatting, vet and golangci-lint; the linter is built once, at the version given, into .cache.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
linter=.cache/golangci-lint-$version

unformatted=$(gofmt -l cmd lab proxiers bench scenarios web)
if [ -n "$unformatted" ]; then
  echo "not formatted (gofmt -w):"; echo "$unformatted"; exit 1
fi
if [ ! -x "$linter" ]; then
  echo "building golangci-lint $version"
  tmp=$(mktemp -d)
  GOBIN=$tmp go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
  mkdir -p .cache && mv "$tmp/golangci-lint" "$linter" && rmdir "$tmp"
fi
"$linter" run --allow-serial-runners ./...
