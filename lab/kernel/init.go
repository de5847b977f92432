package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"proxylab/lab"
)

// Init is the first process of a kernel: it makes the place that the command expects, runs the command, hands its
// output and status out, and switches the kernel off. dir is the directory that Run made. It returns only when this
// is not the first process of a kernel.
func Init(dir string) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("%s is for the first process of a kernel", InitVerb)
	}
	// From here on an error has nobody to go to but the console, which is what Run shows.
	if err := serve(dir); err != nil {
		fmt.Fprintln(os.Stderr, "proxylab:", err)
	}
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// serve talks to the outside from the moment it can.
func serve(dir string) error {
	j, err := loadJob(dir)
	if err != nil {
		return err
	}
	// Before the root changes: this program's file has the same name in both.
	exe, err := os.Readlink(filepath.Join(dir, "init"))
	if err != nil {
		return err
	}
	if err := furnish(); err != nil {
		return err
	}
	var lines [talkLine + 1]*os.File
	for i := range lines {
		if lines[i], err = openLine(i); err != nil {
			return err
		}
	}
	g := guest{exe: exe, job: j, out: lines[outLine], errs: lines[errLine], talk: lines[talkLine]}
	status, err := g.run()
	if err != nil {
		g.tell(report{Error: err.Error()})
	} else {
		g.tell(report{Status: &status})
	}
	drain(g.talk)
	return nil
}

// openLine opens a serial line such that what is written comes out as it is. Draining it is the caller's.
func openLine(n int) (*os.File, error) {
	path := fmt.Sprintf("/dev/ttyS%d", n)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) { // no devtmpfs
		const serial = 4 // major number; minors of lines begin at 64
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(serial, uint32(64+n)))); err != nil {
			return nil, fmt.Errorf("make %s: %w", path, err)
		}
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("settings of %s: %w", path, err)
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8 | unix.CLOCAL | unix.CREAD
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return nil, fmt.Errorf("settings of %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// drain returns when all that was written to a line is out.
func drain(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCSBRK, 1) }

// guest is the first process's view of the command.
type guest struct {
	exe             string
	job             job
	out, errs, talk *os.File
}

func (g *guest) tell(r report) {
	if b, err := json.Marshal(r); err == nil {
		_, _ = g.talk.Write(append(b, '\n')) // without an outside there is nobody to tell that it failed
	}
}

// run runs the command to its end.
func (g *guest) run() (status int, err error) {
	cmd := exec.Command(g.exe, g.job.Args...)
	cmd.Dir = g.job.Dir
	cmd.Env = slices.Concat(g.job.Env, []string{lab.KernelVar + "=uml"})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", g.exe, err)
	}
	g.tell(report{Started: true})
	go g.obey(cmd.Process.Pid)
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	go func() {
		for range alive.C {
			g.tell(report{Alive: true})
		}
	}()
	var copies sync.WaitGroup
	for to, from := range map[*os.File]io.Reader{g.out: stdout, g.errs: stderr} {
		copies.Go(func() {
			_, _ = io.Copy(to, from)
			drain(to)
		})
	}
	status, err = reap(cmd.Process.Pid)
	// Whoever is left holds on to the output, and has nobody to work for any more.
	_ = unix.Kill(-1, unix.SIGKILL)
	copies.Wait()
	return status, err
}

// obey follows the orders from outside. When there is no outside any more, the command ends.
func (g *guest) obey(pid int) {
	dec := json.NewDecoder(g.talk)
	for {
		var o order
		if err := dec.Decode(&o); err != nil {
			_ = unix.Kill(pid, unix.SIGTERM)
			return
		}
		if o.Interrupt {
			_ = unix.Kill(pid, unix.SIGINT)
		}
	}
}

// reap takes the status of every process that ends, as the first process must, until the command does.
func reap(command int) (status int, err error) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case pid != command:
			continue
		case ws.Signaled():
			return 128 + int(ws.Signal()), nil // as a shell says it
		}
		return ws.ExitStatus(), nil
	}
}

// loopback brings lo up.
func loopback() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}
