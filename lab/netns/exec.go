package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/netns/agent"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/procs"
)

// self is the name by which a command asks for this binary.
const self = "proxylab"

// Exec starts a command in the network of a node, of a pod or of the outside client; on a node also with the node's
// own /run and /sys. It gets a process group of its own, which is killed when ctx ends.
func (l *Lab) Exec(ctx context.Context, where lab.Place, c lab.Command) (lab.Process, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("exec: no command given")
	}
	spec, err := l.place(where)
	if err != nil {
		return nil, fmt.Errorf("exec %q: %w", c.Args, err)
	}
	program := c.Args[0]
	if program == self {
		program = l.opts.Executable
	}
	return procs.Exec(ctx, spec, program, os.Environ(), c)
}

// place finds the namespaces of a place.
func (l *Lab) place(where lab.Place) (procs.Spec, error) {
	s := procs.Spec{Lab: l.Name()}
	switch {
	case where.Node != "" && where.Pod != "":
		return s, fmt.Errorf("place %+v: a node or a pod, not both", where)
	case where.Node != "":
		n, err := l.node(where.Node)
		if err != nil {
			return s, err
		}
		s.Part = "exec/node/" + n.Name
		s.NetNS, s.MountNS = fabric.NodePath(l.Name(), n.Name), fabric.MountPath(mountDir(l.Name()), n.Name)
	case where.Pod != "":
		if where.Namespace == "" {
			where.Namespace = "default"
		}
		s.Part = agent.ExecPart(where.Namespace, where.Pod)
		s.NetNS = fabric.PodPath(l.Name(), where.Namespace, where.Pod)
		if _, err := os.Stat(s.NetNS); err != nil {
			return s, fmt.Errorf("pod %s/%s does not run: %w", where.Namespace, where.Pod, err)
		}
	default:
		s.Part, s.NetNS = "exec/outside", fabric.Path(l.Name())
	}
	return s, nil
}

// command prepares a child of this binary whose output goes to a log.
func (l *Lab) command(log string, args ...string) (cmd *exec.Cmd, closeLog func(), err error) {
	f, err := labdir.OpenLog(log)
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.Command(l.opts.Executable, args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = f, f
	return cmd, func() { _ = f.Close() }, nil
}
