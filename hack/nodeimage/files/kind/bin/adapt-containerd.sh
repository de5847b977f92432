#!/bin/sh
# What this containerd, on this machine, needs to be told beyond kind's configuration of it.
set -eu
config=/etc/containerd/config.toml

# Ports below 1024 are open to every user in a pod, which is what containerd 2 does unasked: CoreDNS is not root.
grep -q enable_unprivileged_ports "$config" ||
  sed -i '/^ *\[plugins\."io\.containerd\.grpc\.v1\.cri"\]$/a enable_unprivileged_ports = true\nenable_unprivileged_icmp = true' "$config"

# Where root lacks CAP_SYS_RESOURCE (number 24) nobody may lower an OOM score, and a sandbox that is to get a lower one
# than containerd's own ends with "can't get final child's PID from pipe: EOF". containerd then has to leave it as it is.
bounding=$(awk '/^CapBnd:/ {print $2}' /proc/self/status)
case $bounding in *[13579bdf]??????) exit 0 ;; esac
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$config"
