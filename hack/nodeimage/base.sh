#!/bin/sh
# What the root file system in $1 needs to start in a container, as the Dockerfile of kind's base image does it: of
# systemd's units those alone that a node wants.
set -eu
root=$1
rm -f "$root"/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service \
  "$root"/lib/systemd/system/multi-user.target.wants/* "$root"/etc/systemd/system/*.wants/* \
  "$root"/lib/systemd/system/local-fs.target.wants/* "$root"/lib/systemd/system/basic.target.wants/* \
  "$root"/lib/systemd/system/sockets.target.wants/*udev* "$root"/lib/systemd/system/sockets.target.wants/*initctl*
echo ReadKMsg=no >>"$root/etc/systemd/journald.conf" # the kernel's messages are those of the whole machine
ln -sf /usr/lib/systemd/systemd "$root/sbin/init"
# It would register its formats with the machine's kernel.
ln -sf /dev/null "$root/etc/systemd/system/systemd-binfmt.service"
mkdir -p "$root/etc/kubernetes/manifests" "$root/opt/cni"
# Where kind, its units and containerd look for them.
ln -s /usr/lib/cni "$root/opt/cni/bin"
for program in containerd ctr containerd-shim-runc-v2; do
  ln -s "/usr/bin/$program" "$root/usr/local/bin/$program"
done
rm -f "$root"/etc/machine-id "$root"/etc/resolv.conf "$root"/etc/hostname
rm -rf "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/locale/* \
  "$root"/var/cache/* "$root"/var/log/*.log "$root"/var/log/apt
# The layer with the images brings it, with what containerd writes there.
rm -rf "$root"/var/lib/containerd
# The specification that kind's configuration of containerd names for every container: the usual one, with kind's hook and
# without limits.
chroot "$root" ctr oci spec | chroot "$root" jq \
  '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
  >"$root/etc/containerd/cri-base.json"
