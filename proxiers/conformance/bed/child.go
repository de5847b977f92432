package bed

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

const proxierVar = "PROXYLAB_BED_PROXIER"

// Factory makes a proxier for the network namespace that it is called in.
type Factory func(log *slog.Logger) (runner.Proxier, error)

// Main is for TestMain of a package whose tests use Bed.Proxier:
//
//	func TestMain(m *testing.M) { os.Exit(bed.Main(m, map[string]bed.Factory{"iptables/legacy": ...})) }
//
// The test binary is run again inside the node to be the proxier, so that all of its threads, goroutines and commands
// are in the node and nothing of it can ever touch the machine's own namespace.
func Main(m *testing.M, factories map[string]Factory) int {
	name, isChild := os.LookupEnv(proxierVar)
	if !isChild {
		return m.Run()
	}
	if err := child(factories[name], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "proxier %s in the test bed: %v\n", name, err)
		return 1
	}
	return 0
}

// request and answer travel by gob between the test and the proxier in the node.
type request struct {
	Cleanup bool
	Timeout time.Duration // what is left of the caller's; 0: no limit
	Node    services.Node
	Ports   []*services.ServicePort
	Changed []services.Key
	Full    bool
}

type answer struct {
	Hello  bool // the first answer: the proxier was made
	Report runner.SyncReport
	Error  string
}

func child(factory Factory, in io.Reader, out io.Writer) error {
	if factory == nil {
		return errors.New("TestMain does not know it")
	}
	dec, enc := gob.NewDecoder(in), gob.NewEncoder(out)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p, err := factory(log)
	if err != nil {
		return errors.Join(err, enc.Encode(answer{Error: err.Error()}))
	}
	if err := enc.Encode(answer{Hello: true}); err != nil {
		return err
	}
	for {
		var req request
		if err := dec.Decode(&req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := enc.Encode(obey(p, req)); err != nil {
			return err
		}
	}
}

func obey(p runner.Proxier, req request) (a answer) {
	ctx := context.Background()
	if req.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, req.Timeout)
		defer cancel()
	}
	var err error
	if req.Cleanup {
		err = p.Cleanup(ctx)
	} else {
		want := services.Snapshot{Node: req.Node, Full: req.Full,
			Ports: map[services.Key]*services.ServicePort{}, Changed: map[services.Key]struct{}{}}
		for _, port := range req.Ports {
			want.Ports[port.Key] = port
		}
		for _, k := range req.Changed {
			want.Changed[k] = struct{}{}
		}
		a.Report, err = p.Sync(ctx, want)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// Proxier is a proxier that runs in node1 as a process of its own. It is a runner.Proxier.
type Proxier struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	enc    *gob.Encoder
	dec    *gob.Decoder
	stderr *lockedBuffer
	stop   sync.Once
	exited error
}

var _ runner.Proxier = (*Proxier)(nil)

// Proxier starts a proxier of the package's TestMain (see Main) in node1. It is ended with the test; what it logs is
// shown when the test fails.
func (b *Bed) Proxier(name string) *Proxier {
	b.t.Helper()
	p, err := b.startProxier(name)
	if p != nil {
		b.t.Cleanup(func() {
			p.Stop()
			if b.t.Failed() {
				b.t.Logf("--- log of %s:\n%s", name, p.Log())
			}
		})
	}
	if err != nil {
		b.t.Fatalf("proxier %s in the test bed: %v", name, err)
	}
	return p
}

func (b *Bed) startProxier(name string) (*Proxier, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Proxier{name: name, stderr: &lockedBuffer{}}
	// Should the package lack a TestMain with Main in it, the child runs no test and the greeting below is missing.
	p.cmd = exec.Command(exe, "-test.run=^$")
	p.cmd.Env = append(os.Environ(), proxierVar+"="+name)
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := b.RunInNode(p.cmd.Start); err != nil {
		return nil, err
	}
	p.enc, p.dec = gob.NewEncoder(p.stdin), gob.NewDecoder(stdout)
	var hello answer
	if err := p.dec.Decode(&hello); err != nil {
		return p, fmt.Errorf("no greeting (is bed.Main called in TestMain?): %w", err)
	}
	if !hello.Hello {
		return p, errors.New(hello.Error)
	}
	return p, nil
}

// Sync has the proxier make the node match the snapshot.
func (p *Proxier) Sync(ctx context.Context, want services.Snapshot) (runner.SyncReport, error) {
	req := request{Node: want.Node, Full: want.Full}
	for _, port := range want.Ports {
		req.Ports = append(req.Ports, port)
	}
	for k := range want.Changed {
		req.Changed = append(req.Changed, k)
	}
	return p.ask(ctx, req)
}

// SyncTo has a proxier make the node serve the list: by a full pass where last is zero, otherwise by a partial one from there.
// It fails the test where that fails, or where the pass was of the other kind. What was synced is the next last.
func (b *Bed) SyncTo(p *Proxier, last *services.Snapshot, list ...Service) runner.SyncReport {
	b.t.Helper()
	var want services.Snapshot
	if last.Ports == nil {
		want = b.Snapshot(list...)
	} else {
		want = b.Next(*last, list...)
	}
	report, err := p.Sync(context.Background(), want)
	if err != nil {
		b.t.Fatalf("sync: %v", err)
	}
	if report.Full != want.Full {
		b.t.Errorf("asked for full=%v, done full=%v", want.Full, report.Full)
	}
	*last = want
	return report
}

// Cleanup has the proxier remove what it put on the node.
func (p *Proxier) Cleanup(ctx context.Context) error {
	_, err := p.ask(ctx, request{Cleanup: true})
	return err
}

// ask sends a request and waits for its answer. A proxier that is given up on by its context is killed.
func (p *Proxier) ask(ctx context.Context, req request) (runner.SyncReport, error) {
	if deadline, ok := ctx.Deadline(); ok {
		req.Timeout = max(time.Until(deadline), time.Millisecond)
	}
	answered := make(chan struct{})
	defer close(answered)
	defer context.AfterFunc(ctx, func() {
		// The proxier has the same deadline: it may still be telling about it.
		select {
		case <-answered:
		case <-time.After(5 * time.Second):
			p.Kill()
		}
	})()
	if err := p.enc.Encode(req); err != nil {
		return runner.SyncReport{}, fmt.Errorf("proxier %s is gone: %w", p.name, err)
	}
	var a answer
	if err := p.dec.Decode(&a); err != nil {
		return runner.SyncReport{}, fmt.Errorf("proxier %s is gone: %w: %s", p.name, err, p.Log())
	}
	if a.Error != "" {
		return a.Report, errors.New(a.Error)
	}
	return a.Report, nil
}

// Stop ends the process, politely first. Its rules stay.
func (p *Proxier) Stop() {
	p.stop.Do(func() {
		_ = p.stdin.Close()
		late := time.AfterFunc(10*time.Second, p.Kill)
		p.exited = p.cmd.Wait()
		late.Stop()
	})
}

// Kill ends the process at once, as a crash would. Its rules stay.
func (p *Proxier) Kill() { _ = p.cmd.Process.Kill() }

// Log is what the proxier wrote to standard error so far.
func (p *Proxier) Log() string { return p.stderr.String() }

// PID of the proxier's process.
func (p *Proxier) PID() int { return p.cmd.Process.Pid }

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(slices.Collect(strings.Lines(b.buf.String())), "")
}
