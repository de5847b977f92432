package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab"
	"proxylab/lab/procs"
)

// garbage is how much of it may lie around, in percent of the live objects: less than Go's habit, as memory is what a lab
// is short of, not processor time between changes.
const garbage = "GOGC=75"

// release is how long the sockets of a killed process may outlive it, on a machine that is busy.
const release = 2 * time.Second

// starter is one run of Start.
type starter struct {
	Config
	paths
	state state
}

// process is a component that was found running or was started.
type process struct {
	part  string
	pid   int
	ended <-chan error // nil for a process of somebody else's
}

func (s *starter) start(ctx context.Context) error {
	running, missing, err := s.survey()
	if err != nil {
		return err
	}
	if err := s.loadState(); err != nil {
		return err
	}
	if err := ensurePKI(s.paths, s.state); err != nil {
		return err
	}
	if slices.Contains(missing, etcdPart) {
		if err := s.ensureData(ctx); err != nil {
			return err
		}
	}
	// A component waits for what it builds on by looking for that one's mark: no old one may be there.
	for _, part := range missing {
		if err := os.Remove(s.ready(part)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var sockets []*os.File
	if slices.Contains(missing, kubeAPIServer) {
		var moved bool
		if sockets, moved, err = s.openSockets(ctx); err != nil {
			return err
		}
		defer closeFiles(sockets)
		if moved {
			if running, missing, err = s.restartClients(ctx, running, missing); err != nil {
				return err
			}
		}
	}
	if err := writeKubeconfigs(s.paths, s.state); err != nil {
		return err
	}
	for _, part := range missing {
		p, err := s.launch(part, sockets)
		if err != nil {
			return err
		}
		running = append(running, p)
	}
	closeFiles(sockets) // the child has them: if it dies, clients are to be refused and not to hang
	return s.awaitAll(ctx, running)
}

// survey tells what runs and what does not.
func (s *starter) survey() (running []process, missing []string, err error) {
	for _, part := range parts {
		p, err := procs.Root(s.Lab, part)
		switch {
		case err != nil:
			return nil, nil, err
		case p == nil:
			missing = append(missing, part)
		default:
			running = append(running, process{part: part, pid: p.PID})
		}
	}
	return running, missing, nil
}

func (s *starter) loadState() error {
	want := newState(s.Config)
	old, err := loadState(s.paths)
	if err != nil {
		return err
	}
	if old == nil {
		s.state = want
		return want.save(s.paths)
	}
	s.state = *old
	return old.mustEqual(want)
}

// openSockets opens the API's sockets, on the port of last time if it can be had.
func (s *starter) openSockets(ctx context.Context) (sockets []*os.File, moved bool, err error) {
	sockets, port, err := openSockets(s.state)
	// A process that was killed is gone a moment before its sockets are.
	for end := time.Now().Add(release); errors.Is(err, unix.EADDRINUSE) && time.Now().Before(end); {
		if stop := procs.Sleep(ctx, 20*time.Millisecond); stop != nil {
			return nil, false, fmt.Errorf("%w (%w)", stop, err)
		}
		sockets, port, err = openSockets(s.state)
	}
	if errors.Is(err, unix.EADDRINUSE) && s.state.Port != 0 {
		anywhere := s.state
		anywhere.Port = 0
		var again error
		if sockets, port, again = openSockets(anywhere); again != nil {
			return nil, false, again
		}
		s.Log.Warn("the API moves to another port of 127.0.0.1", "taken", s.state.Port, "now", port)
		err = nil
	}
	if err != nil {
		return nil, false, err
	}
	moved = s.state.Port != 0 && s.state.Port != port
	if s.state.Port != port {
		s.state.Port = port
		if err := s.state.save(s.paths); err != nil {
			closeFiles(sockets)
			return nil, false, err
		}
	}
	return sockets, moved, nil
}

// restartClients ends those components that still talk to the port of before.
func (s *starter) restartClients(ctx context.Context, running []process, missing []string) ([]process, []string, error) {
	for _, part := range []string{kubeControllerManager, kubeScheduler} {
		if slices.Contains(missing, part) {
			continue
		}
		if err := procs.Stop(ctx, s.Lab, part, goodbye); err != nil {
			return nil, nil, err
		}
		if err := os.Remove(s.ready(part)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
		running = slices.DeleteFunc(running, func(p process) bool { return p.part == part })
		missing = append(missing, part)
	}
	return running, missing, nil
}

func (s *starter) launch(part string, sockets []*os.File) (process, error) {
	log, err := os.OpenFile(s.log(part), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return process{}, fmt.Errorf("log of %s: %w", part, err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(s.Executable, "component", part, "--dir", s.dir)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), garbage)
	cmd.Stdout, cmd.Stderr = log, log
	if part == kubeAPIServer {
		cmd.ExtraFiles = sockets
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", socketVar, len(sockets)))
	}
	if err := procs.Start(procs.Spec{Lab: s.Lab, Part: part, Cmd: cmd, Detached: true}); err != nil {
		return process{}, err
	}
	return process{part: part, pid: cmd.Process.Pid, ended: procs.Ended(cmd)}, nil
}

// awaitAll waits until each process has said that it is ready and the API leads to itself, and fails as soon as one
// has ended.
func (s *starter) awaitAll(ctx context.Context, all []process) error {
	limit := lab.Patience(patience)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %s", limit))
	defer cancel()
	begin := time.Now()
	waiting := slices.Clone(all)
	var service *serviceCheck
	for {
		for _, p := range all {
			if err := s.alive(p); err != nil {
				return err
			}
		}
		waiting = slices.DeleteFunc(waiting, func(p process) bool {
			is := s.readyPID(p.part) == p.pid
			if is {
				s.Log.Debug("component is ready", "lab", s.Lab, "part", p.part, "pid", p.pid, "seconds", time.Since(begin).Seconds())
			}
			return is
		})
		var missing error
		if len(waiting) == 0 {
			if service == nil {
				var err error
				if service, err = newServiceCheck(s.kubeconfig(admin.file), s.state.Address); err != nil {
					return err
				}
				defer service.close()
			}
			if missing = service.check(ctx); missing == nil {
				return nil
			}
		}
		if stop := procs.Sleep(ctx, 10*time.Millisecond); stop != nil {
			return s.explain(stop, waiting, missing)
		}
	}
}

// explain says what Start was still waiting for.
func (s *starter) explain(why error, waiting []process, missing error) error {
	for _, p := range waiting {
		missing = errors.Join(missing, fmt.Errorf("%s is not ready%s", p.part, s.tail(p.part)))
	}
	return fmt.Errorf("%w: %w", why, missing)
}

func (s *starter) alive(p process) error {
	var how error
	if p.ended == nil {
		if unix.Kill(p.pid, 0) == nil {
			return nil
		}
		how = errors.New("it is gone")
	} else {
		select {
		case how = <-p.ended:
			if how == nil {
				how = errors.New("exit status 0")
			}
		default:
			return nil
		}
	}
	return fmt.Errorf("%s ended: %w%s", p.part, how, s.tail(p.part))
}

// tail is the end of a component's log, for an error.
func (s *starter) tail(part string) string {
	const lines, size = 15, 16 << 10
	f, err := os.Open(s.log(part))
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, end-size), io.SeekStart)
	}
	b, err := io.ReadAll(io.LimitReader(f, size))
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return fmt.Sprintf("; its log %s is empty", f.Name())
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return fmt.Sprintf("; the end of %s:\n%s", f.Name(), strings.Join(all[max(0, len(all)-lines):], "\n"))
}
