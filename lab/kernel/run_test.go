package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab"
	"proxylab/lab/procs"
)

// someKernel finds a kernel to boot; without one, a test is skipped.
func someKernel(t *testing.T) Kernel {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a process-id namespace")
	}
	k, err := Find(t.Context(), "")
	if err != nil {
		t.Skip(err)
	}
	if _, err := memoryDir(memoryDirs, 512<<20); err != nil {
		t.Skip(err)
	}
	return k
}

// inKernel is a Config for this test, and checks in the end that nothing of the kernel is left.
func inKernel(t *testing.T, args ...string) (c Config, stdout, stderr *buffer) {
	t.Helper()
	stdout, stderr = newBuffer(), newBuffer()
	c = Config{
		Kernel: someKernel(t), Lab: labName(t), StateDir: filepath.Join(t.TempDir(), "lab"), MemoryMiB: 512,
		Args: args, Stdout: stdout, Stderr: stderr,
	}
	t.Cleanup(func() {
		if left := running(t, c.Lab); len(left) > 0 {
			t.Errorf("still running: %+v", left)
		}
		if _, err := os.Stat(c.StateDir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left (%v)", c.StateDir, err)
		}
	})
	return c, stdout, stderr
}

func labName(t *testing.T) string {
	return fmt.Sprintf("%s-%d", strings.ToLower(t.Name()), os.Getpid())
}

func running(t *testing.T, lab string) []procs.Proc {
	t.Helper()
	found, err := procs.Find(lab)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestOutputsAndStatus(t *testing.T) {
	c, stdout, stderr := inKernel(t, "talk", "20000", "42")
	status, err := Run(t.Context(), c)
	if err != nil || status != 42 {
		t.Fatalf("status %d, %v; want 42", status, err)
	}
	var want bytes.Buffer
	for i := range 20000 {
		fmt.Fprintf(&want, "line %d\tof \x00\x1b\xff\r\n", i)
	}
	if stdout.String() != want.String() {
		t.Errorf("standard output has %d bytes and not the %d that were written", len(stdout.String()), want.Len())
	}
	if got := stderr.String(); got != "and this is the other one\n" {
		t.Errorf("standard error: %q", got)
	}
}

func TestTwoAtATime(t *testing.T) {
	one, out1, _ := inKernel(t, "sh", "echo $$ one; exit 1")
	two, out2, _ := inKernel(t, "sh", "echo $$ two; exit 2")
	two.Lab += "-2"
	var wg sync.WaitGroup
	for want, c := range map[int]Config{1: one, 2: two} {
		wg.Go(func() {
			if status, err := Run(t.Context(), c); err != nil || status != want {
				t.Errorf("status %d, %v; want %d", status, err, want)
			}
		})
	}
	wg.Wait()
	if !strings.HasSuffix(out1.String(), "one\n") || !strings.HasSuffix(out2.String(), "two\n") {
		t.Errorf("outputs: %q, %q", out1.String(), out2.String())
	}
}

// TestWhatIsInside looks around: another kernel, the machine's files, and nothing of what is written gets out.
func TestWhatIsInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("from the machine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, stdout, stderr := inKernel(t, "sh", `
		uname -r; cat `+outside+`; pwd; echo $PROXYLAB_KERNEL $MARK
		for d in / /tmp /etc /root /run /dev/shm /var/tmp /var/lib/proxylab `+filepath.Dir(outside)+`; do echo x >$d/proxylab-written || exit 9; done
		echo gone >`+outside+` && rm `+outside+` && ls /var/lib/proxylab
		echo 1 >/proc/sys/net/ipv4/ip_forward && cat /sys/class/net/lo/flags && test -c /dev/null && test -c /dev/net/tun && echo whole`)
	c.Env = append(os.Environ(), "MARK=handed-on")
	status, err := Run(t.Context(), c)
	if err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	dir, _ := os.Getwd()
	want := c.Kernel.Release + "\nfrom the machine\n" + dir + "\numl handed-on\nproxylab-written\n0x9\nwhole\n"
	if stdout.String() != want {
		t.Errorf("inside it says:\n%s\nwant:\n%s\nstderr: %s", stdout, want, stderr)
	}
	for _, d := range []string{"/", "/tmp", "/etc", "/root", "/run", "/dev/shm", "/var/tmp", "/var/lib/proxylab", filepath.Dir(outside)} {
		if _, err := os.Stat(filepath.Join(d, "proxylab-written")); err == nil {
			t.Errorf("what was written inside is in %s on the machine", d)
			_ = os.Remove(filepath.Join(d, "proxylab-written"))
		}
	}
	if b, _ := os.ReadFile(outside); string(b) != "from the machine\n" {
		t.Errorf("a file of the machine was changed from inside: %q", b)
	}
}

func TestInterruptReachesTheCommand(t *testing.T) {
	c, stdout, _ := inKernel(t, "wait")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		stdout.await("waiting\n")
		cancel()
	}()
	status, err := Run(ctx, c)
	if err != nil || status != 7 || stdout.String() != "waiting\ninterrupted\n" {
		t.Errorf("status %d, %v, output %q; want 7 and a good ending", status, err, stdout)
	}
}

func TestCommandThatDoesNotEnd(t *testing.T) {
	c, stdout, _ := inKernel(t, "ignore")
	c.Grace = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		stdout.await("waiting\n")
		cancel()
	}()
	if _, err := Run(ctx, c); err == nil || !strings.Contains(err.Error(), "did not end within 200ms") {
		t.Errorf("error %v; want that it was killed", err)
	}
}

func TestCancelledWhileBooting(t *testing.T) {
	c, _, _ := inKernel(t, "wait")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v; want the context's", err)
	}
}

// TestParentKilled kills the process that started the kernel: its processes go with it, and its directory with the lab.
func TestParentKilled(t *testing.T) {
	c, _, _ := inKernel(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdout := newBuffer()
	cmd := exec.Command(exe, "parent", c.Lab, c.StateDir)
	cmd.Stdout, cmd.Stderr = stdout, stdout
	cmd.WaitDelay = time.Minute // the kernel holds no output of it, so this is not needed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !stdout.await("waiting\n") {
		_ = cmd.Process.Kill()
		t.Fatalf("the kernel did not come to run its command: %s", stdout)
	}
	if len(running(t, c.Lab)) == 0 {
		t.Error("no process of the lab is found while the kernel runs")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(20 * time.Second); len(running(t, c.Lab)) > 0 || len(kernelsOf(t, c.StateDir)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("20 s after its parent the kernel still runs: %v", kernelsOf(t, c.StateDir))
		}
	}
	if err := os.RemoveAll(c.StateDir); err != nil { // as "down" does
		t.Fatal(err)
	}
}

// kernelsOf finds processes by the kernel's directory in their arguments, also those without an environment to look at.
func kernelsOf(t *testing.T, dir string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte("uml_dir="+dir)) {
			found = append(found, p)
		}
	}
	return found
}

// TestStopLab ends a kernel as "down" does: from another process, by the name of the lab.
func TestStopLab(t *testing.T) {
	c, stdout, _ := inKernel(t, "wait")
	go func() {
		stdout.await("waiting\n")
		if err := procs.Stop(context.WithoutCancel(t.Context()), c.Lab, "", time.Second); err != nil {
			t.Error(err)
		}
	}()
	var boot *BootError
	if _, err := Run(t.Context(), c); !errors.As(err, &boot) {
		t.Errorf("error %v; want that the kernel ended early", err)
	}
}

func TestCommandThatCannotStart(t *testing.T) {
	c, _, _ := inKernel(t, "talk", "1", "0")
	c.executable = "/bin/false" // as the first process it ends at once, and the kernel panics
	var boot *BootError
	if _, err := Run(t.Context(), c); !errors.As(err, &boot) || !strings.Contains(boot.Console, "Attempted to kill init") {
		t.Errorf("error %v; want the panic from the console", err)
	}
}

func TestKernelThatHangs(t *testing.T) {
	c, _, _ := inKernel(t, "talk", "1", "0")
	c.Kernel.Path = filepath.Join(t.TempDir(), "hangs")
	if err := os.WriteFile(c.Kernel.Path, []byte("#!/bin/sh\necho booting...\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.BootLimit = 300 * time.Millisecond
	_, err := Run(t.Context(), c)
	var boot *BootError
	if !errors.As(err, &boot) || !strings.Contains(err.Error(), "within 300ms") || boot.Console != "booting..." {
		t.Errorf("error %v; want the limit and the console", err)
	}
}

func TestKernelThatStopsUnderTheCommand(t *testing.T) {
	c, stdout, _ := inKernel(t, "wait")
	c.Silence = 2 * aliveEvery
	go func() {
		stdout.await("waiting\n")
		for _, p := range running(t, c.Lab) {
			_ = unix.Kill(p.PID, unix.SIGSTOP)
		}
	}()
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "it hangs: it has not been heard of for 10s") {
		t.Errorf("error %v; want that it was killed", err)
	}
}

func TestKernelThatIsNone(t *testing.T) {
	for path, want := range map[string]string{
		"/does/not/exist": "no such file",
		"/bin/echo":       "is not a User Mode Linux kernel",
		"/bin/false":      "exit status 1",
	} {
		if _, err := Find(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}

func TestNoMemory(t *testing.T) {
	_, err := memoryDir([]string{"/proc", "/does/not/exist", "/dev/shm"}, 1<<60)
	var missing lab.Missing
	if !errors.As(err, &missing) || !strings.Contains(missing.What, "/proc is no tmpfs") || !strings.Contains(missing.Remedy, "/dev/shm") {
		t.Errorf("error %v; want what each place lacks, and a remedy", err)
	}
}

// buffer is written to by one goroutine and looked at by another.
type buffer struct {
	mu   sync.Mutex
	cond *sync.Cond
	text []byte
}

func newBuffer() *buffer {
	b := &buffer{}
	b.cond = sync.NewCond(&b.mu)
	return b
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	b.cond.Broadcast()
	return len(p), nil
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// await returns when so much is there; false: it did not come within two minutes.
func (b *buffer) await(text string) bool {
	late := false
	defer time.AfterFunc(2*time.Minute, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		late = true
		b.cond.Broadcast()
	}).Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for !late && !bytes.Contains(b.text, []byte(text)) {
		b.cond.Wait()
	}
	return !late
}
