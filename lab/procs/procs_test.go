package procs_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"proxylab/lab/procs"
)

// start runs a shell that says "up" once its traps are set.
func start(t *testing.T, lab, part, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := procs.Start(procs.Spec{Lab: lab, Part: part, Cmd: cmd}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func parts(t *testing.T, lab string) (all []string) {
	t.Helper()
	found, err := procs.Find(lab)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		if !slices.Contains(all, p.Part) {
			all = append(all, p.Part)
		}
	}
	slices.Sort(all)
	return all
}

func TestStop(t *testing.T) {
	lab := fmt.Sprintf("procs-test-%d", os.Getpid())
	const idle = `echo up; while :; do sleep 1; done`
	start(t, lab, "proxier/node1", idle)
	start(t, lab, "proxier/node10", idle)
	start(t, lab, "stubborn", `trap "" TERM; `+idle)
	start(t, lab+"x", "proxier/node1", idle)
	ctx := context.Background()

	root, err := procs.Root(lab, "proxier/node1")
	if err != nil || root == nil {
		t.Fatalf("root %v, %v", root, err)
	}
	for _, step := range []struct {
		part  string
		grace time.Duration
		left  []string
	}{
		{"proxier/node", time.Second, []string{"proxier/node1", "proxier/node10", "stubborn"}},
		{"proxier/node1", time.Minute, []string{"proxier/node10", "stubborn"}},
		{"proxier", time.Minute, []string{"stubborn"}},
		{"", 20 * time.Millisecond, nil},
		{"", 20 * time.Millisecond, nil},
	} {
		if err := procs.Stop(ctx, lab, step.part, step.grace); err != nil {
			t.Fatal(err)
		}
		if left := parts(t, lab); !slices.Equal(left, step.left) {
			t.Fatalf("after Stop(%q): %q, want %q", step.part, left, step.left)
		}
	}
	if left := parts(t, lab+"x"); len(left) != 1 {
		t.Errorf("the other lab has %q", left)
	}
	if err := procs.Stop(ctx, lab+"x", "", time.Second); err != nil {
		t.Error(err)
	}
	if err := procs.Stop(ctx, "", "", 0); err == nil {
		t.Error("stopped every lab's processes")
	}
}

// A tool that a process runs must not be cut off while the process ends in good order.
func TestStopTellsTheTopmostAlone(t *testing.T) {
	lab := fmt.Sprintf("procs-polite-%d", os.Getpid())
	file := t.TempDir() + "/done"
	start(t, lab, "parent", fmt.Sprintf(`trap 'wait $tool; exit' TERM; (sleep 0.3; echo done > %s) & tool=$!; echo up; wait`, file))
	if err := procs.Stop(context.Background(), lab, "parent", time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error("the child was ended, too:", err)
	}
}

// What a process has just forked bears its name until its exec: when the process is killed then, nothing of that name runs any more.
func TestRootIsNoOrphan(t *testing.T) {
	lab := fmt.Sprintf("procs-orphan-%d", os.Getpid())
	parent := start(t, lab, "proxier/node1", `sleep 60 & echo up; wait`)
	defer func() {
		if err := procs.Stop(context.Background(), lab, "", 0); err != nil {
			t.Error(err)
		}
	}()
	if p, err := procs.Root(lab, "proxier/node1"); err != nil || p == nil || p.PID != parent.Process.Pid {
		t.Fatalf("root %v, %v, want process %d", p, err, parent.Process.Pid)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		all, err := procs.Find(lab)
		if err != nil || len(all) == 0 || time.Now().After(end) {
			t.Fatalf("%v, %v, want the child alone", all, err)
		}
		if len(all) == 1 && all[0].PID != parent.Process.Pid {
			break
		}
	}
	if p, err := procs.Root(lab, "proxier/node1"); err != nil || p != nil {
		t.Errorf("root %v, %v, want none: it was killed", p, err)
	}
}
