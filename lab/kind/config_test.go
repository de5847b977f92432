package kind

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"

	"proxylab/lab"
)

func TestConfiguration(t *testing.T) {
	own := filepath.Join(t.TempDir(), "kind.yaml")
	write(t, own, `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking: {ipFamily: ipv6, kubeProxyMode: nftables}
nodes:
- {role: control-plane}
- {role: worker, image: mine, labels: {a: b}}
- {role: worker}
kubeadmConfigPatches: ["kind: ClusterConfiguration"]
`)
	tests := map[string]struct {
		options Options
		machine Machine
		nodes   int
		images  []string
		check   func(c *v1alpha4.Cluster) bool
	}{
		"default": {Options{}, Machine{}, 2, []string{"kindest/node"}, func(c *v1alpha4.Cluster) bool { return c.Networking.IPFamily == v1alpha4.DualStackFamily }},
		"one":     {Options{Nodes: 1, Image: "i"}, Machine{}, 1, []string{"i"}, nil},
		"three":   {Options{Nodes: 3}, Machine{}, 3, []string{"kindest/node"}, func(c *v1alpha4.Cluster) bool { return len(c.KubeadmConfigPatches) == 0 }},
		"cgroupv1": {Options{}, Machine{CgroupV1: true}, 2, []string{"kindest/node"}, func(c *v1alpha4.Cluster) bool {
			return strings.Contains(c.KubeadmConfigPatches[0], "failCgroupV1: false")
		}},
		"no right": {Options{}, Machine{NoResource: true}, 2, []string{"kindest/node"}, func(c *v1alpha4.Cluster) bool { return len(c.ContainerdConfigPatches) == 2 }},
		"own file": {Options{ConfigFile: own}, Machine{CgroupV1: true}, 3, []string{"kindest/node", "mine"}, func(c *v1alpha4.Cluster) bool {
			return c.Networking.IPFamily == v1alpha4.IPv6Family && len(c.KubeadmConfigPatches) == 2 && c.Nodes[1].Labels["a"] == "b"
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.options.Name = "x"
			c, err := configuration(test.options, test.machine)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range images(c) {
				i, _, _ = strings.Cut(i, ":")
				got = append(got, i)
			}
			if len(c.Nodes) != test.nodes || !slices.Equal(got, test.images) || c.Name != "x" || test.check != nil && !test.check(c) {
				data, _ := yaml.Marshal(c)
				t.Errorf("%v\n%s", got, data)
			}
		})
	}
}

func TestWrongConfigurations(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodez: []": "nodez",
		"kind: Cluster\napiVersion: v1":                                `want kind.x-k8s.io/v1alpha4`,
		"][":                                                           "kind configuration",
	} {
		file := filepath.Join(t.TempDir(), "kind.yaml")
		write(t, file, text)
		if _, err := New(Options{Name: "x", ConfigFile: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	_, err := New(Options{Name: "X", Nodes: 99, ConfigFile: "/nowhere"})
	for _, want := range []string{`lab name "X"`, "99 nodes", "/nowhere"} { // all mistakes at once
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s in it", err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for said, want := range map[string]string{
		"permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock": "sudo",
		"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?":    "start it",
		"Error: No such image": "",
	} {
		m, known := refusalOf(errors.New("exit status 1"), said)
		if known != (want != "") || !strings.Contains(m.Remedy, want) {
			t.Errorf("%q: %+v, %v", said, m, known)
		}
	}
	if m, known := refusalOf(os.ErrNotExist, ""); !known || !strings.Contains(m.Remedy, "docker.io") {
		t.Errorf("no program: %+v, %v", m, known)
	}
}

func TestMachine(t *testing.T) {
	dir := t.TempDir()
	limit := filepath.Join(dir, "limit")
	write(t, limit, "128\n")
	if m := inotify(limit, 2); m != nil {
		t.Errorf("2 nodes: %v", m)
	}
	if m := inotify(limit, 8); m == nil || !strings.Contains(m.Remedy, "sysctl -w fs.inotify.max_user_instances=512") {
		t.Errorf("8 nodes: %v", m)
	}
	if m := inotify(filepath.Join(dir, "none"), 8); m != nil {
		t.Errorf("not known: %v", m)
	}
	status := filepath.Join(dir, "status")
	for set, want := range map[string]bool{"000001ffffffffff": true, "000001fffeffffff": false} {
		write(t, status, "Name:\tx\nCapEff:\t0\nCapBnd:\t"+set+"\n")
		if got := hasCapability(status, 24); got != want {
			t.Errorf("%s: %v", set, got)
		}
	}
	missing := lab.Missing{}
	if err := static("/bin/sh"); !errors.As(err, &missing) || !strings.Contains(missing.Remedy, "CGO_ENABLED=0") {
		t.Errorf("a program that needs libraries: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
