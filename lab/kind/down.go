package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/procs"
)

// Down removes everything that the lab has on this machine, by its name alone, whatever state it is in. A cluster that was
// adopted stays, as it was before. It is content when there is nothing.
func (l *Lab) Down(ctx context.Context) error {
	unlock, err := labdir.Lock(ctx, l.Name(), func() {
		l.log.Info("waiting for another proxylab that is at work on this lab")
	})
	if err != nil {
		return err
	}
	defer unlock()
	s, err := loadState(l.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return labdir.Forget(l.Name())
	}
	if err != nil {
		return err
	}
	if err := l.removeAll(ctx, s); err != nil {
		return fmt.Errorf("take down lab %s: %w", l.Name(), err)
	}
	err = labdir.Forget(l.Name())
	if err == nil {
		l.log.Info("lab is gone")
	}
	return err
}

func (l *Lab) removeAll(ctx context.Context, s state) error {
	// First whoever might still be making something, with the docker commands it runs; what those have asked Docker for by
	// then is a container with the cluster's label, now or in a moment.
	if err := procs.Stop(ctx, l.Name(), createPart, 0); err != nil {
		return err
	}
	if s.Adopted {
		if err := l.restore(ctx, s); err != nil {
			return err
		}
	}
	for round := 0; round < 2; round++ {
		if !s.Adopted {
			if err := l.docker.remove(ctx, clusterLabel, l.Name()); err != nil {
				return err
			}
		}
		if err := l.docker.remove(ctx, labLabel, l.Name()); err != nil {
			return err
		}
		if s.Complete {
			break // nobody was making anything
		}
		if err := procs.Sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	if err := procs.Stop(ctx, l.Name(), "", 200*time.Millisecond); err != nil {
		return err
	}
	if s.Network {
		return l.docker.removeNetwork(ctx)
	}
	return nil
}

// DownAll takes down every lab of this kind, also what a crash left of one.
func DownAll(ctx context.Context) error {
	names, err := names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names { // one after the other: the last one in kind's network removes it
		l, err := New(Options{Name: name, Log: slog.Default()})
		if err == nil {
			err = l.Down(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// names are the labs that say of themselves that they are of this kind.
func names() ([]string, error) {
	all, err := labdir.Names()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range all {
		if kind, err := labdir.Kind(name); err == nil && kind == Kind {
			found = append(found, name)
		}
	}
	return found, nil
}

// List lists the labs of this kind on this machine, also what a crash left of one.
func List(ctx context.Context) ([]lab.Info, error) {
	names, err := names()
	if err != nil {
		return nil, err
	}
	var all []lab.Info
	for _, name := range names {
		info, err := describe(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

func describe(ctx context.Context, name string) (lab.Info, error) {
	info := lab.Info{Name: name, Kind: Kind, Proxiers: map[string]string{}}
	s, err := loadState(name)
	if err != nil { // unreadable: leftovers
		return info, nil //nolint:nilerr // that is what the info says
	}
	info.Nodes, info.Created, info.Complete = s.Nodes, s.Created, s.Complete
	l, err := New(Options{Name: name})
	if err != nil {
		return info, err
	}
	nodes, err := l.nodes(ctx)
	if err != nil { // Docker does not run, or a node does not
		info.Complete = false
		return info, nil //nolint:nilerr // that is what the info says
	}
	info.Complete = info.Complete && len(nodes) >= s.Nodes
	if err := s.LBaaS.Tell(&info); err != nil {
		return info, err
	}
	for _, c := range nodes {
		p, err := l.Proxier(ctx, c.Name)
		if err != nil {
			return info, err
		}
		if p != nil {
			info.Proxiers[c.Name] = p.Name
		}
	}
	return info, nil
}
