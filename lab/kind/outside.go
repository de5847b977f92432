package kind

import (
	"context"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outsidePlace is the container whose network is the outside client.
const outsidePlace = "outside"

// outside has it run.
func (m *making) outside(ctx context.Context) error {
	_, err := m.place(ctx, outsidePlace)
	return err
}

// outsideClient finds it.
func (l *Lab) outsideClient(ctx context.Context) (container, error) {
	return l.placeAt(ctx, outsidePlace)
}

// place has a container run that is nothing but its network, beside the nodes and none of them. It is of the nodes' image,
// because that is the one that is there.
func (m *making) place(ctx context.Context, what string) (container, error) {
	if c, err := m.placeAt(ctx, what); err == nil {
		return c, nil
	}
	name := placeName(m.Name(), what)
	if _, err := m.docker.run(ctx, "rm", "--force", "--volumes", name); err != nil && !gone(err) {
		return container{}, err
	}
	nodes, err := m.nodes(ctx)
	if err != nil {
		return container{}, err
	}
	if _, err := m.docker.run(ctx, "run", "--detach", "--name", name, "--label", labLabel+"="+m.Name(), "--network", network,
		"--entrypoint", "sleep", nodes[0].Image, "infinity"); err != nil {
		return container{}, err
	}
	return m.placeAt(ctx, what)
}

// placeAt finds the container of a place.
func (l *Lab) placeAt(ctx context.Context, what string) (container, error) {
	out, err := l.docker.run(ctx, "inspect", "--type=container", placeName(l.Name(), what))
	if err != nil {
		return container{}, err
	}
	c, err := readOne(out)
	if err == nil && c.PID == 0 {
		err = fmt.Errorf("container %s does not run", c.Name)
	}
	return c, err
}

func placeName(lab, what string) string { return "proxylab-" + lab + "-" + what }

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
