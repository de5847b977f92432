// Package procs starts the processes of a lab and finds them again.
//
// A lab's process carries the lab's name and its own part in its environment, and so do all its children. That is
// the whole book-keeping: there is no pid file that can be stale or missing, whoever was killed and when.
package procs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"proxylab/lab/netns/ns"
)

const (
	labVar  = "PROXYLAB_LAB"
	partVar = "PROXYLAB_PART"
)

// Spec is a process to start.
type Spec struct {
	Lab  string // name of the lab that owns it
	Part string // what it is in that lab: "kube-apiserver", "proxier/node1", ...
	Cmd  *exec.Cmd
	// NetNS and MountNS are files of namespaces to start in; empty: this process's own.
	NetNS, MountNS string
	PIDNS          string // the same of the process numbers; with MountNS, whose /proc belongs to it
	// Detached: it outlives this process and does not get the terminal's signals.
	Detached bool
	// Bound: the kernel kills it when this process ends, however this process ends.
	Bound bool
}

// Mark is the environment by which a lab's process is found, for those that another program starts.
func Mark(lab, part string) []string { return []string{labVar + "=" + lab, partVar + "=" + part} }

// Start starts the command inside its namespaces. The caller waits for it.
func Start(s Spec) error {
	if s.Cmd.Env == nil {
		s.Cmd.Env = os.Environ()
	}
	s.Cmd.Env = append(s.Cmd.Env, Mark(s.Lab, s.Part)...)
	if s.Cmd.SysProcAttr == nil {
		s.Cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if s.Detached {
		s.Cmd.SysProcAttr.Setsid = true
	} else {
		s.Cmd.SysProcAttr.Setpgid = true
	}
	start := func() error {
		// A child inherits the namespaces of the thread that forks it.
		return ns.Throwaway(func() error { return startHere(s) })
	}
	if s.Bound {
		start = func() error { return startBound(s) }
	}
	if err := start(); err != nil {
		return fmt.Errorf("start %s of lab %s: %w", s.Part, s.Lab, err)
	}
	return nil
}

// startBound starts it from a thread that lives for as long as the child does: the kernel's "signal when the parent
// dies" means the thread that forked.
func startBound(s Spec) error {
	s.Cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		_ = ns.Throwaway(func() error {
			err := startHere(s)
			started <- err
			if err != nil {
				return err
			}
			// Whoever called Start takes the status; here it is only looked at. ECHILD: it is taken already.
			for errors.Is(unix.Waitid(unix.P_PID, s.Cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
				continue
			}
			return nil
		})
	}()
	return <-started
}

func startHere(s Spec) error {
	if s.NetNS != "" {
		h, err := netns.GetFromPath(s.NetNS)
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", s.NetNS, err)
		}
		defer h.Close()
		if err := netns.Set(h); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", s.NetNS, err)
		}
	}
	if s.PIDNS != "" { // of the children: this thread stays where it is
		if err := enter(s.PIDNS, unix.CLONE_NEWPID); err != nil {
			return fmt.Errorf("process namespace: %w", err)
		}
	}
	if s.MountNS != "" {
		f, err := os.Open(s.MountNS)
		if err != nil {
			return fmt.Errorf("mount namespace: %w", err)
		}
		defer f.Close()
		// A thread that shares its working directory with others may not change its mount namespace.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("unshare working directory: %w", err)
		}
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("enter mount namespace %s: %w", s.MountNS, err)
		}
	}
	return s.Cmd.Start()
}

func enter(path string, kind int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), kind); err != nil {
		return fmt.Errorf("enter %s: %w", path, err)
	}
	return nil
}

// Proc is a running process of a lab.
type Proc struct {
	PID   int
	PPID  int
	Group int // process group
	Lab   string
	Part  string
}

// Ended is the end of a command that was started.
func Ended(cmd *exec.Cmd) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the child
	return ended
}

// Find lists the running processes of a lab, of every lab when lab is empty. A process whose parent has the same part
// (an iptables-restore below a proxier) is listed too: Root tells them apart.
func Find(lab string) ([]Proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []Proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := read(pid); ok && (lab == "" || p.Lab == lab) {
			found = append(found, p)
		}
	}
	return found, nil
}

// Root returns the topmost process with this part, nil where there is none. It leads a process group, as all do that Start starts:
// what it has just forked looks like it until its exec, and when its parent is killed then, it is topmost, too.
func Root(lab, part string) (*Proc, error) {
	all, err := Find(lab)
	if err != nil {
		return nil, err
	}
	parts := map[int]string{}
	for _, p := range all {
		parts[p.PID] = p.Part
	}
	for _, p := range all {
		if p.Part == part && parts[p.PPID] != part && p.Group == p.PID {
			return &p, nil
		}
	}
	return nil, nil
}

func read(pid int) (Proc, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	env, err := os.ReadFile(filepath.Join(dir, "environ"))
	// In the middle of an exec a process has no environment for a moment.
	for try := 0; err == nil && len(env) == 0 && try < 3 && inUserSpace(dir); try++ {
		time.Sleep(200 * time.Microsecond)
		env, err = os.ReadFile(filepath.Join(dir, "environ"))
	}
	if err != nil || len(env) == 0 {
		return Proc{}, false
	}
	p := Proc{PID: pid}
	for _, kv := range bytes.Split(env, []byte{0}) {
		name, value, _ := strings.Cut(string(kv), "=")
		switch name { // the last one counts, as in execve's reader
		case labVar:
			p.Lab = value
		case partVar:
			p.Part = value
		}
	}
	if p.Lab == "" {
		return Proc{}, false
	}
	fields := stat(dir)
	if len(fields) < 3 || fields[0] == "Z" {
		return Proc{}, false
	}
	p.PPID, _ = strconv.Atoi(fields[1])
	p.Group, _ = strconv.Atoi(fields[2])
	return p, true
}

// stat returns the fields of a process's stat file from the third on: state, parent...
func stat(dir string) []string {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil
	}
	// The name in parentheses may hold anything: fields count from behind the last one.
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// inUserSpace says that it is neither a thread of the kernel nor a zombie.
func inUserSpace(dir string) bool {
	const kernelThread = 0x200000 // PF_KTHREAD
	fields := stat(dir)
	if len(fields) < 7 || fields[0] == "Z" {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err == nil && flags&kernelThread == 0
}

// Stop ends all processes of a lab that are this part or below it ("proxier" has "proxier/node1" below it; "" has all):
// politely first, for as long as grace, then at once. The polite signal goes to the topmost ones, who end their own
// children in good order. It returns when all are gone.
func Stop(ctx context.Context, lab, part string, grace time.Duration) error {
	if lab == "" {
		return errors.New("procs: Stop needs the name of a lab")
	}
	return errors.Join(
		signalUntilGone(ctx, lab, part, unix.SIGTERM, grace),
		signalUntilGone(ctx, lab, part, unix.SIGKILL, 10*time.Second))
}

func below(part, ancestor string) bool {
	return ancestor == "" || part == ancestor || strings.HasPrefix(part, ancestor+"/")
}

func signalUntilGone(ctx context.Context, lab, part string, sig unix.Signal, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	told := map[int]bool{}
	for {
		all, err := Find(lab)
		if err != nil {
			return err
		}
		parts := map[int]string{}
		for _, p := range all {
			parts[p.PID] = p.Part
		}
		var left []string
		var pids []int
		for _, p := range all {
			if !below(p.Part, part) {
				continue
			}
			left, pids = append(left, fmt.Sprintf("%s (pid %d)", p.Part, p.PID)), append(pids, p.PID)
			if !told[p.PID] && (sig == unix.SIGKILL || parts[p.PPID] != p.Part) {
				told[p.PID] = true
				_ = unix.Kill(p.PID, sig) // gone already is fine
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			if sig == unix.SIGKILL {
				return fmt.Errorf("still running after SIGKILL: %s", strings.Join(left, ", "))
			}
			return nil
		}
		if err := awaitEnd(ctx, pids, deadline); err != nil {
			return err
		}
	}
}

// awaitEnd returns when one of the processes has ended, or at the deadline. To look at those alone costs little; to look for all of a
// lab's costs a look at every process of the machine.
func awaitEnd(ctx context.Context, pids []int, deadline time.Time) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		for _, pid := range pids {
			fields := stat(filepath.Join("/proc", strconv.Itoa(pid)))
			if len(fields) == 0 || fields[0] == "Z" || fields[0] == "X" {
				return nil
			}
		}
	}
	return nil
}
