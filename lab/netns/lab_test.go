package netns_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"proxylab/lab"
	"proxylab/lab/netns"
	"proxylab/lab/procs"
)

func needsLab(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a netns lab needs root")
	}
	if testing.Short() {
		t.Skip("brings up a whole lab")
	}
}

// up brings up a lab that ends with the test, with a client of its API.
func up(t testing.TB, o netns.Options) (*netns.Lab, kubernetes.Interface) {
	t.Helper()
	needsLab(t)
	o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	l, err := netns.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := l.Up(ctx); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l, client
}

func name(what string) string { return fmt.Sprintf("%s%d", what, os.Getpid()) }

// await looks until check is content.
func await(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// sh runs a shell script at a place and returns what it prints.
func sh(t testing.TB, l *netns.Lab, where lab.Place, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out, stderr bytes.Buffer
	p, err := l.Exec(ctx, where, lab.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, stderr.String())
	}
	return strings.TrimSpace(out.String())
}

func TestLab(t *testing.T) {
	spec := lab.ProxierSpec{Name: "works", Backend: "nft", MinSyncPeriod: time.Second, SyncPeriod: 30 * time.Second}
	l, client := up(t, netns.Options{Name: name("lab"), Proxier: &spec})
	t.Run("nodes", func(t *testing.T) { testNodes(t, l, client) })
	t.Run("places", func(t *testing.T) { testPlaces(t, l) })
	t.Run("process", func(t *testing.T) { testProcess(t, l) })
	t.Run("pods", func(t *testing.T) { testPods(t, l, client) })
	t.Run("pods that cannot run", func(t *testing.T) { testRefused(t, client) })
	t.Run("termination", func(t *testing.T) { testTermination(t, l, client) })
	t.Run("proxiers", func(t *testing.T) { testProxiers(t, l, spec) })
	t.Run("listed", func(t *testing.T) { testListed(t, l) })
	t.Run("200 pods", func(t *testing.T) { testManyPods(t, client) })
	t.Run("completed", func(t *testing.T) { testCompleted(t, l, client) })
}

func testNodes(t *testing.T, l *netns.Lab, client kubernetes.Interface) {
	nodes, err := l.Nodes(context.Background())
	if err != nil || len(nodes) != netns.DefaultNodes {
		t.Fatalf("nodes %v, %v", nodes, err)
	}
	for _, n := range nodes {
		node, err := client.CoreV1().Nodes().Get(context.Background(), n.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(node.Spec.PodCIDRs) != 2 || len(node.Spec.Taints) != 0 || node.Labels["topology.kubernetes.io/zone"] == "" {
			t.Errorf("%s: spec %+v, labels %v", n.Name, node.Spec, node.Labels)
		}
		for i, a := range n.Addresses {
			if node.Status.Addresses[i].Address != a.String() {
				t.Errorf("%s: address %s is not %s", n.Name, node.Status.Addresses[i].Address, a)
			}
		}
	}
}

func testPlaces(t *testing.T, l *netns.Lab) {
	node := lab.Place{Node: "node1"}
	sh(t, l, node, "echo mine > /run/lock/xtables.lock; mkdir -p /run/netns")
	if got := sh(t, l, node, "cat /run/lock/xtables.lock; ls /sys/class/net"); !strings.HasPrefix(got, "mine\neth0\nlo") {
		t.Errorf("node1 sees %q", got)
	}
	if got := sh(t, l, lab.Place{Node: "node2"}, "ls /run/lock"); got != "" {
		t.Errorf("node2 sees node1's /run/lock: %s", got)
	}
	if b, err := os.ReadFile("/run/lock/xtables.lock"); err == nil && string(b) == "mine\n" {
		t.Error("the host sees node1's /run")
	}
	if got := sh(t, l, node, "grep nsfs /proc/self/mountinfo || true"); got != "" {
		t.Errorf("node1 keeps namespaces alive: %s", got)
	}
	if got := sh(t, l, node, "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding"); got != "1\n1" {
		t.Errorf("forwarding on a node: %q", got)
	}
	if got := sh(t, l, lab.Place{}, "cat /proc/net/dev"); !strings.Contains(got, "br0:") {
		t.Errorf("the outside client does not live in the fabric: %s", got)
	}
	for _, where := range []lab.Place{{Node: "node9"}, {Pod: "nope"}, {Node: "node1", Pod: "x"}} {
		if _, err := l.Exec(context.Background(), where, lab.Command{Args: []string{"true"}}); err == nil {
			t.Errorf("ran at %+v", where)
		}
	}
	if _, err := l.Exec(context.Background(), node, lab.Command{}); err == nil {
		t.Error("ran no command")
	}
	if _, err := l.Exec(context.Background(), node, lab.Command{Args: []string{"no-such-program"}}); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("no such program: %v", err)
	}
}

func testProcess(t *testing.T, l *netns.Lab) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run := func(c lab.Command) lab.Process {
		p, err := l.Exec(ctx, lab.Place{Node: "node1"}, c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var out bytes.Buffer
	if err := run(lab.Command{Args: []string{"cat"}, Stdin: strings.NewReader("through"), Stdout: &out}).Wait(); err != nil || out.String() != "through" {
		t.Errorf("cat: %q, %v", out.String(), err)
	}
	out.Reset()
	if err := run(lab.Command{Args: []string{"sh", "-c", "echo $A; exit 3"}, Env: []string{"A=b"}, Stdout: &out}).Wait(); err == nil || out.String() != "b\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	silent, quiet := io.Pipe()
	defer func() { _ = quiet.Close() }()
	if err := run(lab.Command{Args: []string{"true"}, Stdin: silent}).Wait(); err != nil {
		t.Errorf("a process that does not read: %v", err)
	}
	ready, says := io.Pipe()
	p := run(lab.Command{Args: []string{"sh", "-c", "trap 'exit 7' INT; echo up; while :; do sleep 0.1; done"}, Stdout: says})
	_, _ = io.ReadFull(ready, make([]byte, 3))
	if err := p.Interrupt(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("interrupted: %v", err)
	}
	if err := p.Kill(); err == nil {
		t.Error("killed what has ended")
	}
	p = run(lab.Command{Args: []string{"sh", "-c", "sleep 1000 & sleep 1000"}})
	cancel()
	if err := p.Wait(); err == nil {
		t.Error("it ended well, though its context ended")
	}
	await(t, "its child is gone too", func() error { // killed with it, but nobody waits for it
		left, err := procs.Root(l.Name(), "exec/node/node1")
		if err == nil && left != nil {
			err = fmt.Errorf("%+v", left)
		}
		return err
	})
}

func testProxiers(t *testing.T, l *netns.Lab, spec lab.ProxierSpec) {
	ctx := context.Background()
	is, err := l.Proxier(ctx, "node1")
	if err != nil || is == nil || is.ProxierSpec != spec || time.Since(is.Started) > time.Hour {
		t.Fatalf("on node1 runs %+v, %v", is, err)
	}
	if got, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", is.PID)); err != nil || got != sh(t, l, lab.Place{Node: "node1"}, "readlink /proc/self/ns/net") {
		t.Errorf("the proxier runs in network %s, %v", got, err)
	}
	if err := l.StartProxier(ctx, "node1", spec); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("started a second one: %v", err)
	}
	for range 2 {
		if err := l.StopProxier(ctx, "node1"); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := l.Proxier(ctx, "node1"); err != nil || is != nil {
		t.Errorf("after the stop runs %+v, %v", is, err)
	}
	if left, err := l.CleanupProxier(ctx, "node1", spec); err != nil || len(left) != 1 || left[0] != "chain KUBE-LEFT-OVER" {
		t.Errorf("left over: %q, %v", left, err)
	}
	if err := l.StartProxier(ctx, "node1", lab.ProxierSpec{Name: "dies"}); err == nil || !strings.Contains(err.Error(), "the kernel lacks what it needs") {
		t.Errorf("one that dies: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := l.StartProxier(short, "node1", lab.ProxierSpec{Name: "fails"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that fails: %v", err)
	}
	if is, err := l.Proxier(ctx, "node1"); err != nil || is != nil {
		t.Errorf("after the failure runs %+v, %v", is, err)
	}
	if err := l.StartProxier(ctx, "node1", lab.ProxierSpec{Name: "recovers"}); err != nil {
		t.Error(err)
	}
	if err := l.StartProxier(ctx, "node9", spec); err == nil {
		t.Error("started on a node that is not there")
	}
}

func testListed(t *testing.T, l *netns.Lab) {
	labs, err := netns.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range labs {
		if info.Name != l.Name() {
			continue
		}
		if !info.Complete || info.Nodes != 2 || info.Proxiers["node2"] != "works" || time.Since(info.Created) > time.Hour {
			t.Errorf("listed as %+v", info)
		}
		again, err := netns.Open(l.Name())
		if err != nil || again.Kubeconfig() != l.Kubeconfig() {
			t.Errorf("opened %+v, %v", again, err)
		}
		return
	}
	t.Errorf("not listed: %+v", labs)
}

// testCompleted kills what a lab has, piece by piece, and has Up bring it back.
func testCompleted(t *testing.T, l *netns.Lab, client kubernetes.Interface) {
	for _, part := range []string{"agent", "proxier/node2", "kube-scheduler"} {
		p, err := procs.Root(l.Name(), part)
		if err != nil || p == nil {
			t.Fatalf("%s: %+v, %v", part, p, err)
		}
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{"node1": "recovers", "node2": "works"} {
		if is, err := l.Proxier(t.Context(), node); err != nil || is == nil || is.Name != want {
			t.Errorf("on %s runs %+v, %v", node, is, err)
		}
	}
	createPod(t, client, "after", "proxylab/echo")
	other, err := netns.New(netns.Options{Name: l.Name(), Nodes: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "2 nodes") {
		t.Errorf("became another lab: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []netns.Options{
		{}, {Name: "UPPER"}, {Name: "-x"}, {Name: "x-"}, {Name: "a/b"}, {Name: "a-pod-b"}, {Name: "pod"}, {Name: strings.Repeat("x", 41)},
		{Name: "x", Nodes: -1}, {Name: "x", Nodes: 201},
	} {
		if _, err := netns.New(o); err == nil {
			t.Errorf("took %+v", o)
		}
	}
	_, err := netns.New(netns.Options{Name: "A", Nodes: -1})
	if err == nil || !strings.Contains(err.Error(), "A") || !strings.Contains(err.Error(), "-1") {
		t.Errorf("not all mistakes at once: %v", err)
	}
	if _, err := netns.Open(name("never-made")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened what is not there: %v", err)
	}
}
