package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"proxylab/lab/kernel"
)

// conformanceDocument is what -o json prints, as somebody who parses it sees it.
type conformanceDocument struct {
	Environment struct {
		Lab    string
		Kernel struct{ Kind, Release string }
	}
	Interrupted bool
	Rows        []struct {
		Area, Behaviour, Proxier, Detail, Reported string
		Holds                                      *bool
	}
}

// TestConformance tries the quick rows with two proxiers of ours, which must hold what applies to them.
func TestConformance(t *testing.T) {
	needRoot(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "conformance", "--quick", "--proxiers", "iptables,userspace", "-o", "json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	checkNoTraces(t, cmd.Process.Pid)
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var doc conformanceDocument
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Environment.Lab != "netns" || doc.Environment.Kernel.Release == "" {
		t.Errorf("environment: %+v", doc.Environment)
	}
	holds, not := map[string]int{}, map[string]int{}
	for _, r := range doc.Rows {
		switch {
		case r.Area == "" || r.Behaviour == "":
			t.Errorf("a row without a name: %+v", r)
		case r.Holds == nil && r.Detail == "":
			t.Errorf("%s does not apply to %s, nobody says why", r.Behaviour, r.Proxier)
		case r.Holds == nil:
			not[r.Proxier]++
		case *r.Holds:
			holds[r.Proxier]++
		}
	}
	if len(holds) != 2 || holds["iptables"] < 20 || holds["userspace"] < 15 || not["userspace"] == 0 {
		t.Errorf("hold: %v, do not apply: %v", holds, not)
	}
}

// TestConformanceIPVS tries the rows of IPVS in a User Mode Linux kernel, as few machines that run tests have ip_vs.
func TestConformanceIPVS(t *testing.T) {
	needRoot(t)
	if _, err := kernel.Find(t.Context(), ""); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "conformance", "--kernel", "uml", "--proxiers", "ipvs", "--rows", "^IPVS:", "-o", "json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &stdout, &stderr)
	}
	var doc conformanceDocument
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Environment.Kernel.Kind != "uml" || len(doc.Rows) < 3 {
		t.Errorf("environment %+v, %d rows", doc.Environment, len(doc.Rows))
	}
	for _, r := range doc.Rows {
		if r.Holds == nil || !*r.Holds {
			t.Errorf("%s: %s", r.Behaviour, r.Detail)
		}
	}
}

// TestConformanceInterrupted: Ctrl-C prints what was found by then and removes the lab.
func TestConformanceInterrupted(t *testing.T) {
	needRoot(t)
	cmd := exec.Command(binary, "conformance", "--proxiers", "iptables", "--rows", "^addresses|^affinity", "-o", "json")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	said, buf := "", make([]byte, 4096)
	for !strings.Contains(said, ": holds (") {
		n, err := stderr.Read(buf)
		said += string(buf[:n])
		if err != nil {
			t.Fatalf("no row was told of: %v\n%s", err, said)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	go func() {
		for err == nil {
			_, err = stderr.Read(buf)
		}
	}()
	_ = cmd.Wait() // the code is looked at
	checkNoTraces(t, cmd.Process.Pid)
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("ended with %d, want 1", code)
	}
	var doc conformanceDocument
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil {
		t.Fatalf("%v: %q", err, stdout.String())
	}
	if !doc.Interrupted || len(doc.Rows) == 0 {
		t.Errorf("interrupted: %t, %d rows", doc.Interrupted, len(doc.Rows))
	}
}

func checkNoTraces(t *testing.T, pid int) {
	t.Helper()
	if left := traces(fmt.Sprintf("conformance-%d", pid)); len(left) > 0 {
		t.Errorf("left on the machine: %s", strings.Join(left, ", "))
	}
}
