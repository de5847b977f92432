package main_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"proxylab/lab/procs"
)

const balanced = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: echo, image: proxylab/echo}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}]
`

// A lab as somebody uses it: kubectl shows the VIP of a Service, curl gets an answer there, and the OpenStack client sees the
// balancer, by what up has printed.
func TestBalancedLab(t *testing.T) {
	needRoot(t)
	name := labName(t)
	testBalanced(t, name, func() string { return "10.10.1.0/24" }, "--nodes", "2")
	if left := traces(name); len(left) > 0 {
		t.Errorf("left on the machine: %s", strings.Join(left, ", "))
	}
}

// TestKindBalanced is the same on kind, with two instances.
func TestKindBalanced(t *testing.T) {
	image := nodeImage(t)
	defer unchangedDocker(t)()
	subnet := func() string {
		all := strings.Fields(run(t, "docker", "network", "inspect", "kind", "--format", "{{range .IPAM.Config}}{{.Subnet}} {{end}}"))
		slices.SortFunc(all, func(a, b string) int { return strings.Count(a, ":") - strings.Count(b, ":") }) // IPv4 first
		return all[0]
	}
	testBalanced(t, labName(t), subnet, "--lab", "kind", "--image", image, "--proxier", "kube-proxy/nftables", "--lb-standby")
}

// testBalanced makes a lab, whose VIPs are in the network that vips says once it is there.
func testBalanced(t *testing.T, name string, vips func() string, upArgs ...string) {
	for _, tool := range []string{"kubectl", "curl", "openstack"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	said := runWithin(t, 6*time.Minute, binary, append([]string{"up", "--name", name}, upArgs...)...)
	kubeconfig := strings.TrimSpace(run(t, binary, "kubeconfig", name))
	_, rc, _ := strings.Cut(said, "  . ")
	rc, _, found := strings.Cut(rc, ";")
	if !found {
		t.Fatalf("up says nothing of the OpenStack client:\n%s", said)
	}
	if listed := run(t, binary, "ls"); !strings.Contains(listed, "load balancers of "+name+": http://127.0.0.1:") {
		t.Errorf("ls says nothing of the LBaaS:\n%s", listed)
	}
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(balanced), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "kubectl", "--kubeconfig", kubeconfig, "apply", "-f", file)
	var vip string
	within, err := netip.ParsePrefix(vips())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "VIP in kubectl get svc", 2*time.Minute, func() (bool, string) {
		fields := strings.Fields(run(t, "kubectl", "--kubeconfig", kubeconfig, "get", "svc", "web", "--no-headers"))
		if len(fields) < 4 {
			return false, strings.Join(fields, " ")
		}
		vip = fields[3]
		address, err := netip.ParseAddr(vip)
		return err == nil && within.Contains(address), vip
	})
	outside := []string{binary, "exec", "--name", name, "--", "curl", "-sS", "-m", "3", "http://" + vip + "/"}
	answered(t, "answer through the VIP", outside...)
	list := run(t, "sh", "-c", ". "+rc+"; openstack loadbalancer list -f value -c name -c vip_address -c provisioning_status")
	if want := "_default_web " + vip + " ACTIVE"; !strings.Contains(list, want) {
		t.Errorf("the OpenStack client sees %q, want %q", list, want)
	}
	if slices.Contains(upArgs, "kind") { // whose network this machine is in
		answered(t, "answer to this machine", "curl", "-sS", "-m", "3", "http://"+vip+"/")
	}
	if slices.Contains(upArgs, "--lb-standby") {
		p, err := procs.Root(name, "lbaas-instance/lb1")
		if err != nil || p == nil {
			t.Fatalf("first instance: %+v, %v", p, err)
		}
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		answered(t, "answer of the other instance", outside...)
	}
	run(t, binary, "down", name)
}
