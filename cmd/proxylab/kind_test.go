package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
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

// TestKind is the whole of a lab on kind: pods answer, the mode changes node by node under a Service, the proxies say what they
// are, and nothing is left.
func TestKind(t *testing.T) {
	image := nodeImage(t)
	before := docker(t)
	name := labName(t)
	run(t, binary, "up", "--lab", "kind", "--name", name, "--image", image, "--proxier", "kube-proxy/iptables")
	if out := run(t, binary, "ls"); !regexp.MustCompile(name + ` +kind +2 +kube-proxy/iptables`).MatchString(out) {
		t.Errorf("ls: %s", out)
	}
	kubeconfig := strings.TrimSpace(run(t, binary, "kubeconfig", name))
	control := name + "-control-plane"
	kubectl := func(args ...string) string {
		return strings.TrimSpace(run(t, "docker", append([]string{"exec", control, "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...))
	}
	if text, err := os.ReadFile(kubeconfig); err != nil || !strings.Contains(string(text), "https://127.0.0.1:") {
		t.Errorf("kubeconfig: %v\n%s", err, text)
	}
	kubectl("create", "deployment", "web", "--image=proxylab/echo", "--replicas=2")
	kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080", "--type=NodePort")
	kubectl("rollout", "status", "deployment/web", "--timeout=120s")
	kubectl("run", "client", "--image=proxylab/client")
	kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=60s")
	ip := kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	answers := func(what string) {
		t.Helper()
		eventually(t, what, time.Minute, func() (bool, string) {
			out, err := exec.Command(binary, "exec", "--name", name, "--pod", "client", "--", "curl", "-s", "-m", "2", "http://"+ip).CombinedOutput()
			return err == nil && strings.Contains(string(out), `"pod":"web-`), string(out)
		})
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
	if after := docker(t); after != before {
		t.Errorf("docker before:\n%s\nafter:\n%s", before, after)
	}
}

// TestKindRun has the same result as a run in the netns lab.
func TestKindRun(t *testing.T) {
	image := nodeImage(t)
	before := docker(t)
	out := run(t, binary, "run", "testdata/short.yaml", "--lab", "kind", "--image", image, "--proxiers", "kube-proxy/iptables,nftables", "-o", "json", "--out", t.TempDir())
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
	if after := docker(t); after != before {
		t.Errorf("docker before:\n%s\nafter:\n%s", before, after)
	}
}

// TestKindKilled kills an "up" in the middle: "down" leaves nothing.
func TestKindKilled(t *testing.T) {
	image := nodeImage(t)
	before := docker(t)
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
	if after := docker(t); after != before {
		t.Errorf("docker before:\n%s\nafter:\n%s", before, after)
	}
	if _, err := os.Stat(filepath.Join("/var/lib/proxylab", name)); err == nil {
		t.Error("the lab's directory is left")
	}
}
