package kind

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"proxylab/lab/procs"
	"proxylab/lab/proxierproc"
)

// unit is the transient unit of systemd that a native proxier is on its node: a control group of its own, which the
// processes of kubelet and pods are not in.
const unit = "proxylab-proxier.service"

// native starts a proxier of ours.
func (s *starting) native(ctx context.Context) error {
	if err := s.command(ctx, s.node.Name, s.unitArgs()...); err != nil {
		return err
	}
	p, err := procs.Root(s.Lab.Name(), proxierPart(s.node.Name))
	if err != nil {
		return err
	}
	log := func() string { return proxierproc.Tail(s.node.root(nodeLog)) }
	if p == nil {
		return fmt.Errorf("it ended at once, its log says:\n%s", log())
	}
	return s.awaitSync(ctx, p.PID, log)
}

// unitArgs is the command line that starts the unit.
func (s *starting) unitArgs() []string {
	args := []string{"systemd-run", "--quiet", "--unit", unit, "--collect",
		"--property=Type=exec", // systemd-run returns once the program runs
		// As anywhere else what a proxier is running when it is told to end comes to its own end.
		"--property=KillMode=process", "--property=TimeoutStopSec=15",
		"--property=StandardOutput=append:" + nodeReports, "--property=StandardError=append:" + nodeLog}
	for _, kv := range append(s.mark, nodeEnv...) {
		args = append(args, "--setenv="+kv)
	}
	spec := s.spec
	spec.Name = s.name
	if s.name != s.spec.Name {
		spec.Fallback = ""
	}
	return append(append(args, "--", nodeBinary), proxierproc.Args(s.node.Name, nodeKubeconfig, spec)...)
}

func (l *Lab) stopNative(ctx context.Context, n container) error {
	if err := l.command(ctx, n.Name, "systemctl", "stop", unit); err != nil && !strings.Contains(err.Error(), "not loaded") {
		return err
	}
	for { // systemd calls a unit stopped when it has seen its main process end
		p, err := procs.Root(l.Name(), proxierPart(n.Name))
		if err != nil || p == nil || runsKubeProxy(p.PID) {
			return err
		}
		if err := procs.Sleep(ctx, 5*time.Millisecond); err != nil {
			return errors.Join(err, fmt.Errorf("process %d has not ended", p.PID))
		}
	}
}
