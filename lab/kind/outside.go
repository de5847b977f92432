package kind

import (
	"context"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outside runs the container whose network is the outside client: beside the nodes, and none of them. It is of the nodes'
// image, because that is the one that is there.
func (m *making) outside(ctx context.Context) error {
	if _, err := m.outsideClient(ctx); err == nil {
		return nil
	}
	if err := m.docker.remove(ctx, labLabel, m.Name()); err != nil {
		return err
	}
	nodes, err := m.nodes(ctx)
	if err != nil {
		return err
	}
	_, err = m.docker.run(ctx, "run", "--detach", "--name", outsideName(m.Name()), "--label", labLabel+"="+m.Name(), "--network", network,
		"--entrypoint", "sleep", nodes[0].Image, "infinity")
	return err
}

func outsideName(lab string) string { return "proxylab-" + lab + "-outside" }

// outsideClient finds it.
func (l *Lab) outsideClient(ctx context.Context) (container, error) {
	out, err := l.docker.run(ctx, "inspect", "--type=container", outsideName(l.Name()))
	if err != nil {
		return container{}, err
	}
	c, err := readOne(out)
	if err == nil && c.PID == 0 {
		err = fmt.Errorf("container %s does not run", c.Name)
	}
	return c, err
}

// waysToPods has the outside client reach pods directly, through their nodes, as it does in a lab of namespaces. Pods whose
// network does not give each node a range of its own are not reached.
func (m *making) waysToPods(ctx context.Context) error {
	c, err := m.api()
	if err != nil {
		return err
	}
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		node, err := m.node(ctx, n.Name)
		if err != nil {
			return err
		}
		for _, text := range n.Spec.PodCIDRs {
			pods, err := netip.ParsePrefix(text)
			if err != nil {
				return fmt.Errorf("pods' range of node %s: %w", n.Name, err)
			}
			if via := node.address(pods.Addr().Is6()); via.IsValid() {
				if err := m.command(ctx, "", "ip", "route", "replace", pods.String(), "via", via.String()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// address is the node's first one of a family; invalid where it has none.
func (c container) address(is6 bool) netip.Addr {
	for _, a := range c.Addresses {
		if a.Is6() == is6 {
			return a
		}
	}
	return netip.Addr{}
}
