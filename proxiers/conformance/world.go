package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"proxylab/proxiers/conformance/dialer"
)

// Namespace is where the pods are that all rows use. Each row has a namespace of its own beside it.
const Namespace = "conformance"

// The places that rows ask from, by name. Node1 and Node2 stand for the lab's first two nodes.
const (
	Client  = "client"  // a pod on node 1
	Client2 = "client2" // another
	Far     = "far"     // a pod on node 2
	Local1  = "local1"  // backends on node 1
	Local2  = "local2"
	Remote1 = "remote1" // backends on node 2
	Remote2 = "remote2"
	Node1   = "node1"
	Node2   = "node2"
	Outside = "outside"
)

// Ports of backends.
const (
	httpPort = 8080
	tcpPort  = 8081
	udpPort  = 8082
	sctpPort = 8084
)

// podImages are the pods of a world: on which of the first two nodes, and what they run.
var podImages = []struct {
	name  string
	node  int
	image string
}{
	{Client, 0, "proxylab/client"}, {Client2, 0, "proxylab/client"}, {Far, 1, "proxylab/client"},
	{Local1, 0, "proxylab/echo"}, {Local2, 0, "proxylab/echo"}, {Remote1, 1, "proxylab/echo"}, {Remote2, 1, "proxylab/echo"},
}

// pod is a pod that is ready.
type pod struct {
	name string
	node string
	ips  map[Family]netip.Addr
}

// world is what is made in a lab once, for all proxiers and rows.
type world struct {
	cluster Cluster
	nodes   []Node // the first two
	zones   []string
	pods    map[string]pod

	mu        sync.Mutex
	dialers   map[string]*dialing
	addresses int     // given out
	settings  undoing // what was set in the lab
}

// dialing is a dialer at a place, or one that is being started.
type dialing struct {
	once   sync.Once
	client *dialer.Client
	proc   Process
	err    error
}

func newWorld(c Cluster) *world {
	return &world{cluster: c, pods: map[string]pod{}, dialers: map[string]*dialing{}}
}

// make makes the pods, or finds them where an earlier run left them. Close is for what a make that failed left, too.
func (w *world) make(ctx context.Context) error {
	c := w.cluster
	nodes := c.Nodes()
	if len(nodes) < 2 {
		return fmt.Errorf("the lab has %d node: conformance needs two", len(nodes))
	}
	w.nodes = nodes[:2]
	if err := w.label(ctx); err != nil {
		return err
	}
	if err := ensureNamespace(ctx, c, Namespace); err != nil {
		return err
	}
	g, within := errgroup.WithContext(ctx)
	for _, node := range []string{Node1, Node2} {
		g.Go(func() error { return w.noRationing(within, node) })
	}
	var mu sync.Mutex
	for _, p := range podImages {
		g.Go(func() error {
			made, err := w.ensurePod(within, p.name, nodes[p.node].Name, p.image)
			mu.Lock()
			defer mu.Unlock()
			w.pods[p.name] = made
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return w.leadOutside(ctx)
}

// label puts each node into a zone, unless it is in one, and remembers them.
func (w *world) label(ctx context.Context) error {
	nodes := w.cluster.Client().CoreV1().Nodes()
	for i, n := range w.nodes {
		node, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		zone := node.Labels[corev1.LabelTopologyZone]
		if zone == "" {
			zone = fmt.Sprintf("zone%d", i+1)
			set := func(ctx context.Context, value string) error {
				patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, corev1.LabelTopologyZone, value)
				_, err := nodes.Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			}
			if err := set(ctx, strconv.Quote(zone)); err != nil {
				return fmt.Errorf("label node %s: %w", n.Name, err)
			}
			w.settings.add(func(ctx context.Context) error { return set(ctx, "null") })
		}
		w.zones = append(w.zones, zone)
	}
	return nil
}

func ensureNamespace(ctx context.Context, c Cluster, name string) error {
	namespaces := c.Client().CoreV1().Namespaces()
	_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: c.Labels()}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var is *corev1.Namespace
		if is, err = namespaces.Get(ctx, name, metav1.GetOptions{}); err == nil && !labels.SelectorFromSet(c.Labels()).Matches(labels.Set(is.Labels)) {
			err = errors.New("somebody else has made it, and it would be deleted in the end")
		}
	}
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}

func (w *world) ensurePod(ctx context.Context, name, node, image string) (pod, error) {
	pods := w.cluster.Client().CoreV1().Pods(Namespace)
	none := int64(0)
	_, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node}, TerminationGracePeriodSeconds: &none,
			Containers: []corev1.Container{{Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return pod{}, fmt.Errorf("pod %s: %w", name, err)
	}
	for {
		p, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return pod{}, fmt.Errorf("pod %s: %w", name, err)
		}
		if ips := readyIPs(p); len(ips) == 2 {
			return pod{name, p.Spec.NodeName, ips}, nil
		}
		select {
		case <-ctx.Done():
			return pod{}, fmt.Errorf("pod %s is not ready: %w (phase %s, addresses %v)", name, context.Cause(ctx), p.Status.Phase, p.Status.PodIPs)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func readyIPs(p *corev1.Pod) map[Family]netip.Addr {
	ips := map[Family]netip.Addr{}
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue || p.DeletionTimestamp != nil {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil && a.Is6() {
				ips[IPv6] = a
			} else if err == nil {
				ips[IPv4] = a
			}
		}
	}
	return ips
}

// place finds a place by its name, and says in words what it is.
func (w *world) place(name string) (Place, string) {
	switch name {
	case Outside:
		return Place{}, "the outside"
	case Node1:
		return Place{Node: w.nodes[0].Name}, "node " + w.nodes[0].Name
	case Node2:
		return Place{Node: w.nodes[1].Name}, "node " + w.nodes[1].Name
	}
	return Place{Namespace: Namespace, Pod: name}, "pod " + name + " on " + w.pods[name].node
}

// dialer is the one at a place, started when it is first needed.
func (w *world) dialer(ctx context.Context, name string) (*dialer.Client, error) {
	w.mu.Lock()
	d := w.dialers[name]
	if d == nil {
		d = &dialing{}
		w.dialers[name] = d
	}
	w.mu.Unlock()
	d.once.Do(func() { d.err = w.startDialer(context.WithoutCancel(ctx), name, d) })
	return d.client, d.err
}

func (w *world) startDialer(ctx context.Context, name string, d *dialing) error {
	at, what := w.place(name)
	stdin, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return errors.Join(err, stdin.Close(), in.Close())
	}
	d.proc, err = w.cluster.Exec(ctx, at, Command{Args: []string{"proxylab", "dial"}, Stdin: stdin, Stdout: stdout, Stderr: io.Discard})
	// The process has its own copies: ours would keep it from seeing the end of its input.
	err = errors.Join(err, stdin.Close(), stdout.Close())
	if err != nil {
		return errors.Join(fmt.Errorf("start a dialer at %s: %w", what, err), in.Close(), out.Close())
	}
	d.client = dialer.NewClient(in, out)
	return nil
}

// address is one of the ranges for documentation; they are used again after some hundred.
func (w *world) address(f Family) netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addresses = w.addresses%250 + 1
	last := byte(w.addresses)
	a := ranges[f].Addr().AsSlice()
	a[len(a)-1] = last
	given, _ := netip.AddrFromSlice(a) // as long as it was
	return given
}

// close ends the dialers and removes the pods, whose namespace goes with all that is in it.
func (w *world) close(ctx context.Context) error {
	w.mu.Lock()
	all := w.dialers
	w.dialers = map[string]*dialing{}
	w.mu.Unlock()
	for _, d := range all {
		if d.client == nil {
			continue
		}
		_ = d.client.Close()
		select {
		case <-d.client.Done():
		case <-time.After(2 * time.Second):
			_ = d.proc.Kill() // it has ended just now, or does not want to
		}
		_ = d.proc.Wait() // how it ended is of no interest any more
	}
	asBefore := w.settings.run(ctx)
	err := w.cluster.Client().CoreV1().Namespaces().Delete(ctx, Namespace, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(err, asBefore)
}
