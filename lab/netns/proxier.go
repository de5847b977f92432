package netns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/procs"
	"proxylab/lab/proxierproc"
)

func proxierPart(node string) string { return "proxier/" + node }

func (l *Lab) reports(node string) string {
	return filepath.Join(labdir.Node(l.Name(), node), "reports.jsonl")
}
func (l *Lab) proxierLog(node string) string {
	return filepath.Join(labdir.Node(l.Name(), node), "proxier.log")
}
func (l *Lab) proxierFile(node string) string {
	return filepath.Join(labdir.Node(l.Name(), node), "proxier.json")
}

// StartProxier starts a proxier on a node and returns when it has reported a sync without error. When it ends before,
// or ctx does, the error says what it wrote last, and nothing runs.
func (l *Lab) StartProxier(ctx context.Context, node string, p lab.ProxierSpec) error {
	if _, err := l.node(node); err != nil {
		return err
	}
	unlock, err := labdir.LockFile(ctx, filepath.Join(labdir.Node(l.Name(), node), "lock"), nil)
	if err != nil {
		return err
	}
	defer unlock()
	if is, err := l.Proxier(ctx, node); err != nil {
		return err
	} else if is != nil {
		return fmt.Errorf("start proxier %s on %s: %s runs there already", p.Name, node, is.Name)
	}
	ended, offset, err := l.launchProxier(node, p)
	if err != nil {
		return fmt.Errorf("start proxier %s on %s: %w", p.Name, node, err)
	}
	if err := proxierproc.AwaitSync(ctx, l.reports(node), offset, ended, func() string { return proxierproc.Tail(l.proxierLog(node)) }); err != nil {
		stop := procs.Stop(context.WithoutCancel(ctx), l.Name(), proxierPart(node), time.Second)
		return errors.Join(fmt.Errorf("start proxier %s on %s: %w", p.Name, node, err), stop)
	}
	return labdir.WriteJSON(l.proxierFile(node), p)
}

// launchProxier starts the process. It returns where in the file of reports its own begin.
func (l *Lab) launchProxier(node string, p lab.ProxierSpec) (ended <-chan error, offset int64, err error) {
	cmd, closeLog, err := l.command(l.proxierLog(node), proxierproc.Args(node, l.kubeconfig("proxier"), p)...)
	if err != nil {
		return nil, 0, err
	}
	defer closeLog()
	reports, err := os.OpenFile(l.reports(node), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = reports.Close() }()
	st, err := reports.Stat()
	if err != nil {
		return nil, 0, err
	}
	cmd.Stdout = reports
	if err := procs.Start(procs.Spec{
		Lab: l.Name(), Part: proxierPart(node), Cmd: cmd, Detached: true,
		NetNS: fabric.NodePath(l.Name(), node), MountNS: fabric.MountPath(mountDir(l.Name()), node),
	}); err != nil {
		return nil, 0, err
	}
	return procs.Ended(cmd), st.Size(), nil
}

// StopProxier ends what runs on a node. Its rules stay.
func (l *Lab) StopProxier(ctx context.Context, node string) error {
	if _, err := l.node(node); err != nil {
		return err
	}
	if err := procs.Stop(ctx, l.Name(), proxierPart(node), 5*time.Second); err != nil {
		return fmt.Errorf("stop the proxier of %s: %w", node, err)
	}
	if err := os.Remove(l.proxierFile(node)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// CleanupProxier removes what a proxier left in a node, by running it with --cleanup there.
func (l *Lab) CleanupProxier(ctx context.Context, node string, p lab.ProxierSpec) (leftovers []string, err error) {
	return proxierproc.Cleanup(ctx, l, node, l.kubeconfig("proxier"), p)
}

// Proxier says what runs on a node now, from the process itself; nil: nothing.
func (l *Lab) Proxier(_ context.Context, node string) (*lab.ProxierState, error) {
	if _, err := l.node(node); err != nil {
		return nil, err
	}
	p, err := procs.Root(l.Name(), proxierPart(node))
	if err != nil || p == nil {
		return nil, err
	}
	spec, ok := proxierproc.SpecOf(p.PID)
	if !ok {
		return nil, nil // it has just ended
	}
	started, err := proxierproc.StartTime(p.PID)
	if err != nil {
		return nil, nil //nolint:nilerr // the same
	}
	return &lab.ProxierState{
		ProxierSpec: spec, PID: p.PID, Started: started, Reports: l.reports(node), Log: l.proxierLog(node),
	}, nil
}
