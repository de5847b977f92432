package main_test

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"proxylab/lab/kind"
)

// nodeImage is the image that clusters of the tests are made of.
func nodeImage(t *testing.T) string {
	t.Helper()
	needRoot(t)
	image := os.Getenv("PROXYLAB_KIND_IMAGE")
	if image == "" {
		t.Skip("PROXYLAB_KIND_IMAGE names no node image (make node-image makes one)")
	}
	if out, err := exec.Command("docker", "image", "inspect", image).CombinedOutput(); err != nil {
		t.Skipf("docker has no image %s: %v: %s", image, err, out)
	}
	return image
}

// docker is what Docker has.
func docker(t *testing.T) string {
	t.Helper()
	text := ""
	for _, args := range [][]string{{"ps", "-a", "--format", "{{.Names}} {{.Image}}"}, {"network", "ls", "--format", "{{.Name}}"},
		{"images", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}"}, {"volume", "ls", "--format", "{{.Name}}"}} {
		text += run(t, "docker", args...)
	}
	return text
}

// unchangedDocker says afterwards whether Docker has what it has now.
func unchangedDocker(t *testing.T) (check func()) {
	t.Helper()
	before := docker(t)
	return func() {
		t.Helper()
		if after := docker(t); after != before {
			t.Errorf("docker before:\n%s\nafter:\n%s", before, after)
		}
	}
}

// kindNode is the name of a node with a control plane.
type kindNode string

func (n kindNode) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(run(t, "docker", append([]string{"exec", string(n), "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...))
}

// feed gives kubectl a file.
func (n kindNode) feed(t *testing.T, file string, args ...string) {
	t.Helper()
	pipe(t, file, append([]string{"docker", "exec", "-i", string(n), "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
}

// web makes a Service with pods of the image proxylab/echo, and returns its cluster IP.
func (n kindNode) web(t *testing.T, expose ...string) (ip string) {
	t.Helper()
	n.kubectl(t, "create", "deployment", "web", "--image=proxylab/echo", "--replicas=2")
	n.kubectl(t, append([]string{"expose", "deployment", "web", "--port=80", "--target-port=8080"}, expose...)...)
	n.kubectl(t, "rollout", "status", "deployment/web", "--timeout=120s")
	return n.kubectl(t, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
}

// answers returns when a pod of web answers whoever asks the address from the node.
func (n kindNode) answers(t *testing.T, what, ip string) {
	t.Helper()
	answered(t, what, "docker", "exec", string(n), "curl", "-s", "-m", "2", "http://"+net.JoinHostPort(ip, "80"))
}

// answered returns when a pod of web answers a command.
func answered(t *testing.T, what string, command ...string) {
	t.Helper()
	eventually(t, what, time.Minute, func() (bool, string) {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		return err == nil && strings.Contains(string(out), `"pod":"web-`), string(out)
	})
}

// TestKind is the whole of a lab on kind: pods answer, the mode changes node by node under a Service, the proxies say what they
// are, and nothing is left.
func TestKind(t *testing.T) {
	image := nodeImage(t)
	defer unchangedDocker(t)()
	name := labName(t)
	runWithin(t, 6*time.Minute, binary, "up", "--lab", "kind", "--name", name, "--image", image, "--proxier", "kube-proxy/iptables")
	if out := run(t, binary, "ls"); !regexp.MustCompile(name + ` +kind +2 +kube-proxy/iptables`).MatchString(out) {
		t.Errorf("ls: %s", out)
	}
	kubeconfig := strings.TrimSpace(run(t, binary, "kubeconfig", name))
	control := kindNode(name + "-control-plane")
	if text, err := os.ReadFile(kubeconfig); err != nil || !strings.Contains(string(text), "https://127.0.0.1:") {
		t.Errorf("kubeconfig: %v\n%s", err, text)
	}
	ip := control.web(t, "--type=NodePort")
	control.kubectl(t, "run", "client", "--image=proxylab/client")
	control.kubectl(t, "wait", "--for=condition=Ready", "pod/client", "--timeout=60s")
	answers := func(what string) {
		t.Helper()
		answered(t, what, binary, "exec", "--name", name, "--pod", "client", "--", "curl", "-s", "-m", "2", "http://"+ip)
	}
	answers("kube-proxy/iptables on both nodes")
	for _, swap := range [][]string{{"nftables", "--node", name + "-worker"}, {"nftables"}, {"kube-proxy/nftables"}, {"iptables"}} {
		run(t, binary, append([]string{"swap", "--name", name}, swap...)...)
		answers(strings.Join(swap, " "))
	}
	if out := run(t, binary, "rules", "--name", name, "web"); !strings.Contains(out, "KUBE-SVC-") {
		t.Errorf("rules: %s", out)
	}
	run(t, binary, "down", name)
}

// TestKindRun has the same result as a run in the netns lab.
func TestKindRun(t *testing.T) {
	image := nodeImage(t)
	defer unchangedDocker(t)()
	text, err := os.ReadFile("testdata/short.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scenario := filepath.Join(t.TempDir(), "shorter.yaml")
	if err := os.WriteFile(scenario, bytes.Replace(text, []byte("wait: 5m"), []byte("wait: 5s"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	out := runWithin(t, 10*time.Minute, binary, "run", scenario, "--lab", "kind", "--image", image, "--proxiers", "kube-proxy/iptables,nftables", "-o", "json", "--out", t.TempDir())
	var result struct {
		Run      struct{ Lab string }
		Subjects []struct {
			Proxier      string
			Sync         struct{ Count int }
			ProxierUsage struct{ CPUSeconds float64 }
		}
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var played []string
	for _, s := range result.Subjects {
		played = append(played, s.Proxier)
		if s.Sync.Count == 0 || s.ProxierUsage.CPUSeconds == 0 {
			t.Errorf("not measured: %+v", s)
		}
	}
	if result.Run.Lab != "kind" || !slices.Equal(played, []string{"kube-proxy/iptables", "nftables"}) {
		t.Errorf("%+v", result)
	}
}

// TestKindKilled kills an "up" in the middle: "down" leaves nothing.
func TestKindKilled(t *testing.T) {
	image := nodeImage(t)
	defer unchangedDocker(t)()
	name := labName(t)
	up := exec.Command(binary, "up", "--lab", "kind", "--name", name, "--image", image)
	up.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a node is there", time.Minute, func() (bool, string) {
		out, err := exec.Command("docker", "ps", "-aq", "--filter", "label=io.x-k8s.kind.cluster="+name).Output()
		return err == nil && len(out) > 0, string(out)
	})
	if err := up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = up.Wait() // it was killed
	if out := run(t, binary, "ls"); !regexp.MustCompile(name + ` +kind .*incomplete`).MatchString(out) {
		t.Errorf("ls: %s", out)
	}
	run(t, binary, "down", name)
	if _, err := os.Stat(filepath.Join("/var/lib/proxylab", name)); err == nil {
		t.Error("the lab's directory is left")
	}
}

// bareCluster is a kind cluster of one node that this program did not make a lab of, and its node's name.
func bareCluster(t *testing.T, name, image string) kindNode {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "kind.yaml")
	text := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n  image: " + image + "\n"
	machine := kind.Examine() // what labs allow for, too
	if machine.CgroupV1 {
		text += "kubeadmConfigPatches:\n- |\n  kind: KubeletConfiguration\n  apiVersion: kubelet.config.k8s.io/v1beta1\n  failCgroupV1: false\n"
	}
	if machine.NoResource {
		text += "containerdConfigPatches:\n- |\n  version = 2\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    restrict_oom_score_adj = true\n"
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	before := strings.Contains(run(t, "docker", "network", "ls", "--format", "{{.Name}}"), "kind\n")
	t.Cleanup(func() {
		node := name + "-control-plane"
		if out, err := exec.Command("docker", "rm", "--force", "--volumes", node).CombinedOutput(); err != nil {
			t.Errorf("remove the cluster: %v: %s", err, out)
		}
		if !before {
			_ = exec.Command("docker", "network", "rm", "kind").Run() // fails where somebody else has begun to use it
		}
	})
	run(t, binary, "kind-create", "--name", name, "--config", config, "--kubeconfig", filepath.Join(dir, "kubeconfig"))
	return kindNode(name + "-control-plane")
}

// TestKindConfig makes a cluster as the user's own kind configuration says: of IPv6 alone, and without kube-proxy.
func TestKindConfig(t *testing.T) {
	image := nodeImage(t)
	defer unchangedDocker(t)()
	name := labName(t)
	config := filepath.Join(t.TempDir(), "kind.yaml")
	text := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnetworking: {ipFamily: ipv6, kubeProxyMode: none}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runWithin(t, 6*time.Minute, binary, "up", "--lab", "kind", "--name", name, "--image", image, "--kind-config", config, "--proxier", "nftables")
	node := kindNode(name + "-control-plane")
	ip := node.web(t)
	if !strings.Contains(ip, ":") {
		t.Errorf("cluster IP %s", ip)
	}
	for _, proxier := range []string{"nftables", "iptables"} {
		run(t, binary, "swap", "--name", name, proxier)
		node.answers(t, proxier, ip)
	}
	out, err := exec.Command(binary, "swap", "--name", name, "kube-proxy/nftables").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has no kube-proxy") {
		t.Errorf("kube-proxy where there is none: %v: %s", err, out)
	}
	run(t, binary, "down", name)
}

// TestKindAdopted uses a cluster that was there, and leaves it as it was; and runs a native proxier there from its manifest
// alone.
func TestKindAdopted(t *testing.T) {
	image := nodeImage(t)
	defer unchangedDocker(t)()
	name := labName(t)
	t.Run("cluster", func(t *testing.T) {
		node := bareCluster(t, name, image)
		kubectl := func(args ...string) string {
			t.Helper()
			return node.kubectl(t, args...)
		}
		kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-proxy", "--timeout=120s")
		kubectl("wait", "--for=condition=Ready", "node/"+string(node), "--timeout=120s")
		eventually(t, "the cluster is settled", time.Minute, func() (bool, string) {
			taints := kubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.taints}")
			return !strings.Contains(taints, "not-ready"), taints
		})
		// What a lab might leave in a cluster or on a node.
		facts := func() string {
			text := kubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.taints}{.items[*].metadata.labels}")
			text += kubectl("get", "namespaces", "-o", "name")
			text += kubectl("-n", "kube-system", "get", "daemonsets,configmaps,deployments,serviceaccounts", "-o", "name")
			text += kubectl("-n", "kube-system", "get", "daemonset/kube-proxy", "-o", "jsonpath={.spec.template.spec.nodeSelector}{.status.numberReady}")
			text += kubectl("get", "mutatingadmissionpolicies,mutatingadmissionpolicybindings,clusterrolebindings", "-o", "name")
			for _, command := range []string{"nft list tables | sort", "ctr -n k8s.io images ls -q | sort", "ls /var/lib", "ip -o route | grep -v veth | sort", "systemctl list-units --no-legend 'proxylab*'"} {
				text += run(t, "docker", "exec", string(node), "sh", "-c", command)
			}
			return text
		}
		was := facts()

		runWithin(t, 6*time.Minute, binary, "up", "--lab", "kind", "--name", name, "--proxier", "iptables")
		ip := node.web(t)
		answers := func(what string) {
			t.Helper()
			node.answers(t, what, ip)
		}
		answers("iptables on a cluster that was there")
		run(t, binary, "swap", "--name", name, "kube-proxy/nftables")
		answers("kube-proxy/nftables there")
		out, err := exec.Command(binary, "conformance", "--name", name).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--disturb") {
			t.Errorf("conformance on somebody's cluster: %v: %s", err, out)
		}
		leaveHalfARun(t, name, node)
		run(t, binary, "down", name)
		answers("the cluster's own kube-proxy, after the lab")
		eventually(t, "the cluster is as before", time.Minute, func() (bool, string) {
			is := facts()
			return is == was, "before:\n" + was + "\nnow:\n" + is
		})

		// The DaemonSet, as the head of its manifest says.
		archive := filepath.Join(t.TempDir(), "proxier.tar")
		run(t, binary, "manifests", "image", archive)
		pipe(t, archive, "docker", "exec", "-i", string(node), "ctr", "-n", "k8s.io", "images", "import", "-")
		manifest := filepath.Join(t.TempDir(), "proxier.yaml")
		if err := os.WriteFile(manifest, []byte(run(t, binary, "manifests", "proxier", "nftables")), 0o600); err != nil {
			t.Fatal(err)
		}
		park := func(value string) {
			kubectl("-n", "kube-system", "patch", "daemonset", "kube-proxy", "--type", "merge", "-p",
				`{"spec":{"template":{"spec":{"nodeSelector":{"proxylab.io/parked":`+value+`}}}}}`)
		}
		park(`"true"`)
		kubectl("-n", "kube-system", "wait", "--for=delete", "pod", "-l", "k8s-app=kube-proxy", "--timeout=60s")
		node.feed(t, manifest, "apply", "-f", "-")
		kubectl("-n", "kube-system", "rollout", "status", "daemonset/proxylab-proxier", "--timeout=120s")
		// A new Service is programmed by nobody else, and the rules of kube-proxy are gone.
		kubectl("expose", "deployment", "web", "--name=second", "--port=80", "--target-port=8080")
		ip = kubectl("get", "service", "second", "-o", "jsonpath={.spec.clusterIP}")
		answers("the DaemonSet's nftables")
		eventually(t, "kube-proxy's rules are gone", time.Minute, func() (bool, string) {
			out := run(t, "docker", "exec", string(node), "iptables-save")
			return !strings.Contains(out, "KUBE-SVC-"), out
		})
		node.feed(t, manifest, "delete", "-f", "-")
		park("null")
		kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-proxy", "--timeout=120s")
		answers("kube-proxy again")
	})
}

// leaveHalfARun kills a run in the middle, after one that finds a Deployment of the user's in its way.
func leaveHalfARun(t *testing.T, name string, node kindNode) {
	t.Helper()
	out, err := exec.Command(binary, "run", "testdata/short.yaml", "--name", name, "--proxiers", "iptables", "--out", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Deployment web already that this program did not make") {
		t.Errorf("a run over what is the user's: %v: %s", err, out)
	}
	text, err := os.ReadFile("testdata/short.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scenario := filepath.Join(t.TempDir(), "other.yaml")
	other := strings.NewReplacer("name: web", "name: other", "app: web", "app: other", "service: web", "service: other").Replace(string(text))
	if err := os.WriteFile(scenario, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "run", scenario, "--name", name, "--proxiers", "iptables", "--out", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the run's pods are there", time.Minute, func() (bool, string) {
		out := node.kubectl(t, "get", "pods", "-l", "app=other", "--field-selector=status.phase=Running", "-o", "name")
		return out != "", out
	})
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// pipe runs a command with a file as its input.
func pipe(t *testing.T, file string, command ...string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = f
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", command, err, out)
	}
}
