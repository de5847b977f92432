package main

import (
	"context"
	"slices"
	"strings"

	"proxylab/proxiers"
)

// neighbours says what other packet filters there are where the doctor runs. Labs have namespaces of their own, so it only
// matters for a proxier that is run right here.
func neighbours(ctx context.Context) []finding {
	n, err := proxiers.FindNeighbours(ctx)
	if err != nil {
		return []finding{{What: "rules of others", Detail: err.Error()}}
	}
	detail := "none in this network namespace"
	if all := slices.Concat(n.Legacy, n.NFT); len(all) > 0 {
		detail = "tables " + strings.Join(all, ", ") + "; labs neither see nor touch them"
	}
	findings := []finding{{What: "rules of others", OK: true, Detail: detail}}
	for _, w := range n.Warnings() {
		findings = append(findings, finding{What: "rules of others", Detail: w,
			Remedy: "nothing to do for labs; for a proxier on this very node, keep to one back end and one owner of Service rules"})
	}
	return findings
}
