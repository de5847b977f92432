package kind

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/procs"
	"proxylab/lab/proxierproc"
)

// upstreamPrefix is what the names of the real kube-proxy's modes begin with.
const upstreamPrefix = "kube-proxy/"

// specVar is in the environment of a node's proxier, and says how it was asked for.
const specVar = "PROXYLAB_SPEC"

// startLimit is how long a proxier may take to its first sync: of many Services it may take long.
const startLimit = 3 * time.Minute

// A node's proxier is found by its part among the lab's processes, as in the netns lab: a transient unit of systemd and a
// container of kube-proxy get the mark alike.
func proxierPart(node string) string { return "proxier/" + node }
func reportsPart(node string) string { return "reports/" + node }

func (l *Lab) proxierFile(node string) string {
	return filepath.Join(labdir.Node(l.Name(), node), "proxier.json")
}

// starting is a proxier that is being started on a node.
type starting struct {
	*Lab
	node container
	name string // of the proxier to run: the one that was asked for, or its fallback
	spec lab.ProxierSpec
	mark []string // environment by which it is found
	from int64    // where in the file of reports its own begin
}

// StartProxier starts a proxier on a node and returns when it has reported a sync without error. A native one is a
// transient unit of the node's systemd; an upstream one is the cluster's own kube-proxy, in a DaemonSet of the nodes that
// run this mode. When it ends before its first sync, or ctx does, the error says what it wrote last, and nothing runs.
func (l *Lab) StartProxier(ctx context.Context, node string, p lab.ProxierSpec) error {
	n, err := l.node(ctx, node)
	if err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("start proxier %s on %s: %w", p.Name, node, err) }
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not within %s", startLimit))
	defer cancel()
	unlock, err := labdir.LockFile(ctx, filepath.Join(labdir.Node(l.Name(), node), "lock"), nil)
	if err != nil {
		return err
	}
	defer unlock()
	if is, err := l.Proxier(ctx, node); err != nil {
		return err
	} else if is != nil && !(is.ProxierSpec == p && isUpstream(p.Name)) { // the kubelet starts what died anew by itself
		return fail(fmt.Errorf("%s runs there already", is.Name))
	}
	err = l.start(ctx, n, p.Name, p)
	if err != nil && p.Fallback != "" && isUpstream(p.Name) && ctx.Err() == nil { // a native one looks to that itself
		l.log.Warn("the proxier asked for does not run, its fallback runs in its place", "asked", p.Name, "runs", p.Fallback, "because", err)
		err = l.start(ctx, n, p.Fallback, p)
	}
	if err != nil {
		return fail(err)
	}
	return labdir.WriteJSON(l.proxierFile(node), p)
}

func isUpstream(name string) bool { return strings.HasPrefix(name, upstreamPrefix) }

func (l *Lab) start(ctx context.Context, n container, name string, p lab.ProxierSpec) error {
	spec, err := json.Marshal(p)
	if err != nil {
		return err
	}
	s := &starting{Lab: l, node: n, name: name, spec: p, mark: append(procs.Mark(l.Name(), proxierPart(n.Name)), specVar+"="+string(spec))}
	if s.from, err = s.openReports(); err != nil {
		return err
	}
	run := s.native
	if isUpstream(name) {
		run = s.upstream
	}
	if err := run(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(err, l.stop(stop, n))
	}
	return nil
}

// openReports has the file of reports there and returns its size.
func (s *starting) openReports() (int64, error) {
	f, err := os.OpenFile(s.node.root(nodeReports), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// awaitSync returns when the process has reported a sync without error.
func (s *starting) awaitSync(ctx context.Context, pid int, log func() string) error {
	return proxierproc.AwaitSync(ctx, s.node.root(nodeReports), s.from, ended(ctx, pid), log)
}

// ended says when a process that is no child of this one has ended, until ctx does.
func ended(ctx context.Context, pid int) <-chan error {
	end := make(chan error, 1)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		end <- err // it has ended
		return end
	}
	go func() {
		defer func() { _ = unix.Close(fd) }()
		for ctx.Err() == nil {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				end <- nil
				return
			}
		}
	}()
	return end
}

// StopProxier ends what runs on a node. Its rules stay.
func (l *Lab) StopProxier(ctx context.Context, node string) error {
	n, err := l.node(ctx, node)
	if err != nil {
		return err
	}
	if err := l.stop(ctx, n); err != nil {
		return fmt.Errorf("stop the proxier of %s: %w", node, err)
	}
	if err := os.Remove(l.proxierFile(node)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (l *Lab) stop(ctx context.Context, n container) error {
	// Whoever reads the reports of kube-proxy has its last word before that is gone.
	if err := procs.Stop(ctx, l.Name(), reportsPart(n.Name), 2*time.Second); err != nil {
		return err
	}
	return errors.Join(l.stopNative(ctx, n), l.stopUpstream(ctx, n))
}

// CleanupProxier removes what a proxier left in a node, by running it with --cleanup there, and the flows that the kernel
// remembers by its rules where another one's rules are to decide (see forgetFlows).
func (l *Lab) CleanupProxier(ctx context.Context, node string, p lab.ProxierSpec) (leftovers []string, err error) {
	left, err := proxierproc.Cleanup(ctx, l, node, nodeKubeconfig, p)
	if err != nil {
		return left, err
	}
	return left, l.forgetFlows(ctx, node)
}

// Proxier says what runs on a node now, from the process itself; nil: nothing.
func (l *Lab) Proxier(ctx context.Context, node string) (*lab.ProxierState, error) {
	n, err := l.node(ctx, node)
	if err != nil {
		return nil, err
	}
	p, err := procs.Root(l.Name(), proxierPart(node))
	if err != nil || p == nil {
		return nil, err
	}
	spec, ok := specOf(p.PID)
	if !ok {
		return nil, nil // it has just ended
	}
	started, err := proxierproc.StartTime(p.PID)
	if err != nil {
		return nil, nil //nolint:nilerr // the same
	}
	state := &lab.ProxierState{ProxierSpec: spec, PID: p.PID, Started: started, Reports: n.root(nodeReports), Log: n.root(nodeLog)}
	if log := containerLog(n); log != "" && runsKubeProxy(p.PID) {
		state.Log = log
	}
	return state, nil
}

// specOf reads how a proxier was asked for.
func specOf(pid int) (spec lab.ProxierSpec, ok bool) {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return spec, false
	}
	for _, kv := range bytes.Split(env, []byte{0}) {
		if value, found := bytes.CutPrefix(kv, []byte(specVar+"=")); found {
			return spec, json.Unmarshal(value, &spec) == nil
		}
	}
	return spec, false
}

// command runs a command on a node, or at the outside client where none is named; what it printed is part of the error.
func (l *Lab) command(ctx context.Context, node string, args ...string) error {
	var stderr bytes.Buffer
	p, err := l.Exec(ctx, lab.Place{Node: node}, lab.Command{Args: args, Stderr: &stderr})
	if err == nil {
		err = p.Wait()
	}
	if err != nil {
		return fmt.Errorf("on %s: %s: %w: %s", cmp.Or(node, "the outside client"), strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
