package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/kind/pkg/cluster"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/procs"
	"proxylab/lab/proxierproc"
)

// making is one run of Up.
type making struct {
	*Lab
	state state
}

// action is a step of a procedure. Each can be repeated, and does what is not done yet.
type action struct {
	name string
	do   func(context.Context) error
}

// Up makes the lab, adopts the cluster that is there, or completes what is missing. What it cannot do because the machine
// lacks something is a lab.Missing. After an error whatever is there stays: call Up again, or Down.
func (l *Lab) Up(ctx context.Context) error {
	if err := missing(Preflight(ctx, max(l.opts.Nodes, 1))); err != nil {
		return err
	}
	if err := static(l.opts.Executable); err != nil {
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
	for _, a := range []action{
		{"remember what was asked for", m.remember},
		{"cluster", m.create},
		{"kubeconfig", m.kubeconfigs},
		{"outside client", m.outside},
		{"nodes ready", m.awaitNodes},
		{"ways to pods", m.waysToPods},
		{"nodes equipped", m.equipAll},
		{"workloads", m.workloads},
		{"kube-proxy parked", m.park},
		{"objects", m.fill},
		{"load balancers", m.loadBalancers},
		{"proxiers", m.proxiers},
		{"mark as complete", m.complete},
	} {
		if ctx.Err() != nil {
			return fmt.Errorf("lab %s: %w", l.Name(), context.Cause(ctx))
		}
		began := time.Now()
		if err := a.do(ctx); err != nil {
			return fmt.Errorf("lab %s: %s: %w", l.Name(), a.name, err)
		}
		l.log.Debug(a.name, "seconds", time.Since(began).Seconds())
	}
	l.log.Info("lab is up", "seconds", time.Since(begin).Seconds())
	return nil
}

// remember writes down what was asked for and what was there before, unless a lab of that name is something else.
func (m *making) remember(ctx context.Context) error {
	s, err := loadState(m.Name())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s, err = m.survey(ctx); err != nil {
			return err
		}
	case err != nil:
		return err
	case s.Kind != Kind:
		return fmt.Errorf("there is a lab of that name already, of kind %s", s.Kind)
	case m.opts.Nodes != 0 && s.Release != "" && m.opts.Nodes != s.Nodes:
		return fmt.Errorf("it has %d nodes, asked for were %d: take it down first", s.Nodes, m.opts.Nodes)
	case m.opts.Image != "" && m.opts.Image != s.Image:
		return fmt.Errorf("it was made from image %q, asked for was %q: take it down first", s.Image, m.opts.Image)
	}
	if m.opts.Proxier != nil {
		s.Proxier = m.opts.Proxier
	}
	if err := m.takeBalancers(&s); err != nil {
		return err
	}
	s.Complete = false
	m.state = s
	return s.save()
}

// survey looks at what Docker has before anything is made.
func (m *making) survey(ctx context.Context) (state, error) {
	s := state{Name: m.Name(), Kind: Kind, Nodes: m.opts.Nodes, Image: m.opts.Image, Created: time.Now().UTC()}
	is, err := m.docker.hasNetwork(ctx)
	if err != nil {
		return s, err
	}
	s.Network = !is
	nodes, err := m.docker.nodes(ctx, m.Name())
	if err != nil || len(nodes) == 0 {
		return s, err
	}
	if m.opts.Image != "" || m.opts.ConfigFile != "" || m.opts.Nodes != 0 && m.opts.Nodes != len(nodes) {
		return s, fmt.Errorf("there is a kind cluster %s already, of %d nodes: an image, a configuration and a number of nodes are for a new one", m.Name(), len(nodes))
	}
	m.log.Info("the kind cluster of that name is used as it is, and stays when the lab goes", "nodes", len(nodes))
	s.Adopted, s.Nodes = true, len(nodes)
	return s, nil
}

// kubeconfigs writes the one for this machine, and remembers that there is a cluster.
func (m *making) kubeconfigs(ctx context.Context) error {
	text, err := m.provider().KubeConfig(m.Name(), false)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.Kubeconfig()), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(m.Kubeconfig(), []byte(text), 0o600); err != nil {
		return err
	}
	c, err := m.api()
	if err != nil {
		return err
	}
	version, err := c.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("API of the cluster: %w", err)
	}
	m.state.Release = version.GitVersion
	return m.state.save()
}

func (l *Lab) provider() *cluster.Provider { return cluster.NewProvider(cluster.ProviderWithDocker()) }

// awaitNodes waits until the API calls every node ready, and lets pods onto those with the control plane.
func (m *making) awaitNodes(ctx context.Context) error {
	c, err := m.api()
	if err != nil {
		return err
	}
	want, err := m.nodes(ctx)
	if err != nil {
		return err
	}
	limit := lab.Patience(3 * time.Minute)
	wait, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %s", limit))
	defer cancel()
	for {
		nodes, err := c.CoreV1().Nodes().List(wait, metav1.ListOptions{})
		if err == nil && readyNodes(nodes.Items) >= len(want) {
			return errors.Join(m.untaint(ctx, nodes.Items), m.nameNodes(ctx, want))
		}
		if err := procs.Sleep(wait, 100*time.Millisecond); err != nil {
			return err
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

// nameNodes has manifests find nodes by the names that scenarios have for them.
func (m *making) nameNodes(ctx context.Context, nodes []container) error {
	c, err := m.api()
	if err != nil {
		return err
	}
	for i, n := range nodes {
		if err := c.label(ctx, n.Name, lab.NodeLabel, ptr.To(lab.NodeName(i))); err != nil {
			return err
		}
	}
	return nil
}

// controlPlaneTaint keeps pods off nodes with a control plane. In a lab every node runs pods.
const controlPlaneTaint = "node-role.kubernetes.io/control-plane"

func (m *making) untaint(ctx context.Context, nodes []corev1.Node) error {
	c, err := m.api()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		isTaint := func(t corev1.Taint) bool { return t.Key == controlPlaneTaint }
		if !slices.ContainsFunc(n.Spec.Taints, isTaint) {
			continue
		}
		if !slices.Contains(m.state.Untaint, n.Name) {
			m.state.Untaint = append(m.state.Untaint, n.Name)
			if err := m.state.save(); err != nil { // before: whoever is killed in between still puts it back
				return err
			}
		}
		if err := c.setTaints(ctx, n.Name, slices.DeleteFunc(slices.Clone(n.Spec.Taints), isTaint)); err != nil {
			return err
		}
	}
	return nil
}

func (m *making) equipAll(ctx context.Context) error {
	return m.onEach(ctx, func(ctx context.Context, c container) error { return m.equip(ctx, c) })
}

// onEach does the same on all nodes at once.
func (l *Lab) onEach(ctx context.Context, f func(context.Context, container) error) error {
	nodes, err := l.nodes(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range nodes {
		g.Go(func() error {
			if err := f(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (m *making) fill(ctx context.Context) error {
	if m.opts.Fill == nil || m.state.Filled {
		return nil
	}
	if err := m.opts.Fill(ctx, m.Kubeconfig()); err != nil {
		return err
	}
	m.state.Filled = true
	return m.state.save()
}

// proxiers starts on each node what ran there last, or else what the lab was asked for.
func (m *making) proxiers(ctx context.Context) error {
	return m.onEach(ctx, func(ctx context.Context, c container) error {
		return proxierproc.Resume(ctx, m, c.Name, m.proxierFile(c.Name), m.state.Proxier)
	})
}

func (m *making) complete(context.Context) error {
	m.state.Complete = true
	return m.state.save()
}
