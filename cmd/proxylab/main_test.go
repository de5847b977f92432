package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// binary is the program as users run it, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "proxylab-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // a test runs it as another user
		return 0, err
	}
	binary = filepath.Join(dir, "proxylab")
	out, err := exec.Command("go", "build", "-ldflags", "-s -w -X main.version=test", "-o", binary, ".").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("build: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// TestScripts runs command lines that start no lab and looks at what they print and how they end.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PROXYLAB", binary)
			env.Setenv("PATH", filepath.Dir(binary)+":"+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"asnobody": asNobody,
			"binary":   writeBinary,
			"lbaas":    runLBaaS,
			"member":   runMember,
			"freeport": freePort,
			"commands": openstackCommands,
			"answers":  answers,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// exits CODE COMMAND ARG... runs a command that must end with that code. Its output is there for stdout and stderr.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%q ended with %d, want %d", args[1:], got, want)
	}
}

// asnobody CODE ARG... runs proxylab as a user without rights, and prints what it said.
func asNobody(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(binary, args[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_ = cmd.Run() // the code is looked at
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("%q as nobody ended with %s, want %s: %s", args[1:], got, args[0], stderr.String())
	}
	ts.Check(os.WriteFile(ts.MkAbs("stderr"), stderr.Bytes(), 0o644))
}

// binary FILE makes a file that holds no text.
func writeBinary(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("\x7fELF\x02\x01\x00\xff\xfe\x00kind: Scenario"), 0o644))
}
