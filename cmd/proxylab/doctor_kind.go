package main

import (
	"context"
	"fmt"

	"proxylab/lab/kind"
)

// kindFindings says whether labs can be made by kind, and what of this machine they have to allow for.
func kindFindings(ctx context.Context) []finding {
	const what = "lab kind"
	var found []finding
	for _, m := range kind.Preflight(ctx, kind.DefaultNodes) {
		found = append(found, finding{What: what, Detail: m.What, Remedy: m.Remedy})
	}
	if len(found) == 0 {
		found = append(found, finding{What: what, OK: true, Detail: "Docker runs and obeys"})
	}
	machine := kind.Examine()
	if n := machine.Inotify; n > 0 && n < kind.InotifyAdvised {
		found = append(found, finding{What: what, Detail: fmt.Sprintf("fs.inotify.max_user_instances is %d: enough for %d nodes", n, kind.NodesFor(n)),
			Remedy: fmt.Sprintf("for more: sysctl -w fs.inotify.max_user_instances=%d", kind.InotifyAdvised)})
	}
	if machine.CgroupV1 {
		found = append(found, finding{What: what, OK: true, Detail: "cgroup v1: the kubelet is told to bear it (failCgroupV1: false)"})
	}
	if machine.NoResource {
		found = append(found, finding{What: what, OK: true, Detail: "root lacks CAP_SYS_RESOURCE: containerd on the nodes is told not to need it (restrict_oom_score_adj)"})
	}
	return found
}
