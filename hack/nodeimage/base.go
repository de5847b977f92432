package main

import (
	"context"
	"path/filepath"
	"strings"
)

const suite = "bookworm"

// packages are Debian's in a node: those that kind's own base image has too, the container runtime, what kube-proxy and our
// proxiers call, and what one looks at a network with (the pods of Kubernetes' own tests want those too).
var packages = []string{
	"systemd", "dbus", "mount", "util-linux", "kmod", "procps", "jq", "ca-certificates", "curl", "socat", "e2fsprogs",
	"containerd", "runc", "containernetworking-plugins", "libseccomp2",
	"iptables", "nftables", "ipset", "ipvsadm", "ebtables", "conntrack", "iproute2", "ethtool", "netbase",
	"tcpdump", "netcat-openbsd", "bind9-dnsutils", "wget",
}

// buildBase makes dir/layer.tar.gz, the root file system with nothing of Kubernetes.
func buildBase(ctx context.Context, dir string) error {
	script, err := filepath.Abs("base.sh")
	if err != nil {
		return err
	}
	args := []string{"--mode=root", "--variant=minbase", "--include=" + strings.Join(packages, ","),
		"--customize-hook=" + script + ` "$1"`}
	return execute(command(ctx, "mmdebstrap", append(args, suite, filepath.Join(dir, "layer.tar.gz"))...))
}
