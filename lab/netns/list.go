package netns

import (
	"context"

	"proxylab/lab"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/procs"
)

// Info is what can be said about a lab from outside.
type Info = lab.Info

// List lists the labs of this kind on this machine, sorted by name, also what a crash left of one.
func List(ctx context.Context) ([]Info, error) {
	names, err := names()
	if err != nil {
		return nil, err
	}
	var all []Info
	for _, name := range names {
		info, err := describe(ctx, name)
		if err != nil {
			return nil, err
		}
		if info != nil {
			all = append(all, *info)
		}
	}
	return all, nil
}

func describe(ctx context.Context, name string) (*Info, error) {
	info := &Info{Name: name, Kind: Kind, Proxiers: map[string]string{}}
	s, err := loadState(name)
	if err != nil { // missing or unreadable: leftovers
		return info, nil //nolint:nilerr // that is what the info says
	}
	l, err := New(Options{Name: name})
	if err != nil {
		return nil, err
	}
	info.Nodes, info.Created, info.Complete = s.Nodes, s.Created, s.Complete
	plan := fabric.Plan{Lab: name, Count: s.Nodes}
	info.Complete = info.Complete && fabric.Complete(plan, mountDir(name))
	running, err := procs.Find(name)
	if err != nil {
		return nil, err
	}
	parts := map[string]bool{}
	for _, p := range running {
		parts[p.Part] = true
	}
	if err := s.LBaaS.Tell(info); err != nil {
		return nil, err
	}
	for _, part := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", agentPart} {
		info.Complete = info.Complete && parts[part]
	}
	for _, n := range plan.Nodes() {
		p, err := l.Proxier(ctx, n.Name)
		if err != nil {
			return nil, err
		}
		if p != nil {
			info.Proxiers[n.Name] = p.Name
		}
	}
	return info, nil
}
