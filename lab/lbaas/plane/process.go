package plane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Process is a running instance.
type Process interface {
	io.WriteCloser     // its standard input; it ends when that is closed
	Output() io.Reader // its standard output
	PID() int
	Kill() error // at once, as by SIGKILL
	Wait() error // until it is gone, called once, after Output has ended
}

// StartCommand starts cmd as an instance: start is (*exec.Cmd).Start, or what else starts it (in a network namespace, with
// a lab's environment). The command's standard input and output must be free.
func StartCommand(cmd *exec.Cmd, start func(*exec.Cmd) error) (Process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("instance: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		_ = in.Close()
		return nil, fmt.Errorf("instance: %w", err)
	}
	if err := start(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("instance: %w", err), in.Close(), out.Close())
	}
	return &command{WriteCloser: in, out: out, cmd: cmd}, nil
}

type command struct {
	io.WriteCloser
	out io.Reader
	cmd *exec.Cmd
}

func (c *command) Output() io.Reader { return c.out }
func (c *command) PID() int          { return c.cmd.Process.Pid }
func (c *command) Wait() error       { return c.cmd.Wait() }

func (c *command) Kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill instance: %w", err)
	}
	return nil
}
