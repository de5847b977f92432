package plane_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/lab/lbaas/plane"
)

// haproxyConfig is what Octavia writes for a TCP listener without monitor, as far as it concerns traffic: the recorded
// configuration with other addresses.
func haproxyConfig(bind, algorithm, more string, servers []string) string {
	text := `global
    maxconn 8000

defaults
    retries 3
    option redispatch
    option splice-request
    option splice-response
    option http-keep-alive

frontend f
    maxconn 4000
    bind ` + bind + `
    mode tcp
    default_backend b
    timeout client 50000

backend b
    mode tcp
    balance ` + algorithm + `
` + more + `    fullconn 4000
    option allbackups
    timeout connect 5000
    timeout server 50000
`
	for _, s := range servers {
		text += "    server " + s + "\n"
	}
	return text
}

// haproxyProcess is a running haproxy.
type haproxyProcess struct {
	pid    int
	socket string // of its administration
}

// startHaproxy runs haproxy in a namespace until the test ends; it returns once it listens.
func (s *space) startHaproxy(t testing.TB, in, config string) haproxyProcess {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed: hack/deps.sh test")
	}
	dir := t.TempDir()
	h := haproxyProcess{socket: filepath.Join(dir, "socket")}
	config = strings.Replace(config, "global\n", "global\n    stats socket "+h.socket+" level admin\n", 1)
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-db", "-f", file)
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	if err := s.start(in, cmd); err != nil {
		t.Fatal(err)
	}
	h.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait()
	})
	for limit := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("unix", h.socket) // it binds this last
		if err == nil {
			c.Close()
			return h
		}
		if time.Now().After(limit) {
			t.Fatal("haproxy does not listen: ", err)
		}
	}
}

// planeOf starts a data plane that carries b.
func (s *space) planeOf(t testing.TB, b plane.Balancer, o plane.Options) *plane.Set {
	t.Helper()
	set := plane.NewSet(o)
	t.Cleanup(set.Close)
	go func() {
		for range set.Statuses() {
			continue
		}
	}()
	if err := set.Apply(t.Context(), []plane.Balancer{b}); err != nil {
		t.Fatal(err)
	}
	return set
}

// BenchmarkBesideHaproxy measures TCP throughput of both, in turn: each iteration is a second of each. The client is in a
// namespace of its own, the members in another, the balancer in a third.
//
//	go test -run - -bench BesideHaproxy -benchtime 6x ./lab/lbaas/plane
func BenchmarkBesideHaproxy(b *testing.B) {
	s := newSpace(b)
	serveStreams(b, s)
	members := []plane.Member{}
	servers, haproxies := map[int][]string{}, map[int]int{}
	for i := range 4 {
		a := netip.AddrFrom4([4]byte{10, 10, 0, byte(21 + i)})
		members = append(members, plane.Member{ID: fmt.Sprint("m", i), Address: a, Port: 9000, Weight: 1, AdminUp: true})
		for _, p := range []int{9000, 9001} {
			servers[p] = append(servers[p], fmt.Sprintf("m%d %s:%d weight 1", i, a, p))
		}
	}
	lb := plane.Balancer{ID: "lb", AdminUp: true, VIPs: []netip.Addr{netip.MustParseAddr("10.10.0.128")}}
	for _, p := range []int{9000, 9001} {
		pool := plane.Pool{ID: fmt.Sprint("p", p), Protocol: "TCP", Algorithm: "ROUND_ROBIN", AdminUp: true, Members: slices.Clone(members)}
		for i := range pool.Members {
			pool.Members[i].Port = uint16(p)
		}
		lb.Pools = append(lb.Pools, pool)
		lb.Listeners = append(lb.Listeners, plane.Listener{
			ID: fmt.Sprint("l", p), Protocol: "TCP", Port: uint16(p), AdminUp: true, DefaultPool: pool.ID})
		bind := fmt.Sprint("10.10.0.11:1", p)
		haproxies[p] = s.startHaproxy(b, "lb1", haproxyConfig(bind, "roundrobin", "", servers[p])).pid
	}
	own := 0
	s.planeOf(b, lb, plane.Options{Names: []string{"lb1"}, Start: func(ctx context.Context, name string) (plane.Process, error) {
		p, err := s.instances(ctx, name)
		if err == nil {
			own = p.PID()
		}
		return p, err
	}})
	b.Run("bulk", func(b *testing.B) {
		beside(b, "MB", s.bulk, contender{"10.10.0.11:19000", haproxies[9000]}, contender{"10.10.0.128:9000", own})
	})
	b.Run("connections", func(b *testing.B) {
		beside(b, "conn", s.connections, contender{"10.10.0.11:19001", haproxies[9001]}, contender{"10.10.0.128:9001", own})
	})
}

// contender is a balancer, and the process that is it.
type contender struct {
	at  string
	pid int
}

// cpu is what the process has used.
func (c contender) cpu(b *testing.B) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// serveStreams makes members that send for ever (9000) and that answer one byte and close (9001).
func serveStreams(b *testing.B, s *space) {
	chunk := make([]byte, 256<<10)
	for i := range 4 {
		a := netip.AddrFrom4([4]byte{10, 10, 0, byte(21 + i)})
		accept(b, s.listen(b, netip.AddrPortFrom(a, 9000)), func(c net.Conn) {
			for {
				if _, err := c.Write(chunk); err != nil {
					return
				}
			}
		})
		accept(b, s.listen(b, netip.AddrPortFrom(a, 9001)), func(c net.Conn) {
			buf := make([]byte, 1)
			if n, _ := c.Read(buf); n == 1 {
				_, _ = c.Write(buf)
			}
		})
	}
}

// beside measures both in turn and reports the medians of their rates, that of the ratios of neighbours, and how much CPU
// the balancer's process has used for each unit (which other work on the machine changes less than the rates).
func beside(b *testing.B, unit string, measure func(b *testing.B, at string) float64, haproxy, proxylab contender) {
	measure(b, haproxy.at)
	measure(b, proxylab.at)
	var rates, costs [2][]float64
	var ratio []float64
	for b.Loop() {
		for i, c := range []contender{haproxy, proxylab} {
			before := c.cpu(b)
			began := time.Now()
			rate := measure(b, c.at)
			rates[i] = append(rates[i], rate)
			costs[i] = append(costs[i], float64((c.cpu(b)-before).Microseconds())/(rate*time.Since(began).Seconds()))
		}
		n := len(rates[0]) - 1
		ratio = append(ratio, rates[1][n]/rates[0][n])
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"haproxy", "proxylab"} {
		b.ReportMetric(median(rates[i]), name+"-"+unit+"/s")
		b.ReportMetric(median(costs[i]), name+"-cpu-us/"+unit)
	}
	b.ReportMetric(median(ratio), "ratio")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

const second = time.Second

// bulk reads from eight connections for a second.
func (s *space) bulk(b *testing.B, at string) float64 {
	var total atomic.Int64
	var wg sync.WaitGroup
	var conns []net.Conn
	for range 8 {
		c, err := s.dial(net.Dialer{Timeout: patience}, "tcp", at)
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, c)
	}
	began := time.Now()
	for _, c := range conns {
		_ = c.SetDeadline(began.Add(second))
		wg.Go(func() {
			defer c.Close()
			n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 256<<10))
			total.Add(n)
		})
	}
	wg.Wait()
	return float64(total.Load()) / time.Since(began).Seconds() / 1e6
}

// connections opens one after the other, sixteen at a time, and sends a byte there and back through each.
func (s *space) connections(b *testing.B, at string) float64 {
	var total atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range 16 {
		wg.Go(func() {
			err := inSpace(s.path("fabric"), func() error {
				for time.Since(began) < second {
					if err := once(at); err != nil {
						return err
					}
					total.Add(1)
				}
				return nil
			})
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return float64(total.Load()) / time.Since(began).Seconds()
}

func once(at string) error {
	c, err := net.DialTimeout("tcp", at, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetLinger(0) // no TIME_WAIT: a run has more connections than there are ports
	buf := []byte{'x'}
	if _, err := c.Write(buf); err != nil {
		return err
	}
	_, err = io.ReadFull(c, buf)
	return err
}
