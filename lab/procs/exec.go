package procs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab"
)

// Exec starts a lab's command in the namespaces of s. program is the file to run, as it is called in the mount namespace
// of s; env is the environment of the place. The process gets a group of its own, which is killed when ctx ends.
func Exec(ctx context.Context, s Spec, program string, env []string, c lab.Command) (lab.Process, error) {
	cmd := exec.CommandContext(ctx, program, c.Args[1:]...)
	cmd.Args[0] = c.Args[0]
	cmd.Env = slices.Concat(env, c.Env)
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.WaitDelay = 2 * time.Second // a grandchild may hold on to the output
	p := &process{cmd: cmd}
	cmd.Cancel = p.Kill
	var stdin io.WriteCloser
	if f, ok := c.Stdin.(*os.File); ok {
		cmd.Stdin = f // the child's own from now on
	} else if c.Stdin != nil {
		// Not cmd.Stdin: Wait would also wait for a reader that has nothing to say.
		var err error
		if stdin, err = cmd.StdinPipe(); err != nil {
			return nil, fmt.Errorf("exec %q: %w", c.Args, err)
		}
	}
	s.Cmd = cmd
	if err := Start(s); err != nil {
		return nil, fmt.Errorf("exec %q: %w", c.Args, err)
	}
	if stdin != nil {
		go func() {
			_, _ = io.Copy(stdin, c.Stdin) // a process that ended first is no error
			_ = stdin.Close()
		}()
	}
	return p, nil
}

type process struct{ cmd *exec.Cmd }

func (p *process) Wait() error      { return p.cmd.Wait() }
func (p *process) Interrupt() error { return p.signal(unix.SIGINT) }
func (p *process) Kill() error      { return p.signal(unix.SIGKILL) }

// signal goes to the whole group.
func (p *process) signal(s unix.Signal) error {
	err := unix.Kill(-p.cmd.Process.Pid, s)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
