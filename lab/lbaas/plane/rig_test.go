package plane_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"proxylab/lab/lbaas/plane"
)

// TestMain lets the test binary be an instance too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == plane.InstanceCommand {
		if err := plane.InstanceMain(context.Background(), os.Stdin, os.Stdout, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// addresses gives every test its own: VIPs and members below 127/8, all of which is local.
var addresses atomic.Uint32

func newAddr() netip.Addr {
	n := addresses.Add(1)
	return netip.AddrFrom4([4]byte{127, 210, byte(n >> 8), byte(n)})
}

const port = 8080

// rig is a data plane whose instances are goroutines of the test.
type rig struct {
	t   *testing.T
	set *plane.Set
	vip netip.Addr
	at  string // VIP and port

	mu     sync.Mutex
	status plane.Status // of balancer lb
	news   chan struct{}
}

func newRig(t *testing.T) *rig {
	return newRigOf(t, plane.Options{Names: []string{"lb1"}, Start: startInProcess})
}

func newRigOf(t *testing.T, o plane.Options) *rig {
	t.Helper()
	if testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	r := &rig{t: t, set: plane.NewSet(o), vip: newAddr(), news: make(chan struct{}, 1)}
	r.at = netip.AddrPortFrom(r.vip, port).String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for batch := range r.set.Statuses() {
			r.mu.Lock()
			for _, s := range batch {
				if s.ID == "lb" {
					r.status = s
				}
			}
			r.mu.Unlock()
			select {
			case r.news <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() { r.set.Close(); <-done })
	return r
}

// inProcess is an instance that is a goroutine.
type inProcess struct {
	io.WriteCloser
	out    *io.PipeReader
	cancel context.CancelFunc
	ended  chan error
}

func (p *inProcess) Output() io.Reader { return p.out }
func (p *inProcess) PID() int          { return os.Getpid() }
func (p *inProcess) Wait() error       { return <-p.ended }
func (p *inProcess) Kill() error       { p.cancel(); return nil }

func startInProcess(_ context.Context, name string) (plane.Process, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	p := &inProcess{WriteCloser: inW, out: outR, cancel: cancel, ended: make(chan error, 1)}
	go func() {
		err := plane.Instance(ctx, inR, outW, plane.InstanceOptions{Name: name})
		_ = inR.Close()
		_ = outW.Close()
		p.ended <- err
	}()
	return p, nil
}

// startChild starts an instance as a process of its own.
func startChild(args ...string) func(context.Context, string) (plane.Process, error) {
	return func(ctx context.Context, name string) (plane.Process, error) {
		cmd := exec.CommandContext(ctx, os.Args[0], slices.Concat([]string{plane.InstanceCommand, "--name", name}, args)...)
		cmd.Stderr = os.Stderr
		return plane.StartCommand(cmd, (*exec.Cmd).Start)
	}
}

// apply gives the plane one balancer.
func (r *rig) apply(b plane.Balancer) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := r.set.Apply(ctx, []plane.Balancer{b}); err != nil {
		r.t.Fatal(err)
	}
}

// balancer is one with one listener and one pool.
func (r *rig) balancer(protocol string, members ...plane.Member) plane.Balancer {
	poolProtocol := protocol
	if protocol == "TERMINATED_HTTPS" {
		poolProtocol = "HTTP"
	}
	return plane.Balancer{
		ID: "lb", AdminUp: true, VIPs: []netip.Addr{r.vip},
		Listeners: []plane.Listener{{ID: "l", Protocol: protocol, Port: port, AdminUp: true, DefaultPool: "p"}},
		Pools:     []plane.Pool{{ID: "p", Protocol: poolProtocol, Algorithm: "ROUND_ROBIN", AdminUp: true, Members: members}},
	}
}

// await waits for a status.
func (r *rig) await(what string, ok func(plane.Status) bool) plane.Status {
	r.t.Helper()
	limit := time.After(patience)
	for {
		r.mu.Lock()
		s := r.status
		r.mu.Unlock()
		if ok(s) {
			return s
		}
		select {
		case <-r.news:
		case <-limit:
			r.t.Fatalf("%s did not come: %+v", what, s)
		}
	}
}

// server is a member: it says its name, and then gives back what it gets.
type server struct {
	plane.Member
	accepted atomic.Int64
	listener net.Listener
}

func newServer(t *testing.T, name string) *server {
	t.Helper()
	return serverAt(t, name, netip.AddrPortFrom(newAddr(), 9000), echoAs(name))
}

func echoAs(name string) func(net.Conn) {
	return func(c net.Conn) {
		fmt.Fprintf(c, "%s\n", name)
		_, _ = io.Copy(c, c)
	}
}

// accept serves each connection that comes, until the test is over.
func accept(t testing.TB, l net.Listener, serve func(net.Conn)) {
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	})
	t.Cleanup(func() { l.Close(); loop.Wait() })
}

func serverAt(t *testing.T, name string, at netip.AddrPort, serve func(net.Conn)) *server {
	t.Helper()
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Member: plane.Member{ID: name, Address: at.Addr(), Port: at.Port(), Weight: 1, AdminUp: true}, listener: l}
	accept(t, l, func(c net.Conn) {
		s.accepted.Add(1)
		serve(c)
	})
	return s
}

// refusing is a member where nothing listens.
func refusing(name string) plane.Member {
	return plane.Member{ID: name, Address: newAddr(), Port: 9000, Weight: 1, AdminUp: true}
}

func members(servers ...*server) []plane.Member {
	var all []plane.Member
	for _, s := range servers {
		all = append(all, s.Member)
	}
	return all
}

// client is a connection through the balancer.
type client struct {
	*net.TCPConn
	r      *bufio.Reader
	member string
}

// dialFrom connects from an address (invalid: any), and reads who answers.
func dialFrom(from netip.Addr, to string) (*client, error) {
	d := net.Dialer{Timeout: patience}
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	c, err := d.Dial("tcp", to)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	cl := &client{TCPConn: c.(*net.TCPConn), r: bufio.NewReader(c)}
	line, err := cl.r.ReadString('\n')
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("no member: %w", err)
	}
	cl.member = strings.TrimSpace(line)
	return cl, nil
}

func (r *rig) dial() *client {
	r.t.Helper()
	c, err := dialFrom(netip.Addr{}, r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// who asks n times, one connection after the other, and lists who answered.
func (r *rig) who(from netip.Addr, n int) []string {
	r.t.Helper()
	var all []string
	for range n {
		c, err := dialFrom(from, r.at)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, c.member)
		c.Close()
	}
	return all
}

func count(names []string) map[string]int {
	n := map[string]int{}
	for _, name := range names {
		n[name]++
	}
	return n
}

// echoes says whether the connection still carries bytes both ways.
func (c *client) echoes(t *testing.T, text string) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "%s\n", text); err != nil {
		t.Fatal(err)
	}
	if line, err := c.r.ReadString('\n'); err != nil || line != text+"\n" {
		t.Fatalf("got %q, %v", line, err)
	}
}

func same(t *testing.T, what string, got, want map[string]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
