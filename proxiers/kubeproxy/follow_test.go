package kubeproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"proxylab/proxiers/runner"
)

// exposition is what a kube-proxy serves of its syncs: one family has had n, the other one.
func exposition(n int, lastOK float64) string {
	text := fmt.Sprintf("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %f\n", lastOK-60)
	text += "# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram\n"
	for family, count := range map[string]int{"IPv4": n, "IPv6": 1} {
		text += fmt.Sprintf(`kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="%[1]s",le="+Inf"} %[2]d
kubeproxy_sync_proxy_rules_duration_seconds_sum{ip_family="%[1]s"} %[3]g
kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="%[1]s"} %[2]d
`, family, count, float64(count)/10)
	}
	text += "# TYPE kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge\n# TYPE kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge\n"
	for _, family := range families {
		text += fmt.Sprintf("kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=%q} %f\n", family, lastOK)
		text += fmt.Sprintf("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family=%q} %f\n", family, lastOK-1)
	}
	return text + `# TYPE kubeproxy_sync_proxy_rules_iptables_total gauge
kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"} 40
kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="filter"} 3
kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv6",table="nat"} 7
`
}

// A kube-proxy that is another process is reported on until it ends.
func TestFollow(t *testing.T) {
	var syncs atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := int(syncs.Load()); {
		case r.URL.Path == "/proxyMode":
			_, _ = io.WriteString(w, "iptables")
		case n == 0:
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, exposition(n, float64(time.Now().UnixMilli())/1000))
		}
	}))
	defer server.Close()
	process := exec.Command("sleep", "60")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	followed := make(chan error, 1)
	go func() {
		followed <- Follow(context.WithoutCancel(t.Context()), FollowOptions{Mode: "iptables", PID: process.Process.Pid, URL: server.URL, Reports: write})
		_ = write.Close()
	}()
	syncs.Store(1)
	lines := bufio.NewScanner(read)
	first := nextReport(t, lines)
	if first.Error != "" || first.Objects["rules"] != 50 || first.Proxier != "kube-proxy/iptables" || first.Seconds < 0.1 {
		t.Errorf("first report: %+v", first)
	}
	syncs.Store(3)
	for range 2 {
		if r := nextReport(t, lines); r.Seconds < 0.099 || r.Seconds > 0.101 {
			t.Errorf("report: %+v", r)
		}
	}
	_ = process.Process.Kill()
	_ = process.Wait() // it was killed
	for lines.Scan() {
		t.Errorf("a report too many: %s", lines.Text())
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

func nextReport(t *testing.T, lines *bufio.Scanner) (r runner.Report) {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("no report: %v", lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFollowNobody(t *testing.T) {
	for _, o := range []FollowOptions{{Mode: "iptables", PID: 1 << 30}, {Mode: "userspace", PID: os.Getpid()}} {
		if err := Follow(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestCPUOfControlGroup(t *testing.T) {
	dir := t.TempDir()
	proc, mounts := filepath.Join(dir, "proc"), filepath.Join(dir, "cgroup")
	for path, text := range map[string]string{
		"proc/1/cgroup":                      "4:cpu,cpuacct:/a/b\n0::/x\n",
		"proc/2/cgroup":                      "0::/x\n",
		"proc/3/cgroup":                      "1:memory:/a\n",
		"cgroup/cpuacct/a/b/cpuacct.usage":   "1500000000\n",
		"cgroup/x/cpu.stat":                  "usage_usec 2500000\nuser_usec 1\n",
		"cgroup/cpuacct/other/cpuacct.usage": "1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pid, want := range map[int]float64{1: 1.5, 2: 2.5} {
		file, err := cpuFile(proc, mounts, pid)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readCPU(file); err != nil || got != want {
			t.Errorf("process %d: %g s, %v, want %g", pid, got, err, want)
		}
	}
	for _, pid := range []int{3, 4} {
		if file, err := cpuFile(proc, mounts, pid); err == nil {
			t.Errorf("process %d has %s", pid, file)
		}
	}
}
