package controlplane

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"proxylab/lab/netns/ns"
)

// The API server answers in two networks at once: on the host's loopback for kubectl, and inside the lab. Start opens
// both sockets, so that a port that is taken is known at once and both are there before the server is: a client that
// is early waits for its answer instead of being refused. The process inherits them.
const (
	firstFD   = 3 // of what os/exec passes on
	socketVar = "PROXYLAB_SOCKETS"
)

// openSockets returns the listening sockets, and the port on the host's loopback.
func openSockets(st state) (files []*os.File, port uint16, err error) {
	var open []net.Listener
	defer func() {
		for _, l := range open { // files are copies
			_ = l.Close()
		}
	}()
	add := func(l net.Listener) error {
		open = append(open, l)
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			return fmt.Errorf("pass on the socket at %s: %w", l.Addr(), err)
		}
		files = append(files, f)
		return nil
	}
	local := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), st.Port)
	l, err := net.Listen("tcp4", local.String())
	if err != nil {
		return nil, 0, fmt.Errorf("the API on the host's loopback: %w", err)
	}
	if err := add(l); err != nil {
		return nil, 0, err
	}
	port = uint16(l.Addr().(*net.TCPAddr).Port)
	if st.NetNS == "" {
		return files, port, nil
	}
	inside := netip.AddrPortFrom(st.Address, labPort)
	l, err = ns.Listen(st.NetNS, "tcp4", inside.String())
	if err == nil {
		err = add(l)
	}
	if err != nil {
		closeFiles(files)
		return nil, 0, fmt.Errorf("the API at %s in %s: %w", inside, st.NetNS, err)
	}
	return files, port, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// inheritedSockets takes over what openSockets opened in the parent process.
func inheritedSockets() (*merged, error) {
	n, err := strconv.Atoi(os.Getenv(socketVar))
	if err != nil || n < 1 {
		return nil, fmt.Errorf("%s has no sockets: it is started by the lab, not by hand", kubeAPIServer)
	}
	var ls []net.Listener
	for i := range n {
		f := os.NewFile(uintptr(firstFD+i), fmt.Sprintf("socket %d", i))
		l, err := net.FileListener(f)
		_ = f.Close() // l has a copy
		if err != nil {
			return nil, fmt.Errorf("inherited socket %d: %w", i, err)
		}
		ls = append(ls, l)
	}
	return merge(ls...), nil
}

// merged is several listeners that look like one. Its address is that of the first.
type merged struct {
	all      []net.Listener
	accepted chan accepted
	closed   chan struct{}
	close    sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

func merge(all ...net.Listener) *merged {
	m := &merged{all: all, accepted: make(chan accepted), closed: make(chan struct{})}
	for _, l := range all {
		go m.pump(l)
	}
	return m
}

func (m *merged) pump(l net.Listener) {
	for {
		conn, err := l.Accept()
		select {
		case m.accepted <- accepted{conn, err}:
		case <-m.closed:
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (m *merged) Accept() (net.Conn, error) {
	select {
	case a := <-m.accepted:
		return a.conn, a.err
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *merged) Close() error {
	var errs []error
	m.close.Do(func() {
		close(m.closed)
		for _, l := range m.all {
			errs = append(errs, l.Close())
		}
	})
	return errors.Join(errs...)
}

func (m *merged) Addr() net.Addr { return m.all[0].Addr() }

// announced is a listener under another address, the one to tell the world.
type announced struct {
	net.Listener
	addr net.Addr
}

func (a announced) Addr() net.Addr { return a.addr }
