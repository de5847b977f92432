package netns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"proxylab/lab"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/procs"
)

func proxierPart(node string) string { return "proxier/" + node }

func (l *Lab) reports(node string) string {
	return filepath.Join(nodeDir(l.Name(), node), "reports.jsonl")
}
func (l *Lab) proxierLog(node string) string {
	return filepath.Join(nodeDir(l.Name(), node), "proxier.log")
}
func (l *Lab) proxierFile(node string) string {
	return filepath.Join(nodeDir(l.Name(), node), "proxier.json")
}

// StartProxier starts a proxier on a node and returns when it has reported a sync without error. When it ends before,
// or ctx does, the error says what it wrote last, and nothing runs.
func (l *Lab) StartProxier(ctx context.Context, node string, p lab.ProxierSpec) error {
	if _, err := l.node(node); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, filepath.Join(nodeDir(l.Name(), node), "lock"), nil)
	if err != nil {
		return err
	}
	defer unlock()
	if is, err := l.Proxier(ctx, node); err != nil {
		return err
	} else if is != nil {
		return fmt.Errorf("start proxier %s on %s: %s runs there already", p.Name, node, is.Name)
	}
	ended, offset, err := l.launchProxier(node, p)
	if err != nil {
		return fmt.Errorf("start proxier %s on %s: %w", p.Name, node, err)
	}
	if err := l.awaitSync(ctx, node, offset, ended); err != nil {
		stop := procs.Stop(context.WithoutCancel(ctx), l.Name(), proxierPart(node), time.Second)
		return errors.Join(fmt.Errorf("start proxier %s on %s: %w", p.Name, node, err), stop)
	}
	return writeJSON(l.proxierFile(node), p)
}

// launchProxier starts the process. It returns where in the file of reports its own begin.
func (l *Lab) launchProxier(node string, p lab.ProxierSpec) (ended <-chan error, offset int64, err error) {
	cmd, closeLog, err := l.command(l.proxierLog(node), l.proxierArgs(node, p)...)
	if err != nil {
		return nil, 0, err
	}
	defer closeLog()
	reports, err := os.OpenFile(l.reports(node), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = reports.Close() }()
	st, err := reports.Stat()
	if err != nil {
		return nil, 0, err
	}
	cmd.Stdout = reports
	if err := procs.Start(procs.Spec{
		Lab: l.Name(), Part: proxierPart(node), Cmd: cmd, Detached: true,
		NetNS: fabric.NodePath(l.Name(), node), MountNS: fabric.MountPath(mountDir(l.Name()), node),
	}); err != nil {
		return nil, 0, err
	}
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }() // ends with the child
	return end, st.Size(), nil
}

func (l *Lab) proxierArgs(node string, p lab.ProxierSpec) []string {
	args := []string{"proxier", p.Name, "--node", node, "--kubeconfig", l.kubeconfig("proxier")}
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

// cleanupArgs are for a run that removes what the proxier left.
func (l *Lab) cleanupArgs(node string, p lab.ProxierSpec) []string {
	args := append(l.proxierArgs(node, p), "--cleanup")
	if p.TakenOverBy != "" {
		args = append(args, "--taken-over-by", p.TakenOverBy)
	}
	return args
}

// awaitSync reads reports from offset on until one is without error.
func (l *Lab) awaitSync(ctx context.Context, node string, offset int64, ended <-chan error) error {
	f, err := os.Open(l.reports(node))
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
			return fmt.Errorf("it ended before its first sync (%v), its log says:\n%s", end, tail(l.proxierLog(node))) //nolint:errorlint // may be nil
		case <-ctx.Done():
			if last != "" {
				return fmt.Errorf("no sync succeeded (%w), the last error was: %s", context.Cause(ctx), last)
			}
			return fmt.Errorf("no sync yet (%w), its log says:\n%s", context.Cause(ctx), tail(l.proxierLog(node)))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// StopProxier ends what runs on a node. Its rules stay.
func (l *Lab) StopProxier(ctx context.Context, node string) error {
	if _, err := l.node(node); err != nil {
		return err
	}
	if err := procs.Stop(ctx, l.Name(), proxierPart(node), 5*time.Second); err != nil {
		return fmt.Errorf("stop the proxier of %s: %w", node, err)
	}
	if err := os.Remove(l.proxierFile(node)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// CleanupProxier removes what a proxier left in a node, by running it with --cleanup there.
func (l *Lab) CleanupProxier(ctx context.Context, node string, p lab.ProxierSpec) (leftovers []string, err error) {
	var out, stderr bytes.Buffer
	proc, err := l.Exec(ctx, lab.Place{Node: node}, lab.Command{
		Args:   append([]string{self}, l.cleanupArgs(node, p)...),
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

// Proxier says what runs on a node now, from the process itself; nil: nothing.
func (l *Lab) Proxier(_ context.Context, node string) (*lab.ProxierState, error) {
	if _, err := l.node(node); err != nil {
		return nil, err
	}
	p, err := procs.Root(l.Name(), proxierPart(node))
	if err != nil || p == nil {
		return nil, err
	}
	spec, ok := specOf(p.PID)
	if !ok {
		return nil, nil // it has just ended
	}
	started, err := startTime(p.PID)
	if err != nil {
		return nil, nil //nolint:nilerr // the same
	}
	return &lab.ProxierState{
		ProxierSpec: spec, PID: p.PID, Started: started, Reports: l.reports(node), Log: l.proxierLog(node),
	}, nil
}

// specOf reads back what proxierArgs made.
func specOf(pid int) (lab.ProxierSpec, bool) {
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

// startTime is when a process was started, to the hundredth of a second that the kernel keeps.
func startTime(pid int) (time.Time, error) {
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

// lastProxier is what StartProxier started last, unless it was stopped since; nil: nothing.
func (l *Lab) lastProxier(node string) (*lab.ProxierSpec, error) {
	b, err := os.ReadFile(l.proxierFile(node))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var spec lab.ProxierSpec
	if err := json.Unmarshal(b, &spec); err != nil {
		return nil, fmt.Errorf("%s: %w", l.proxierFile(node), err)
	}
	return &spec, nil
}
