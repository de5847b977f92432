#!/bin/sh
# Where root lacks CAP_SYS_RESOURCE (number 24) nobody may lower an OOM score, and a sandbox that is to get a lower one
# than containerd's own ends with "can't get final child's PID from pipe: EOF". containerd then has to leave it as it is.
set -eu
bounding=$(awk '/^CapBnd:/ {print $2}' /proc/self/status)
case $bounding in *[13579bdf]??????) exit 0 ;; esac
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' /etc/containerd/config.toml
