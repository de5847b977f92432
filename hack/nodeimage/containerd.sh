#!/bin/sh
# Runs in a node's root file system: take the images in /images.tar into containerd's store.
set -eu
containerd --log-level error &
pid=$!
tries=0
until ctr version >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ $tries -lt 150 ] || { echo "containerd has not come up within 30 s" >&2; exit 1; }
  sleep 0.2
done
ctr --namespace k8s.io images import --no-unpack /images.tar
ctr --namespace k8s.io images check >&2
# It writes its store out when it ends.
kill $pid
wait $pid || true
rm -rf /var/lib/containerd/tmpmounts
