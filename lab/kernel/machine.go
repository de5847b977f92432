package kernel

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"proxylab/lab/procs"
)

// part is what the kernel is among the processes of its lab.
const part = "kernel"

// machine is a running kernel.
type machine struct {
	cmd     *exec.Cmd
	started time.Time
	talk    *os.File // both ways
	console *console
	copies  sync.WaitGroup // of the command's output
}

// start boots the kernel. Its processes die with this one: the first is killed by the machine's kernel, and the others
// are in a process-id namespace that ends with the first (killing it alone would leave them stopped for ever).
func start(c Config, dir, memory string) (*machine, error) {
	m := &machine{}
	m.console = &console{panicked: m.kill}
	inside, err := m.lines(c)
	defer func() { // the kernel has them; here they would keep the lines from ending
		for _, f := range inside {
			_ = f.Close()
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	m.cmd = exec.Command(c.Kernel.Path, commandLine(c, dir)...)
	m.cmd.Dir = "/"
	m.cmd.Env = []string{"TMPDIR=" + memory, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	m.cmd.Stdout, m.cmd.Stderr = m.console, m.console
	m.cmd.ExtraFiles = inside
	m.cmd.WaitDelay = 2 * time.Second
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if uid := os.Geteuid(); uid != 0 { // then a process-id namespace needs a user namespace around it
		m.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		m.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		m.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
	m.started = time.Now()
	if err := procs.Start(procs.Spec{Lab: c.Lab, Part: part, Cmd: m.cmd, Bound: true}); err != nil {
		_ = m.talk.Close()
		return nil, err
	}
	if err := keepOnOneCPU(m.cmd.Process.Pid); err != nil {
		c.Log.Warn("the kernel will be slow", "error", err)
	}
	return m, nil
}

// keepOnOneCPU pins a process, and all that it starts from then on, to one of the processors that it may use. A kernel
// and the processes in it only ever wait for one another: it uses no more than one, and waking each other up across
// processors makes system calls two to five times as slow.
func keepOnOneCPU(pid int) error {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &may); err != nil {
		return fmt.Errorf("processors of process %d: %w", pid, err)
	}
	nth := pid % max(1, may.Count()) // several kernels spread
	for cpu := 0; cpu < 8*int(unsafe.Sizeof(may)); cpu++ {
		if !may.IsSet(cpu) {
			continue
		}
		if nth == 0 {
			one.Set(cpu)
			break
		}
		nth--
	}
	if err := unix.SchedSetaffinity(pid, &one); err != nil {
		return fmt.Errorf("pin process %d to a processor: %w", pid, err)
	}
	return nil
}

// lines makes the serial lines, and begins to copy the command's output out of them.
func (m *machine) lines(c Config) (inside []*os.File, err error) {
	for _, to := range []io.Writer{outLine: c.Stdout, errLine: c.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return inside, err
		}
		inside = append(inside, w)
		m.copies.Go(func() {
			defer r.Close()
			if to == nil {
				to = io.Discard
			}
			if _, err := io.Copy(to, r); err != nil { // the command must not stop because nobody listens
				_, _ = io.Copy(io.Discard, r)
			}
		})
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return inside, fmt.Errorf("socketpair: %w", err)
	}
	m.talk = os.NewFile(uintptr(pair[0]), "kernel")
	return append(inside, os.NewFile(uintptr(pair[1]), "kernel")), nil
}

// commandLine is the kernel's: the machine's files as its root, read-only, and this program as its first process.
func commandLine(c Config, dir string) []string {
	args := []string{
		fmt.Sprintf("mem=%dM", c.MemoryMiB), "uml_dir=" + dir + "/", "umid=uml",
		"root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"con=null", "con0=null,fd:1", "ssl=null",
		"dummy.numdummies=0",  // no dummy0 that nobody asked for
		"random.trust_cpu=on", // or the first TLS key waits for entropy
		// From Linux 6.16 on, system calls and page faults of processes cost a fraction of what ptrace takes; older ones do not
		// know it and go on. What runs inside could break out to this user's rights, and is this user's own program.
		"seccomp=auto",
		"init=" + filepath.Join(dir, "init"),
	}
	for line, how := range []string{outLine: "null,fd:%d", errLine: "null,fd:%d", talkLine: "fd:%d"} {
		args = append(args, fmt.Sprintf("ssl%d="+how, line, 3+line))
	}
	return append(args, "--", InitVerb, dir)
}

// order sends a message to the first process. Where that fails there is nobody to obey.
func (m *machine) order(o order) {
	b, err := json.Marshal(o)
	if err == nil {
		_, _ = m.talk.Write(append(b, '\n'))
	}
}

// kill ends the kernel at once.
func (m *machine) kill() {
	if p := m.cmd.Process; p != nil {
		_ = p.Kill() // gone already is fine
	}
}

// wait returns when the kernel is gone and all output is copied.
func (m *machine) wait() error {
	err := m.cmd.Wait()
	m.copies.Wait()
	_ = m.talk.Close()
	return err
}
