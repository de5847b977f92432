package dialer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// once makes one attempt, with its source port given.
func once(ctx context.Context, r Request, port uint16) (m met) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	began := time.Now()
	if r.Network == HTTP {
		m = get(ctx, r, port)
		m.took = time.Since(began)
		return m
	}
	f, err := open(ctx, r, port)
	m.took = time.Since(began)
	if err != nil {
		m.err = err
		return m
	}
	defer f.close(r.Abort)
	if r.Network == UDP {
		// Datagrams get lost on a busy machine, and ICMP errors are rationed. One that nothing came of is sent again, as any
		// client does; what is dropped on purpose is dropped each time.
		const tries = 4
		for i := range tries {
			m = f.say(r.Timeout / tries)
			m.resent = i > 0 && !m.unsent
			if i == tries-1 || Kind(m.err) != TimedOut || ctx.Err() != nil {
				break
			}
		}
		m.took = time.Since(began)
		return m
	}
	m.pod, m.client, m.resent = f.pod, f.client, f.resent
	return m
}

// flow is an open connection, or a UDP socket that is connected.
type flow struct {
	network string
	conn    net.Conn
	reader  *bufio.Reader // nil: datagrams
	pod     string
	client  netip.AddrPort
	resent  bool
	said    int
}

// open connects, and reads who answers where the backend speaks first.
func open(ctx context.Context, r Request, port uint16) (*flow, error) {
	conn, err := connect(ctx, r, port)
	if err != nil {
		return nil, err
	}
	f := &flow{network: r.Network, conn: conn, resent: resent(conn)}
	if r.Network == UDP {
		return f, nil
	}
	f.reader = bufio.NewReader(conn)
	line, err := f.readLine(r.Timeout)
	if err == nil {
		f.pod, f.client, _, err = parse(line)
	}
	if err != nil {
		f.close(true)
		return nil, err
	}
	return f, nil
}

// resent says whether the kernel had to send the SYN of a new connection again. Time would not tell: on a busy machine the
// programs at both ends are slow as well.
func resent(conn net.Conn) (again bool) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		again = err == nil && info.Total_retrans > 0
	})
	return again
}

// synsResent is how many SYNs the kernel sent again so far in this network namespace; 0 where it does not say.
func synsResent() int {
	b, err := os.ReadFile("/proc/thread-self/net/netstat")
	if err != nil {
		return 0
	}
	var names []string // the first line of a group has the names, the second the values
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if i := slices.Index(names, "TCPSynRetrans"); i >= 0 && i < len(fields) {
			n, _ := strconv.Atoi(fields[i])
			return n
		}
		names = fields
	}
	return 0
}

func connect(ctx context.Context, r Request, port uint16) (net.Conn, error) {
	if r.Network == SCTP {
		return connectSCTP(ctx, r.To, r.From, port)
	}
	if r.Network == UDP && port == 0 {
		return freshUDP(ctx, r)
	}
	d := net.Dialer{KeepAlive: -1}
	if r.Network != UDP { // two sockets would share a port
		d.Control = reuse
	}
	if r.From.IsValid() || port != 0 {
		d.LocalAddr = localAddr(r, port)
	}
	return d.DialContext(ctx, r.socket(), r.To.String())
}

// socket names the family too: an IPv6 socket that is for both would take the port from IPv4 ones.
func (r Request) socket() string {
	network := r.Network
	if network == HTTP {
		network = TCP
	}
	if r.To.Addr().Is4() {
		return network + "4"
	}
	return network + "6"
}

// udpPorts are the source ports of datagrams, by turns. Conntrack remembers a flow for minutes, and one of the kernel's
// choosing may be that of an earlier attempt, whose endpoint it would then meet again.
const (
	firstUDPPort = 33000
	udpPortCount = 27000
)

var udpPorts atomic.Uint32

func freshUDP(ctx context.Context, r Request) (conn net.Conn, err error) {
	const tries = 20
	for range tries {
		port := firstUDPPort + udpPorts.Add(1)%udpPortCount
		if conn, err = connect(ctx, r, uint16(port)); Kind(err) != NoPort {
			return conn, err
		}
	}
	return nil, err
}

// localAddr is where a connection starts, as package net wants it: an address that is not given is nil there.
func localAddr(r Request, port uint16) net.Addr {
	var ip net.IP
	if r.From.IsValid() {
		ip = r.From.AsSlice()
	}
	if r.Network == UDP {
		return &net.UDPAddr{IP: ip, Port: int(port)}
	}
	return &net.TCPAddr{IP: ip, Port: int(port)}
}

// reuse lets a source port be taken that an earlier connection to elsewhere still waits on.
func reuse(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	return errors.Join(err, set)
}

func (f *flow) readLine(timeout time.Duration) (string, error) {
	if err := f.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	line, err := f.reader.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// say sends something and waits for it to come back, from whomever.
func (f *flow) say(timeout time.Duration) met {
	began := time.Now()
	f.said++
	text := fmt.Sprintf("question %d", f.said)
	m := met{pod: f.pod, client: f.client}
	switch {
	case f.reader == nil:
		m.pod, m.client, m.unsent, m.err = f.ask(text, timeout)
	default:
		if _, m.err = io.WriteString(f.conn, text+"\n"); m.err == nil {
			var line string
			if line, m.err = f.readLine(timeout); m.err == nil && line != text {
				m.err = fmt.Errorf("%w: sent %q, got back %q", errGarbled, text, line)
			}
		}
	}
	m.took = time.Since(began)
	return m
}

// ask sends a datagram; late answers to earlier ones are skipped. Unsent: the answer to an earlier one, an ICMP error, was
// there before.
func (f *flow) ask(text string, timeout time.Duration) (pod string, client netip.AddrPort, unsent bool, err error) {
	if err := f.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", client, true, err
	}
	// EPERM: a rule of this very place stopped the datagram. Whether it also said so, which is what a refusal differs from
	// a drop by, comes in as an ICMP error.
	if _, err := io.WriteString(f.conn, text); err != nil && !errors.Is(err, syscall.EPERM) {
		return "", client, true, err
	}
	buf := make([]byte, 2048)
	for {
		n, err := f.conn.Read(buf)
		if err != nil {
			return "", client, false, err
		}
		pod, client, echo, err := parse(string(buf[:n]))
		if err != nil || echo == text {
			return pod, client, false, err
		}
	}
}

func (f *flow) close(abort bool) {
	if tcp, ok := f.conn.(*net.TCPConn); ok && abort {
		_ = tcp.SetLinger(0)
	}
	_ = f.conn.Close() // the other side may have been faster
}

// parse splits "<pod> <node> <address:port>[ <payload>]".
func parse(s string) (pod string, client netip.AddrPort, payload string, err error) {
	parts := strings.SplitN(s, " ", 4)
	if len(parts) < 3 {
		return "", client, "", fmt.Errorf("%w: %.80q", errGarbled, s)
	}
	if len(parts) == 4 {
		payload = parts[3]
	}
	client, err = netip.ParseAddrPort(parts[2])
	if err != nil {
		return "", client, "", fmt.Errorf("%w: %.80q", errGarbled, s)
	}
	return parts[0], netip.AddrPortFrom(client.Addr().Unmap(), client.Port()), payload, nil
}

// get makes one HTTP request. Who answers is told by a header.
func get(ctx context.Context, r Request, port uint16) (m met) {
	path := r.Path
	if path == "" {
		path = "/"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.To.String()+path, nil)
	if err != nil {
		return met{err: err}
	}
	req.Close = true
	again := false
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := connect(ctx, r, port)
			again = err == nil && resent(conn)
			return conn, err
		},
	}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return met{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return met{err: err}
	}
	m = met{pod: resp.Header.Get("X-Proxylab-Pod"), status: resp.StatusCode, body: string(body), resent: again}
	var said struct{ Client string }
	if m.pod != "" && unmarshal(body, &said) == nil {
		m.client, _ = netip.ParseAddrPort(said.Client) // not valid: not told
	}
	if m.pod == "" {
		m.pod = fmt.Sprintf("status %d", m.status)
	}
	return m
}
