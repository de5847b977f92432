package netns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"proxylab/lab"
	"proxylab/lab/balancers"
	"proxylab/lab/controlplane"
	"proxylab/lab/labdir"
	"proxylab/lab/netns/agent"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/procs"
	"proxylab/lab/proxierproc"
)

// making is one run of Up.
type making struct {
	*Lab
	state state
	agent <-chan error // its end, if this run started it
}

// action is a step of a procedure. Each can be repeated, and does what is not done yet.
type action struct {
	name string
	do   func(context.Context) error
}

// Up makes the lab, or completes it. What it cannot do because the machine lacks something is a lab.Missing. After an
// error whatever is there stays: call Up again, or Down.
func (l *Lab) Up(ctx context.Context) error {
	if err := missing(Preflight()); err != nil {
		return err
	}
	unlock, err := labdir.Lock(ctx, l.Name(), func() {
		l.log.Info("waiting for another proxylab that is at work on this lab")
	})
	if err != nil {
		return err
	}
	defer unlock()
	begin := time.Now()
	m := &making{Lab: l}
	if err := l.perform(ctx,
		action{"remember what was asked for", m.remember},
		action{"fabric", func(context.Context) error { return fabric.EnsureFabric(l.Name()) }},
		together(
			action{"nodes' network", m.networks},
			action{"control plane", m.controlPlane}),
		action{"node agent", m.startAgent},
		together(
			action{"load balancers", m.loadBalancers},
			action{"nodes and proxiers", func(ctx context.Context) error {
				return l.perform(ctx, action{"nodes ready", m.awaitNodes}, action{"proxiers", m.proxiers})
			}}),
		action{"mark as complete", m.complete},
	); err != nil {
		return fmt.Errorf("lab %s: %w", l.Name(), err)
	}
	l.log.Info("lab is up", "seconds", time.Since(begin).Seconds())
	return nil
}

// perform does one action after the other.
func (l *Lab) perform(ctx context.Context, actions ...action) error {
	for _, a := range actions {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		begin := time.Now()
		if err := a.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		l.log.Debug(a.name, "seconds", time.Since(begin).Seconds())
	}
	return nil
}

// together does actions at the same time. The first that fails ends the others.
func together(actions ...action) action {
	name := ""
	for _, a := range actions {
		if name != "" {
			name += " and "
		}
		name += a.name
	}
	return action{name, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, a := range actions {
			g.Go(func() error { return a.do(ctx) })
		}
		return g.Wait()
	}}
}

// remember writes down what was asked for, unless a lab of that name is something else.
func (m *making) remember(context.Context) error {
	s, err := loadState(m.Name())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s = state{Name: m.Name(), Kind: Kind, Nodes: m.opts.Nodes, Created: time.Now().UTC(), Background: m.opts.Background}
		if s.Nodes == 0 {
			s.Nodes = DefaultNodes
		}
	case err != nil:
		return err
	case isOther(m.Name()):
		return fmt.Errorf("there is a lab of that name already, of kind %s", s.Kind)
	case m.opts.Nodes != 0 && m.opts.Nodes != s.Nodes:
		return fmt.Errorf("it has %d nodes, asked for were %d: take it down first", s.Nodes, m.opts.Nodes)
	case m.opts.Background != s.Background:
		return fmt.Errorf("it has background %+v, asked for was %+v: take it down first", s.Background, m.opts.Background)
	}
	if m.opts.Proxier != nil {
		s.Proxier = m.opts.Proxier
	}
	if s.LBaaS, err = balancers.Take(s.LBaaS, m.opts.LBaaS); err != nil {
		return err
	}
	s.Complete = false
	m.state = s
	return s.save()
}

func (m *making) plan() fabric.Plan { return fabric.Plan{Lab: m.state.Name, Count: m.state.Nodes} }

// networks are those of the nodes, of which none is cut off any more, and of the load balancers.
func (m *making) networks(ctx context.Context) error {
	if err := m.network(ctx); err != nil {
		return err
	}
	var now agent.Nodes
	if err := readJSON(m.nodesFile(), &now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, n := range now.Dead {
		if err := fabric.SetLink(m.Name(), n, true); err != nil {
			return err
		}
	}
	return m.balancerNetwork(ctx)
}

func (m *making) network(context.Context) error {
	for _, n := range m.plan().Nodes() {
		if err := os.MkdirAll(labdir.Node(m.Name(), n.Name), 0o700); err != nil {
			return err
		}
	}
	return fabric.EnsureNodes(m.plan(), mountDir(m.Name()))
}

func (m *making) controlPlane(ctx context.Context) error {
	prefixes := func(texts ...string) (all []netip.Prefix) {
		for _, t := range texts {
			all = append(all, netip.MustParsePrefix(t))
		}
		return all
	}
	_, err := controlplane.Start(ctx, controlplane.Config{
		Lab:          m.Name(),
		Dir:          m.Dir(),
		Executable:   m.opts.Executable,
		NetNS:        fabric.Path(m.Name()),
		Address:      fabric.Fabric4.Addr(),
		ServiceCIDRs: prefixes(fabric.ServiceCIDR4, fabric.ServiceCIDR6),
		PodCIDRs:     prefixes(fabric.PodCIDR4, fabric.PodCIDR6),
		Background:   m.state.Background,
		CacheDir:     m.opts.CacheDir,
		Log:          m.opts.Log,
	})
	return err
}

// startAgent starts the node agent, in this process's own network: the API is on the loopback there.
func (m *making) startAgent(context.Context) error {
	if err := labdir.WriteJSON(m.nodesFile(), agent.Nodes{Count: m.state.Nodes}); err != nil {
		return err
	}
	running, err := procs.Root(m.Name(), agentPart)
	if err != nil {
		return err
	}
	if running != nil {
		return unix.Kill(running.PID, unix.SIGHUP)
	}
	cmd, closeLog, err := m.command(labdir.Log(m.Name(), agentPart), "agent", "--lab", m.Name(), "--nodes", fmt.Sprint(m.state.Nodes),
		"--nodes-file", m.nodesFile(), "--kubeconfig", m.kubeconfig("agent"))
	if err != nil {
		return err
	}
	defer closeLog()
	if err := procs.Start(procs.Spec{Lab: m.Name(), Part: agentPart, Cmd: cmd, Detached: true}); err != nil {
		return err
	}
	m.agent = procs.Ended(cmd)
	return nil
}

// client asks the lab's API, with all rights.
func (l *Lab) client() (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig("admin"))
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}

// awaitNodes waits until the API calls every node ready, and for no agent that has died.
func (m *making) awaitNodes(ctx context.Context) error {
	client, err := m.client()
	if err != nil {
		return err
	}
	limit := lab.Patience(time.Minute)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %s", limit))
	defer cancel()
	for {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil && readyNodes(nodes.Items) >= m.state.Nodes {
			return nil
		}
		select {
		case end := <-m.agent:
			return fmt.Errorf("the node agent ended (%v), its log says:\n%s", end, proxierproc.Tail(labdir.Log(m.Name(), agentPart))) //nolint:errorlint // may be nil
		case <-time.After(25 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func readyNodes(nodes []corev1.Node) (ready int) {
	for _, n := range nodes {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return ready
}

// proxiers starts on each node what ran there last, or else what the lab was asked for.
func (m *making) proxiers(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range m.plan().Nodes() {
		g.Go(func() error { return proxierproc.Resume(ctx, m, n.Name, m.proxierFile(n.Name), m.state.Proxier) })
	}
	return g.Wait()
}

func (m *making) complete(context.Context) error {
	m.state.Complete = true
	return m.state.save()
}
