package kind

import (
	"context"
	"errors"
	"os/exec"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// forgetFlows has a node's kernel forget the UDP flows that a proxier's rules led somewhere, or that went to a Service
// while no rules were there: it asks no rule again for a flow that it remembers, and such a flow has no end that it sees. A TCP
// connection has one, and stays: that it outlives a change of the mode is what is to be seen.
func (l *Lab) forgetFlows(ctx context.Context, node string) error {
	ranges, err := l.serviceRanges(ctx)
	if err != nil {
		return err
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		filters := [][]string{{"--dst-nat"}}
		for _, r := range ranges {
			if strings.Contains(r, ":") == (family == "ipv6") {
				filters = append(filters, []string{"--orig-dst", r})
			}
		}
		for _, f := range filters {
			err := l.command(ctx, node, append([]string{"conntrack", "-D", "-f", family, "-p", "udp"}, f...)...)
			if errors.Is(err, exec.ErrNotFound) {
				l.log.Debug("the node has no conntrack program: UDP flows stay as the old mode left them", "node", node)
				return nil
			}
			if err != nil && !strings.Contains(err.Error(), "0 flow entries") { // which is a failure to conntrack
				return err
			}
		}
	}
	return nil
}

// serviceRanges are those that addresses of Services are from.
func (l *Lab) serviceRanges(ctx context.Context) ([]string, error) {
	c, err := l.api()
	if err != nil {
		return nil, err
	}
	list, err := c.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, nil //nolint:nilerr // before Kubernetes 1.33 the API does not tell
	}
	var all []string
	for _, r := range list.Items {
		all = append(all, r.Spec.CIDRs...)
	}
	return all, nil
}
