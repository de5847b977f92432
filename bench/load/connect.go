package load

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runConnect makes TCP connections and reads the line that names the pod.
func runConnect(j *job) error {
	workers := j.spec.workers()
	if j.spec.SourcePort > 0 {
		workers = j.spec.Count // a port is one connection's at a time
	}
	next := j.spec.roundRobin()
	j.openLoop(workers, func(worker int, due time.Time) {
		ctx, cancel := context.WithDeadline(j.hard, due.Add(j.spec.Timeout))
		defer cancel()
		j.rec.sent(time.Since(due))
		c, err := j.open(ctx, next(), j.spec.port(worker))
		if err != nil {
			j.fail(err)
			return
		}
		_ = c.Close()
		j.rec.success(c.pod, time.Since(due), c.greeting)
		j.rec.seenAs(c.client)
	})
	return nil
}

// roundRobin returns a function that gives one target after the other.
func (s Spec) roundRobin() func() string {
	var n atomic.Uint64
	return func() string { return s.Targets[(n.Add(1)-1)%uint64(len(s.Targets))] }
}

// port is the source port of a worker; 0: any.
func (s Spec) port(worker int) int {
	if s.SourcePort == 0 {
		return 0
	}
	return s.SourcePort + worker
}

// conn is a connection to a server of the echo protocol that said who it is.
type conn struct {
	net.Conn
	in       *bufio.Reader
	pod      string
	client   string // address that the server sees as ours, without the port; "": it does not say
	greeting int64  // bytes
}

// open makes a connection, notes how long it took to be established, and reads the line that names the pod.
func (j *job) open(ctx context.Context, target string, port int) (*conn, error) {
	return open(ctx, target, port, j.rec.connected)
}

// open makes a connection and reads the line that names the pod, until ctx's deadline. It tells established how long
// the connection took, also when no line follows.
func open(ctx context.Context, target string, port int, established func(time.Duration)) (*conn, error) {
	if ctx.Err() != nil {
		return nil, errUnsent
	}
	raw, err := dial(ctx, "tcp", target, port, established)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, in: bufio.NewReaderSize(raw, 512)}
	defer interrupt(ctx, raw)()
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		c.pod, err = podOf(line)
		c.client = clientOf(line)
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	c.greeting = int64(len(line))
	return c, nil
}

// interrupt ends what waits on c when ctx is done, until the returned function is called.
func interrupt(ctx context.Context, c net.Conn) (release func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
}

// dial connects, from a fixed port where that is not 0. However a TCP connection ends, it ends by RST, which leaves no
// port in TIME-WAIT, until keep is called.
func dial(ctx context.Context, network, target string, port int, established func(time.Duration)) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	if port > 0 {
		d.LocalAddr = &net.TCPAddr{Port: port}
		if network == "udp" {
			d.LocalAddr = &net.UDPAddr{Port: port}
		}
	}
	d.Control = func(network, _ string, raw syscall.RawConn) error {
		return prepare(raw, strings.HasPrefix(network, "tcp"), port > 0)
	}
	begin := time.Now()
	c, err := d.DialContext(ctx, network, target)
	if err == nil && established != nil {
		established(time.Since(begin))
	}
	return c, err
}

// prepare sets up a socket before it connects. A fixed port can be bound although an earlier socket with it lingers;
// with ports that the kernel chooses, it would make two UDP sockets share one. A connect that is given up leaves
// nothing behind.
func prepare(raw syscall.RawConn, tcp, fixed bool) error {
	var err error
	ctlErr := raw.Control(func(fd uintptr) {
		if fixed {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		}
		if err == nil && tcp {
			err = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}
	})
	return errors.Join(ctlErr, os.NewSyscallError("setsockopt", err))
}

// keep makes a connection one that is closed in good order.
func keep(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(-1) // fails only on a connection that is closed already
	}
}

// clientOf reads "<pod> <node> <client>": the client's address, without its port.
func clientOf(answer []byte) string {
	fields := strings.Fields(string(answer))
	if len(fields) < 3 {
		return ""
	}
	client, err := netip.ParseAddrPort(fields[2])
	if err != nil {
		return ""
	}
	return client.Addr().Unmap().String()
}

// podOf reads "<pod> <node> <client>": the pod's name.
func podOf(answer []byte) (string, error) {
	pod, rest, _ := strings.Cut(string(answer), " ")
	if pod == "" || strings.Count(rest, " ") < 1 {
		return "", &malformedError{string(answer)}
	}
	return pod, nil
}
