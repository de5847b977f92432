package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLsTellsARunningKernel: one whose process is at work runs; one whose process is gone, or whose number another one has, was
// left.
func TestLsTellsARunningKernel(t *testing.T) {
	needRoot(t)
	atWork := exec.CommandContext(t.Context(), "sh", "-c", "read line", "--kernel", "uml")
	wait, err := atWork.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := atWork.Start(); err != nil {
		t.Fatal(err)
	}
	line := func(pid int) string {
		t.Helper()
		name := fmt.Sprintf("uml-%d", pid)
		dir := filepath.Join("/var/lib/proxylab", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(dir)
		out, err := exec.CommandContext(t.Context(), binary, "ls").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for l := range strings.Lines(string(out)) {
			if strings.HasPrefix(l, name+" ") {
				return l
			}
		}
		t.Fatalf("%s is not listed:\n%s", name, out)
		return ""
	}
	if l := line(atWork.Process.Pid); !strings.Contains(l, "running, in a kernel of its own") {
		t.Errorf("at work: %s", l)
	}
	_ = wait.Close()
	_ = atWork.Wait() // it ends with its input
	for _, pid := range []int{atWork.Process.Pid, os.Getpid()} {
		if l := line(pid); !strings.Contains(l, "incomplete") {
			t.Errorf("left: %s", l)
		}
	}
}
