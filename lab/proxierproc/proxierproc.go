// Package proxierproc is what labs of every kind do alike with the process that is a node's proxier: its command line, and
// waiting for its first sync.
package proxierproc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"proxylab/lab"
)

// Args is the command line that runs a proxier on a node, without the program's name.
func Args(node, kubeconfig string, p lab.ProxierSpec) []string {
	args := []string{"proxier", p.Name, "--node", node, "--kubeconfig", kubeconfig}
	if p.MinSyncPeriod > 0 {
		args = append(args, "--min-sync-period", p.MinSyncPeriod.String())
	}
	if p.SyncPeriod > 0 {
		args = append(args, "--sync-period", p.SyncPeriod.String())
	}
	if p.Backend != "" {
		args = append(args, "--iptables", p.Backend)
	}
	if p.Scheduler != "" {
		args = append(args, "--ipvs-scheduler", p.Scheduler)
	}
	if p.Fallback != "" {
		args = append(args, "--fallback", p.Fallback)
	}
	return args
}

// CleanupArgs are for a run that removes what the proxier left.
func CleanupArgs(node, kubeconfig string, p lab.ProxierSpec) []string {
	args := append(Args(node, kubeconfig, p), "--cleanup")
	if p.TakenOverBy != "" {
		args = append(args, "--taken-over-by", p.TakenOverBy)
	}
	return args
}

// Cleanup removes what a proxier left in a node of a lab, by running it with --cleanup there. kubeconfig is as the node
// calls it. It returns what is still there.
func Cleanup(ctx context.Context, l lab.Lab, node, kubeconfig string, p lab.ProxierSpec) (leftovers []string, err error) {
	var out, stderr bytes.Buffer
	proc, err := l.Exec(ctx, lab.Place{Node: node}, lab.Command{
		Args:   append([]string{"proxylab"}, CleanupArgs(node, kubeconfig, p)...),
		Stdout: &out, Stderr: &stderr,
	})
	if err == nil {
		err = proc.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("clean up after %s on %s: %w: %s", p.Name, node, err, stderr.String())
	}
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSpace(line); line != "" {
			leftovers = append(leftovers, line)
		}
	}
	return leftovers, nil
}

// SpecOf reads back, from a process, what Args made.
func SpecOf(pid int) (lab.ProxierSpec, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(string(b), "\x00")
	if err != nil || len(args) < 3 || args[1] != "proxier" {
		return lab.ProxierSpec{}, false
	}
	spec := lab.ProxierSpec{Name: args[2]}
	for i := 3; i+1 < len(args); i += 2 {
		switch args[i] {
		case "--min-sync-period":
			spec.MinSyncPeriod, _ = time.ParseDuration(args[i+1]) // we wrote it
		case "--sync-period":
			spec.SyncPeriod, _ = time.ParseDuration(args[i+1])
		case "--iptables":
			spec.Backend = args[i+1]
		case "--ipvs-scheduler":
			spec.Scheduler = args[i+1]
		case "--fallback":
			spec.Fallback = args[i+1]
		}
	}
	return spec, true
}

// StartTime is when a process was started, to the hundredth of a second that the kernel keeps.
func StartTime(pid int) (time.Time, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, err
	}
	up, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, err
	}
	const ticksPerSecond = 100 // USER_HZ, the same on all Linux machines that Go runs on
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return time.Time{}, fmt.Errorf("stat of process %d has %d fields", pid, len(fields))
	}
	ticks, err := strconv.ParseFloat(fields[19], 64)
	if err != nil {
		return time.Time{}, err
	}
	first, _, _ := strings.Cut(string(up), " ")
	uptime, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(-time.Duration((uptime - ticks/ticksPerSecond) * float64(time.Second))), nil
}

// AwaitSync reads a file of reports from offset on until one is without error. When the process ends before, which ended
// says, or ctx does, the error tells what the process wrote last: log has the end of that.
func AwaitSync(ctx context.Context, reports string, offset int64, ended <-chan error, log func() string) error {
	f, err := os.Open(reports)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(offset, 0); err != nil {
		return err
	}
	var pending []byte
	buf, last := make([]byte, 64<<10), ""
	for {
		n, _ := f.Read(buf) // at the end of the file: nothing yet
		pending = append(pending, buf[:n]...)
		for line, rest, ok := bytes.Cut(pending, []byte("\n")); ok; line, rest, ok = bytes.Cut(pending, []byte("\n")) {
			pending = rest
			var report struct{ Error string }
			if err := json.Unmarshal(line, &report); err != nil {
				return fmt.Errorf("it wrote what is no report: %q: %w", line, err)
			}
			if report.Error == "" {
				return nil
			}
			last = report.Error
		}
		select {
		case end := <-ended:
			return fmt.Errorf("it ended before its first sync (%v), its log says:\n%s", end, log()) //nolint:errorlint // may be nil
		case <-ctx.Done():
			if last != "" {
				return fmt.Errorf("no sync succeeded (%w), the last error was: %s", context.Cause(ctx), last)
			}
			return fmt.Errorf("no sync yet (%w), its log says:\n%s", context.Cause(ctx), log())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Tail is the end of a log, for an error message.
func Tail(path string) string {
	const most = 2000
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(b)
}
