package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"proxylab/lab/labdir"
)

// What the lab puts on a node, in one directory of its own. /var is a volume on every node of kind, and allows programs.
const (
	nodeDir        = "/var/lib/proxylab"
	nodeBinary     = nodeDir + "/proxylab"
	nodeKubeconfig = nodeDir + "/kubeconfig"
	nodeReports    = nodeDir + "/reports.jsonl"
	nodeLog        = nodeDir + "/proxier.log"
	nodeImages     = nodeDir + "/images" // which images were loaded
)

// equip puts on a node what proxiers and pods need there.
func (m *making) equip(ctx context.Context, c container) error {
	if err := os.MkdirAll(labdir.Node(m.Name(), c.Name), 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(c.root(nodeDir), 0o700); err != nil {
		return err
	}
	if err := copyFile(m.opts.Executable, c.root(nodeBinary)); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	kubeconfig, err := m.provider().KubeConfig(m.Name(), true)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.root(nodeKubeconfig), []byte(kubeconfig), 0o600); err != nil {
		return err
	}
	if err := m.loadImages(c); err != nil {
		return fmt.Errorf("load images: %w", err)
	}
	if err := m.fenceIn(ctx, c); err != nil {
		return err
	}
	return m.equalTerms(ctx, c)
}

// copyFile copies a file unless it is there: of the same size, and as old.
func copyFile(from, to string) error {
	source, err := os.Stat(from)
	if err != nil {
		return err
	}
	if is, err := os.Stat(to); err == nil && is.Size() == source.Size() && is.ModTime().Equal(source.ModTime()) {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	// A program that runs cannot be written to, but it can be replaced.
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := os.Chtimes(to+".new", source.ModTime(), source.ModTime()); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// equalTerms undoes what kube-proxy has set for one mode alone: kind has it accept packets outside the window of their
// connection (tcpBeLiberal) in mode nftables only, and the kernel keeps that when the mode changes.
func (m *making) equalTerms(ctx context.Context, c container) error {
	const setting = "net.netfilter.nf_conntrack_tcp_be_liberal"
	err := m.command(ctx, c.Name, "sysctl", "-w", setting+"=0")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// loadImages has the images for pods in a node's containerd. kind's way to do that imports an archive.
func (m *making) loadImages(c container) error {
	source, err := os.Stat(m.opts.Executable)
	if err != nil {
		return err
	}
	want := fmt.Sprintf("%d %s", source.Size(), source.ModTime())
	if have, err := os.ReadFile(c.root(nodeImages)); err == nil && strings.TrimSpace(string(have)) == want {
		return nil
	}
	archive := filepath.Join(labdir.Node(m.Name(), c.Name), "images.tar")
	if err := writeImages(m.opts.Executable, archive); err != nil {
		return err
	}
	defer func() { _ = os.Remove(archive) }()
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	nodes, err := m.provider().ListInternalNodes(m.Name())
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.String() != c.Name {
			continue
		}
		if err := nodeutils.LoadImageArchive(n, f); err != nil {
			return err
		}
		return os.WriteFile(c.root(nodeImages), []byte(want+"\n"), 0o600)
	}
	return fmt.Errorf("kind has no node %s", c.Name)
}
