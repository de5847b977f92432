package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab"
	"proxylab/lab/lbaas/cloud"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/procs"
	"proxylab/lab/proxierproc"
)

// What load balancers are among a lab's processes (see procs.Spec).
const (
	lbaasPart    = "lbaas"
	instancePart = "lbaas-instance"
	cloudPart    = cloud.Name
)

var _ lab.Balanced = (*Lab)(nil)

// balancerState is what is kept of the load balancers of a lab.
type balancerState struct {
	lab.LBaaSSpec
	Port int `json:"port,omitempty"` // of the API, on this machine's loopback
}

func (b balancerState) url() string { return fmt.Sprintf("http://127.0.0.1:%d", b.Port) }

func (l *Lab) lbaasDir() string   { return filepath.Join(l.Dir(), "lbaas") }
func (l *Lab) openRC() string     { return filepath.Join(l.Dir(), "openrc") }
func (l *Lab) cloudReady() string { return filepath.Join(l.lbaasDir(), "cloud.ready") }

// LBaaS says how to reach the load balancers; nil: the lab has none.
func (l *Lab) LBaaS(context.Context) (*lab.LBaaS, error) {
	s, err := loadState(l.Name())
	if err != nil || s.LBaaS == nil {
		return nil, err
	}
	return &lab.LBaaS{Spec: s.LBaaS.LBaaSSpec, URL: s.LBaaS.url(), OpenRC: l.openRC(), Processes: func() (map[string]int, error) {
		return balancerProcesses(l.Name())
	}}, nil
}

func balancerProcesses(name string) (map[string]int, error) {
	all, err := procs.Find(name)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, p := range all {
		if p.Part == lbaasPart || p.Part == cloudPart || strings.HasPrefix(p.Part, instancePart+"/") {
			found[p.Part] = p.PID
		}
	}
	return found, nil
}

// balancerNetwork makes the places of the instances, and tells all nodes where VIPs are.
func (m *making) balancerNetwork(context.Context) error {
	if m.state.LBaaS == nil {
		return nil
	}
	return fabric.EnsureBalancers(m.plan(), m.state.LBaaS.Instances())
}

// loadBalancers starts the API with its instances, and the controller that drives it.
func (m *making) loadBalancers(ctx context.Context) error {
	if m.state.LBaaS == nil {
		return nil
	}
	if err := os.MkdirAll(m.lbaasDir(), 0o700); err != nil {
		return err
	}
	moved, ended, err := m.startServer(ctx)
	if err != nil {
		return err
	}
	if err := writeOpenRC(m.openRC(), m.state.LBaaS.url()); err != nil {
		return err
	}
	if moved {
		if err := procs.Stop(ctx, m.Name(), cloudPart, goodbye); err != nil {
			return err
		}
	}
	if err := m.awaitServer(ctx, ended); err != nil {
		return err
	}
	return m.startCloud(ctx)
}

// startServer starts the server unless it runs, on the port of last time if it can be had; moved says whether it could not.
func (m *making) startServer(context.Context) (moved bool, ended <-chan error, err error) {
	running, err := procs.Root(m.Name(), lbaasPart)
	if err != nil || running != nil {
		return false, nil, err
	}
	before := m.state.LBaaS.Port
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", before))
	if errors.Is(err, unix.EADDRINUSE) {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return false, nil, fmt.Errorf("socket of the LBaaS API: %w", err)
	}
	defer func() { _ = l.Close() }() // the child has its own
	m.state.LBaaS.Port = l.Addr().(*net.TCPAddr).Port
	if err := m.state.save(); err != nil {
		return false, nil, err
	}
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		return false, nil, err
	}
	defer func() { _ = socket.Close() }()
	cmd, closeLog, err := m.command(m.partLog(lbaasPart), serverCommand, "--lab", m.Name())
	if err != nil {
		return false, nil, err
	}
	defer closeLog()
	cmd.ExtraFiles = []*os.File{socket}
	if err := procs.Start(procs.Spec{Lab: m.Name(), Part: lbaasPart, Cmd: cmd, Detached: true}); err != nil {
		return false, nil, err
	}
	return before != 0 && before != m.state.LBaaS.Port, waitFor(cmd), nil
}

// awaitServer returns when the API answers.
func (m *making) awaitServer(ctx context.Context, ended <-chan error) error {
	return m.awaitPart(ctx, lbaasPart, ended, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.state.LBaaS.url()+"/", nil)
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
func (m *making) startCloud(ctx context.Context) error {
	running, err := procs.Root(m.Name(), cloudPart)
	if err != nil || running != nil {
		return err
	}
	cmd, closeLog, err := m.command(m.partLog(cloudPart), cloudArgs(m.kubeconfig("agent"), m.Name(), m.state.LBaaS.url())...)
	if err != nil {
		return err
	}
	defer closeLog()
	ready, err := os.Create(m.cloudReady())
	if err != nil {
		return err
	}
	defer func() { _ = ready.Close() }()
	cmd.Stdout = ready
	cmd.Env = append(os.Environ(), "OS_PASSWORD="+password)
	if err := procs.Start(procs.Spec{Lab: m.Name(), Part: cloudPart, Cmd: cmd, Detached: true}); err != nil {
		return err
	}
	return m.awaitPart(ctx, cloudPart, waitFor(cmd), func(context.Context) error {
		said, err := os.ReadFile(m.cloudReady())
		if err == nil && !strings.Contains(string(said), "ready") {
			err = errors.New("it does not say that it is ready")
		}
		return err
	})
}

// awaitPart looks until a part of the lab is ready, and no longer than it lives.
func (m *making) awaitPart(ctx context.Context, part string, ended <-chan error, ready func(context.Context) error) error {
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
			return fmt.Errorf("%s ended (%v), its log says:\n%s", part, end, proxierproc.Tail(m.partLog(part))) //nolint:errorlint // may be nil
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", part, context.Cause(ctx), err)
		}
	}
}
