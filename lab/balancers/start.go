package balancers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/lbaas/openstack"
	"proxylab/lab/procs"
	"proxylab/lab/proxierproc"
)

// goodbye is how long a part may take to end by itself.
const goodbye = 200 * time.Millisecond

// starting is one run of Start.
type starting struct {
	Site
	state *State
	save  func() error
}

// Start starts the API with its instances, and the controller that drives it, unless they run. It returns when the controller
// works on Services. save keeps the lab's state, in which *State is, before anything depends on what changed there.
func Start(ctx context.Context, site Site, state *State, save func() error) error {
	s := &starting{Site: site, state: state, save: save}
	if err := os.MkdirAll(dir(s.Lab), 0o700); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	moved, ended, err := s.startServer()
	if err != nil {
		return err
	}
	if err := writeOpenRC(openRC(s.Lab), s.state.URL()); err != nil {
		return err
	}
	if moved {
		if err := procs.Stop(ctx, s.Lab, cloudPart, goodbye); err != nil {
			return err
		}
	}
	if err := s.awaitServer(ctx, ended); err != nil {
		return err
	}
	return s.startCloud(ctx)
}

// settle writes down the site for the server. One that runs for another, as when the places of the instances are not where they
// were, ends.
func (s *starting) settle(ctx context.Context) error {
	now, err := json.Marshal(s.Site)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(siteFile(s.Lab))
	if err == nil && bytes.Equal(bytes.TrimSpace(before), now) {
		return nil
	}
	if err := procs.Stop(ctx, s.Lab, serverPart, goodbye); err != nil {
		return err
	}
	return os.WriteFile(siteFile(s.Lab), now, 0o600)
}

// startServer starts the server unless it runs, on the port of last time if it can be had; moved says whether it could not.
func (s *starting) startServer() (moved bool, ended <-chan error, err error) {
	running, err := procs.Root(s.Lab, serverPart)
	if err != nil || running != nil {
		return false, nil, err
	}
	before := s.state.Port
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", before))
	if errors.Is(err, unix.EADDRINUSE) {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return false, nil, fmt.Errorf("socket of the LBaaS API: %w", err)
	}
	defer func() { _ = l.Close() }() // the child has its own
	s.state.Port = l.Addr().(*net.TCPAddr).Port
	if err := s.save(); err != nil {
		return false, nil, err
	}
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		return false, nil, err
	}
	defer func() { _ = socket.Close() }()
	ended, err = s.start(serverPart, nil, func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{socket} }, serverCommand, "--lab", s.Lab)
	return before != 0 && before != s.state.Port, ended, err
}

// awaitServer returns when the API answers.
func (s *starting) awaitServer(ctx context.Context, ended <-chan error) error {
	return s.await(ctx, serverPart, ended, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.state.URL()+"/", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
}

// startCloud starts the controller unless it runs, and returns when it works on Services.
func (s *starting) startCloud(ctx context.Context) error {
	running, err := procs.Root(s.Lab, cloudPart)
	if err != nil || running != nil {
		return err
	}
	ready, err := os.Create(cloudReady(s.Lab))
	if err != nil {
		return err
	}
	defer func() { _ = ready.Close() }()
	ended, err := s.start(cloudPart, ready, func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "OS_PASSWORD="+password) }, s.cloudArgs()...)
	if err != nil {
		return err
	}
	return s.await(ctx, cloudPart, ended, func(context.Context) error {
		said, err := os.ReadFile(cloudReady(s.Lab))
		if err == nil && !strings.Contains(string(said), "ready") {
			err = errors.New("it does not say that it is ready")
		}
		return err
	})
}

// cloudArgs is the command line of the controller.
func (s *starting) cloudArgs() []string {
	args := []string{cloudPart,
		"--kubeconfig", s.Kubeconfig, "--cluster-name", s.Lab,
		"--auth-url", s.state.URL() + "/identity", "--username", user, "--project-name", project,
		"--internal", // VIPs are beside the nodes: who is outside reaches them
	}
	said := map[string]bool{}
	for _, subnet := range s.Network.Subnets {
		flag := "--subnet-id"
		if subnet.CIDR.Addr().Is6() {
			flag = "--subnet-id-v6"
		}
		if !said[flag] {
			said[flag] = true
			args = append(args, flag, openstack.StableID("subnet", subnet.Name))
		}
	}
	return args
}

// start starts a part, whose output goes to its log, or to stdout where that is not nil.
func (s *starting) start(part string, stdout *os.File, prepare func(*exec.Cmd), args ...string) (ended <-chan error, err error) {
	log, err := labdir.OpenLog(labdir.Log(s.Lab, part))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.Command(s.Executable, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	if stdout != nil {
		cmd.Stdout = stdout
	}
	prepare(cmd)
	if err := procs.Start(procs.Spec{Lab: s.Lab, Part: part, Cmd: cmd, Detached: true}); err != nil {
		return nil, err
	}
	return procs.Ended(cmd), nil
}

// await looks until a part is ready, and no longer than it lives.
func (s *starting) await(ctx context.Context, part string, ended <-chan error, ready func(context.Context) error) error {
	limit := lab.Patience(time.Minute)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %s", limit))
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case end := <-ended:
			return fmt.Errorf("%s ended (%v), its log says:\n%s", part, end, proxierproc.Tail(labdir.Log(s.Lab, part))) //nolint:errorlint // may be nil
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", part, context.Cause(ctx), err)
		}
	}
}
