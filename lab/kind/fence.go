package kind

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"proxylab/lab"
)

// fenceTable is a table of nftables on each node that keeps packets to Services from leaving the cluster. A node without a
// proxier's rules, as between two modes, sends them to its default gateway, and who answers there is none of ours. What a
// proxier has led to an endpoint has another destination by then.
const fenceTable = "proxylab-fence"

// fence is the table's text.
func fence(ranges []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s\ndelete table inet %s\ntable inet %s {\n  chain leaving {\n    type filter hook postrouting priority 300\n", fenceTable, fenceTable, fenceTable)
	for _, r := range ranges {
		family := "ip"
		if strings.Contains(r, ":") {
			family = "ip6"
		}
		fmt.Fprintf(&b, "    oifname \"eth0\" %s daddr %s drop\n", family, r)
	}
	b.WriteString("  }\n}\n")
	return b.String()
}

// fenceIn puts it on a node.
func (m *making) fenceIn(ctx context.Context, c container) error {
	ranges, err := m.serviceRanges(ctx)
	if err != nil || len(ranges) == 0 {
		return err
	}
	p, err := m.Exec(ctx, lab.Place{Node: c.Name}, lab.Command{Args: []string{"nft", "-f", "-"}, Stdin: strings.NewReader(fence(ranges))})
	if errors.Is(err, exec.ErrNotFound) {
		m.log.Warn("the node has no nft: packets to Services leave the cluster while no proxier runs", "node", c.Name)
		return nil
	}
	if err == nil {
		err = p.Wait()
	}
	if err != nil {
		return fmt.Errorf("keep packets to Services in the cluster: %w", err)
	}
	return nil
}
