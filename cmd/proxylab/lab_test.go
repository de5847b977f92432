package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"proxylab/lab/procs"
)

// needRoot skips where no lab can be made.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("labs need root")
	}
}

// run runs a command to its end and returns what it printed; it must succeed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return runWithin(t, 3*time.Minute, name, args...)
}

func runWithin(t *testing.T, limit time.Duration, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

// eventually asks again until the answer is yes; a lab is another machine, whose changes this one does not hear of.
func eventually(t *testing.T, what string, limit time.Duration, ok func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		yes, state := ok()
		if yes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s: %s", what, limit, state)
		}
	}
}

// labName is unique to a test of this process, and its lab is gone after the test.
func labName(t *testing.T) string {
	name := fmt.Sprintf("t%d-%s", os.Getpid(), strings.ToLower(strings.TrimPrefix(t.Name(), "Test")))
	t.Cleanup(func() {
		if out, err := exec.Command(binary, "down", name).CombinedOutput(); err != nil && len(traces(name)) > 0 {
			t.Errorf("down: %v: %s", err, out)
		}
		if left := traces(name); len(left) > 0 {
			t.Errorf("left on the machine: %s", strings.Join(left, ", "))
		}
	})
	return name
}

// traces are what a lab has on this machine: processes, namespaces, mounts, files, links and rules of the host.
func traces(lab string) []string {
	var found []string
	running, err := procs.Find(lab)
	if err != nil {
		found = append(found, err.Error())
	}
	for _, p := range running {
		found = append(found, fmt.Sprintf("process %s (%d)", p.Part, p.PID))
	}
	for _, pattern := range []string{"/run/netns/proxylab-" + lab + "-*", "/var/lib/proxylab/" + lab} {
		paths, _ := filepath.Glob(pattern)
		found = append(found, paths...)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		found = append(found, err.Error())
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, lab) {
			found = append(found, "mount "+line)
		}
	}
	return found
}

// host is the host's own network: no lab may change it.
func host(t *testing.T) string {
	t.Helper()
	text := ""
	for _, args := range [][]string{{"ip", "-o", "link"}, {"ip", "-o", "addr"}, {"ip", "route"}, {"ip", "-6", "route"},
		{"ip", "rule"}, {"iptables-save"}, {"iptables-legacy-save"}, {"nft", "list", "ruleset"}} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil && !bytes.Contains(out, []byte("No such file")) {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		text += string(out)
	}
	return regexp.MustCompile(`(?m)^#.*|valid_lft \d+sec.*|expires \d+sec|\[\d+:\d+\]`).ReplaceAllString(text, "")
}

// TestKubectl is the way of a trainee: a lab of three nodes, plain kubectl, a Service from a pod and from outside.
func TestKubectl(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed (apt-get install kubernetes-client)")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	before := host(t)
	name := labName(t)
	run(t, binary, "up", "--name", name, "--nodes", "3", "--proxier", "iptables")
	kubeconfig := strings.TrimSpace(run(t, binary, "kubeconfig", name))
	kubectl := func(args ...string) string {
		return strings.TrimSpace(run(t, "kubectl", append([]string{"--kubeconfig", kubeconfig}, args...)...))
	}
	kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
	kubectl("create", "deployment", "web", "--image=proxylab/echo", "--replicas=2")
	kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080", "--type=NodePort")
	kubectl("run", "client", "--image=proxylab/client")
	kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
	kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=60s")
	kubectl("scale", "deployment", "web", "--replicas=4")
	kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	eventually(t, "four addresses in the EndpointSlice", time.Minute, func() (bool, string) {
		out := kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=web",
			"-o", "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}")
		return len(strings.Fields(out)) == 4, out
	})

	ip := kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	port := kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
	places := map[string][]string{"ClusterIP from the client pod": {"--pod", "client", "--", "curl", "-s", "-m", "5", "http://" + ip}}
	for i := 1; i <= 3; i++ {
		places[fmt.Sprintf("node port of node%d from outside", i)] = []string{"--", "curl", "-s", "-m", "5", fmt.Sprintf("http://10.10.0.%d:%s", 10+i, port)}
	}
	for what, args := range places {
		eventually(t, what, 30*time.Second, func() (bool, string) {
			out, err := exec.Command(binary, append([]string{"exec", "--name", name}, args...)...).CombinedOutput()
			return err == nil && bytes.Contains(out, []byte(`"pod":"web-`)), string(out)
		})
	}
	if after := host(t); after != before {
		t.Errorf("the host's own network has changed\nbefore:\n%s\nafter:\n%s", before, after)
	}
}

// TestChainNames compares what iptables-save shows on a node of ours and on one of the real kube-proxy.
func TestChainNames(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed (apt-get install kubernetes-client)")
	}
	name := labName(t)
	run(t, binary, "up", "--name", name, "--nodes", "2", "--proxier", "iptables")
	run(t, binary, "swap", "--name", name, "--node", "node2", "none")
	run(t, binary, "swap", "--name", name, "--node", "node2", "kube-proxy/iptables")
	kubeconfig := strings.TrimSpace(run(t, binary, "kubeconfig", name))
	run(t, "kubectl", "--kubeconfig", kubeconfig, "apply", "-f", "testdata/services.yaml")
	service := regexp.MustCompile(`(?m)^:(KUBE-(?:SVC|SVL|SEP|EXT|FW)-\S+)`)
	chains := func(node, tool string) []string {
		var names []string
		for _, m := range service.FindAllStringSubmatch(run(t, binary, "exec", "--name", name, "--node", node, "--", tool, "-t", "nat"), -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return names
	}
	for _, tool := range []string{"iptables-save", "ip6tables-save"} {
		eventually(t, tool+": the same chains on both nodes", time.Minute, func() (bool, string) {
			ours, theirs := chains("node1", tool), chains("node2", tool)
			return len(theirs) > 8 && slices.Equal(ours, theirs), fmt.Sprintf("\nours   %v\ntheirs %v", ours, theirs)
		})
	}
}

// session is a run under way.
type session struct {
	cmd    *exec.Cmd
	dir    string // of the run's log
	lab    string
	stdout bytes.Buffer
	stderr *watched
}

// watched is output that can be waited for.
type watched struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	text  string
	found chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.buf.Write(p)
	select {
	case <-w.found:
	default:
		if strings.Contains(w.buf.String(), w.text) {
			close(w.found)
		}
	}
	return n, err
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// begin starts a run and returns once it has printed the text.
func begin(t *testing.T, text string) *session {
	t.Helper()
	s := &session{stderr: &watched{text: text, found: make(chan struct{})}}
	out := t.TempDir()
	s.cmd = exec.Command(binary, "run", "testdata/short.yaml", "--proxiers", "iptables", "--out", out)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.lab = fmt.Sprintf("run-%d", s.cmd.Process.Pid)
	t.Cleanup(func() { _ = exec.Command(binary, "down", s.lab).Run() })
	select {
	case <-s.stderr.found:
	case <-time.After(2 * time.Minute):
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		t.Fatalf("no %q on standard error:\n%s", text, s.stderr.String())
	}
	dirs, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("directories of runs: %v, %v", dirs, err)
	}
	s.dir = dirs[0]
	return s
}

// requests is how many requests of the load the report of the run counts.
func (s *session) requests(t *testing.T) (outcome string, requests float64) {
	t.Helper()
	out, err := exec.Command(binary, "report", s.dir, "-o", "json").Output()
	if err != nil && len(out) == 0 {
		t.Fatalf("report: %v", err)
	}
	var result struct {
		Run      struct{ Outcome string }
		Subjects []struct {
			Loads map[string]struct{ Requests float64 }
		}
	}
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("report: %v: %s", err, out)
	}
	if len(result.Subjects) != 1 {
		t.Fatalf("%d subjects: %s", len(result.Subjects), out)
	}
	return result.Run.Outcome, result.Subjects[0].Loads["web"].Requests
}

// TestInterrupt: Ctrl-C in the middle of a run ends it soon, with what was measured, and the lab is gone.
func TestInterrupt(t *testing.T) {
	needRoot(t)
	s := begin(t, "step 2 ok")
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	killed := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() })
	err := s.cmd.Wait()
	if !killed.Stop() {
		t.Fatalf("still running a minute after Ctrl-C:\n%s", s.stderr.String())
	}
	if s.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("ended with %v, want exit code 1", err)
	}
	if !strings.Contains(s.stdout.String(), "interrupted") || !strings.Contains(s.stdout.String(), "requests") {
		t.Errorf("no partial result was printed:\n%s", s.stdout.String())
	}
	if outcome, requests := s.requests(t); outcome != "interrupted" || requests == 0 {
		t.Errorf("the log says %q with %v requests", outcome, requests)
	}
	if text := s.stderr.String(); strings.Contains(text, "incomplete") {
		t.Errorf("something was measured after the log had ended:\n%s", text)
	}
	if left := traces(s.lab); len(left) > 0 {
		t.Errorf("left on the machine: %s", strings.Join(left, ", "))
	}
}

// TestKill: after kill -9 in the middle of a run, down removes all that the lab was, and the log reports what it had.
func TestKill(t *testing.T) {
	needRoot(t)
	before := host(t)
	s := begin(t, "step 2 ok")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait()
	if len(traces(s.lab)) == 0 {
		t.Fatal("nothing of the lab was there to be removed: the test shows nothing")
	}
	if ls := run(t, binary, "ls"); !strings.Contains(ls, s.lab) {
		t.Errorf("ls does not show the lab of the killed run:\n%s", ls)
	}
	run(t, binary, "down", s.lab)
	if left := traces(s.lab); len(left) > 0 {
		t.Errorf("left on the machine: %s", strings.Join(left, ", "))
	}
	if after := host(t); after != before {
		t.Errorf("the host's own network has changed\nbefore:\n%s\nafter:\n%s", before, after)
	}
	if outcome, requests := s.requests(t); outcome != "cut off" || requests == 0 {
		t.Errorf("the log says %q with %v requests", outcome, requests)
	}
}
