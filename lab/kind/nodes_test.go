package kind

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Workers come first, in the order in which kind numbers them, and what balances the load before several control planes is no
// node.
func TestReadNodes(t *testing.T) {
	var all []string
	for i, n := range []struct{ name, role string }{
		{"c-control-plane", "control-plane"}, {"c-worker10", "worker"}, {"c-worker", "worker"}, {"c-worker2", "worker"},
		{"c-external-load-balancer", "external-load-balancer"}, {"c-control-plane2", "control-plane"},
	} {
		all = append(all, fmt.Sprintf(`{"Id": "id%d", "Name": "/%s", "State": {"Pid": %d}, "Config": {"Image": "img", "Labels": {"io.x-k8s.kind.role": "%s"}},
"NetworkSettings": {"Networks": {"kind": {"IPAddress": "172.18.0.%d", "GlobalIPv6Address": "fc00::%d"}}}}`, i, n.name, 100+i, n.role, i, i))
	}
	nodes, err := readNodes([]byte("[" + strings.Join(all, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	if got, want := strings.Join(names, " "), "c-worker c-worker2 c-worker10 c-control-plane c-control-plane2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := nodes[0]; n.PID != 102 || n.Image != "img" || n.ID != "id2" || fmt.Sprint(n.Addresses) != "[172.18.0.2 fc00::2]" || n.root("/etc") != "/proc/102/root/etc" {
		t.Errorf("%+v", n)
	}
	if _, err := readNodes([]byte("no JSON")); err == nil {
		t.Error("no error of what is no JSON")
	}
}

func TestProcessOfPod(t *testing.T) {
	proc := t.TempDir()
	for pid, groups := range map[string]string{
		"7":    "0::/system.slice",
		"12":   "5:memory:/docker/abc/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1a2b_33.slice/cri-containerd-9.scope",
		"13":   "0::/docker/abc/kubepods/besteffort/pod77-88/9",
		"self": "0::/pod77-88",
	} {
		write(t, filepath.Join(proc, pid, "cgroup"), groups+"\n")
	}
	for uid, want := range map[string]int{"1a2b-33": 12, "77-88": 13} {
		if got, err := inCgroupOfPod(proc, uid); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", uid, got, err, want)
		}
	}
	if _, err := inCgroupOfPod(proc, "99"); err == nil {
		t.Error("a pod that does not run was found")
	}
}
