package kind

import (
	"fmt"
	"os"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

// readConfig reads the user's own kind configuration; an unknown field is an error.
func readConfig(path string) (*v1alpha4.Cluster, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("kind configuration: %w", err)
	}
	c := &v1alpha4.Cluster{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, fmt.Errorf("kind configuration %s: %w", path, err)
	}
	if want := "kind.x-k8s.io/v1alpha4"; c.APIVersion != want || c.Kind != "Cluster" {
		return nil, fmt.Errorf("kind configuration %s: is %s %q, want %s %q", path, c.APIVersion, c.Kind, want, "Cluster")
	}
	return c, nil
}

// generated is a cluster of that many nodes, in all that kind decides by itself like any other, but dual stack.
func generated(nodes int) *v1alpha4.Cluster {
	c := &v1alpha4.Cluster{
		TypeMeta:   v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Networking: v1alpha4.Networking{IPFamily: v1alpha4.DualStackFamily},
		Nodes:      []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole}},
	}
	for len(c.Nodes) < nodes {
		c.Nodes = append(c.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole})
	}
	return c
}

const (
	// The kubelet ends on cgroup v1 otherwise, since Kubernetes 1.35 (KEP-5573).
	cgroupPatch = `kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
failCgroupV1: false
`
	// One for each version of containerd's configuration: kind applies the one that fits.
	oomPatch2 = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
`
	oomPatch3 = `version = 3
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
`
)

// allowFor adds what this machine needs.
func allowFor(c *v1alpha4.Cluster, m Machine) {
	if m.CgroupV1 {
		c.KubeadmConfigPatches = append(c.KubeadmConfigPatches, cgroupPatch)
	}
	if m.NoResource {
		c.ContainerdConfigPatches = append(c.ContainerdConfigPatches, oomPatch2, oomPatch3)
	}
}

// configuration is the cluster that the options ask for, on this machine.
func configuration(o Options, m Machine) (*v1alpha4.Cluster, error) {
	c := generated(max(o.Nodes, 1))
	if o.Nodes == 0 {
		c = generated(DefaultNodes)
	}
	if o.ConfigFile != "" {
		var err error
		if c, err = readConfig(o.ConfigFile); err != nil {
			return nil, err
		}
		if len(c.Nodes) == 0 { // kind's default
			c.Nodes = []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole}}
		}
	}
	c.Name = o.Name
	allowFor(c, m)
	if o.Image != "" {
		for i := range c.Nodes {
			c.Nodes[i].Image = o.Image
		}
	}
	return c, nil
}

// images are those that nodes of a cluster are made of.
func images(c *v1alpha4.Cluster) []string {
	var all []string
	seen := map[string]bool{}
	for _, n := range c.Nodes {
		image := n.Image
		if image == "" {
			image = defaults.Image
		}
		if !seen[image] {
			seen[image], all = true, append(all, image)
		}
	}
	return all
}
