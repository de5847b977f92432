package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"proxylab/lab"
)

// DefaultMemoryMiB is enough for a control plane, thousands of Services and the files that they write.
const DefaultMemoryMiB = 3072

// Config is a command to run inside a kernel.
type Config struct {
	Kernel Kernel
	Lab    string // that owns the kernel's processes: "proxylab down LAB" ends them after any crash
	// StateDir is a directory of that lab; the kernel's files are below it while it runs. Empty: a temporary one.
	StateDir string
	Args     []string // of this program
	Env      []string // the whole environment; nil: this process's own
	Stdout   io.Writer
	Stderr   io.Writer
	// MemoryMiB is what the kernel may use, and its files in memory with it; 0: DefaultMemoryMiB.
	MemoryMiB int
	// BootLimit is how long it may take until the command is started; 0: a minute.
	BootLimit time.Duration
	// Silence is how long the kernel may not be heard of before it is taken to hang and killed; 0: three minutes.
	Silence time.Duration
	// Grace is how long the command may take to end after ctx does; 0: a minute.
	Grace time.Duration
	Log   *slog.Logger // nil: slog.Default

	executable string // for tests
}

// BootError says that a kernel did not come to run its command.
type BootError struct {
	Kernel  Kernel
	Reason  string
	Console string // the end of what the kernel said
}

func (e *BootError) Error() string {
	text := fmt.Sprintf("kernel %s (%s): %s", e.Kernel.Path, e.Kernel.Release, e.Reason)
	if e.Console == "" {
		return text
	}
	return text + "\nits console ends with:\n  " + strings.ReplaceAll(strings.TrimSpace(e.Console), "\n", "\n  ")
}

// Run boots the kernel, runs the command in it and returns the command's exit status. What the command writes is written
// to Stdout and Stderr as it comes. When ctx ends the command is interrupted as by Ctrl-C, may end in good order, and
// has its status returned like any other; only when that takes longer than Grace is the kernel killed. When Run returns,
// nothing of the kernel is left.
func Run(ctx context.Context, c Config) (status int, err error) {
	if err := c.complete(); err != nil {
		return 0, err
	}
	memory, err := memoryDir(memoryDirs, int64(c.MemoryMiB)<<20)
	if err != nil {
		return 0, err
	}
	dir, remove, err := c.makeDir()
	if err != nil {
		return 0, err
	}
	defer remove()
	workdir, err := os.Getwd()
	if err != nil {
		return 0, fmt.Errorf("working directory: %w", err)
	}
	if err := (job{Args: c.Args, Env: c.Env, Dir: workdir}).save(dir); err != nil {
		return 0, fmt.Errorf("kernel: %w", err)
	}
	// The kernel's command line is cut at blanks; this name has none.
	if err := os.Symlink(c.executable, filepath.Join(dir, "init")); err != nil {
		return 0, fmt.Errorf("kernel: %w", err)
	}
	m, err := start(c, dir, memory)
	if err != nil {
		return 0, err
	}
	return m.command(ctx, c)
}

// hidden are directories that are others inside: what is in them outside cannot be run.
var hidden = []string{"/run", "/proc", "/sys", "/dev", "/var/lib/proxylab"}

func (c *Config) complete() error {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.MemoryMiB == 0 {
		c.MemoryMiB = DefaultMemoryMiB
	}
	if c.BootLimit == 0 {
		c.BootLimit = time.Minute
	}
	if c.Silence == 0 {
		c.Silence = 3 * time.Minute
	}
	if c.Grace == 0 {
		c.Grace = time.Minute
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	if c.executable == "" {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program's own file: %w", err)
		}
		c.executable = exe
	}
	for _, dir := range hidden {
		if strings.HasPrefix(c.executable, dir+"/") {
			return lab.Missing{What: fmt.Sprintf("this program is %s, and a kernel of its own has another %s", c.executable, dir),
				Remedy: "copy it elsewhere"}
		}
	}
	return nil
}

// makeDir makes the kernel's private directory and says how to remove it, with those above it that it made.
func (c *Config) makeDir() (dir string, remove func(), err error) {
	if c.StateDir == "" {
		dir, err = os.MkdirTemp("", "proxylab-kernel-")
		if err != nil {
			return "", nil, fmt.Errorf("kernel: %w", err)
		}
		return dir, func() { _ = os.RemoveAll(dir) }, nil
	}
	dir = filepath.Join(c.StateDir, "kernel")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("kernel: %w", err)
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		_ = os.Remove(c.StateDir) // where it is empty now
		_ = os.Remove(filepath.Dir(c.StateDir))
	}, nil
}

// command waits for the command that the kernel's first process runs, and hands interrupts on to it.
func (m *machine) command(ctx context.Context, c Config) (int, error) {
	reports := make(chan report)
	go m.listen(reports)
	var (
		boot     = time.NewTimer(c.BootLimit)
		silence  = time.NewTimer(c.Silence)
		grace    <-chan time.Time
		done     = ctx.Done()
		started  bool
		status   *int
		problem  string
		timedOut string
	)
	defer boot.Stop()
	defer silence.Stop()
	for reports != nil {
		select {
		case r, more := <-reports:
			silence.Reset(c.Silence)
			switch {
			case !more:
				reports = nil
			case r.Started:
				started = true
				boot.Stop()
				c.Log.Debug("the kernel is up", "release", c.Kernel.Release, "after", time.Since(m.started))
			case r.Error != "":
				problem = r.Error
			case r.Status != nil:
				status = r.Status
			}
			if started && ctx.Err() != nil && grace == nil {
				m.order(order{Interrupt: true})
				grace = time.After(c.Grace)
			}
		case <-boot.C:
			timedOut = fmt.Sprintf("it did not start the command within %s", c.BootLimit)
			m.kill()
		case <-silence.C:
			timedOut = fmt.Sprintf("it hangs: it has not been heard of for %s", c.Silence)
			m.kill()
		case <-done:
			done = nil
			if !started { // there is nothing to end in good order
				m.kill()
				break
			}
			m.order(order{Interrupt: true})
			grace = time.After(c.Grace)
		case <-grace:
			timedOut = fmt.Sprintf("the command did not end within %s of being interrupted", c.Grace)
			m.kill()
		}
	}
	ended := m.wait()
	switch {
	case status != nil:
		return *status, nil
	case problem != "":
		return 0, &BootError{Kernel: c.Kernel, Reason: problem}
	case timedOut != "" && started:
		return 0, fmt.Errorf("kernel %s was killed: %s", c.Kernel.Path, timedOut)
	case timedOut != "":
		return 0, &BootError{Kernel: c.Kernel, Reason: timedOut, Console: m.console.String()}
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	reason := "it ended before the command did"
	if ended != nil {
		reason += ": " + ended.Error()
	}
	return 0, &BootError{Kernel: c.Kernel, Reason: reason, Console: m.console.String()}
}

// listen reads the messages from inside until the kernel is gone.
func (m *machine) listen(reports chan<- report) {
	defer close(reports)
	dec := json.NewDecoder(m.talk)
	for {
		var r report
		if err := dec.Decode(&r); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				m.kill() // what talks like that is not our first process
			}
			return
		}
		reports <- r
	}
}
