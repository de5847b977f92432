package plane_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"proxylab/lab/lbaas/plane"
	"proxylab/lab/netns/ns"
)

// space is a network of namespaces: lb1, lb2 and srv at a bridge in fabric, which is the outside client too.
//
//	fabric 10.10.0.1, .2   lb1 .11   lb2 .12   srv .21 ... .28      (fd00:10:10::1 ... likewise)
type space struct {
	prefix string
}

var spaces atomic.Uint32

func newSpace(t testing.TB) *space {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	s := &space{fmt.Sprintf("planetest-%d-%d-", os.Getpid(), spaces.Add(1))}
	t.Cleanup(func() {
		for _, name := range []string{"fabric", "lb1", "lb2", "srv"} {
			_ = exec.Command("ip", "netns", "del", s.prefix+name).Run()
		}
	})
	for _, name := range []string{"fabric", "lb1", "lb2", "srv"} {
		run(t, "ip", "netns", "add", s.prefix+name)
		s.ip(t, name, "link set lo up")
	}
	s.ip(t, "fabric", "link add br0 type bridge", "link set br0 up",
		"addr add 10.10.0.1/24 dev br0", "addr add 10.10.0.2/24 dev br0", "addr add fd00:10:10::1/64 dev br0 nodad",
		"addr add fd00:10:10::2/64 dev br0 nodad")
	for _, name := range []string{"lb1", "lb2", "srv"} {
		host := map[string]int{"lb1": 11, "lb2": 12, "srv": 21}[name]
		s.ip(t, "fabric", fmt.Sprintf("link add %s type veth peer name eth0 netns %s%s", name, s.prefix, name),
			fmt.Sprintf("link set %s master br0 up", name))
		n := 1
		if name == "srv" {
			n = 8
		}
		for i := range n {
			s.ip(t, name, fmt.Sprintf("addr add 10.10.0.%d/24 dev eth0", host+i),
				fmt.Sprintf("addr add fd00:10:10::%d/64 dev eth0 nodad", host+i))
		}
		s.ip(t, name, "link set eth0 up")
	}
	return s
}

// ip runs ip's commands in a namespace.
func (s *space) ip(t testing.TB, in string, lines ...string) {
	t.Helper()
	cmd := exec.Command("ip", "-n", s.prefix+in, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ip %q: %v: %s", lines, err, out)
	}
}

func run(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

func (s *space) path(in string) string { return "/run/netns/" + s.prefix + in }

// start starts a command in a namespace.
func (s *space) start(in string, cmd *exec.Cmd) error {
	return ns.Do(s.path(in), cmd.Start)
}

// instances starts an instance as a process in the namespace of its name.
func (s *space) instances(ctx context.Context, name string) (plane.Process, error) {
	cmd := exec.CommandContext(ctx, os.Args[0], plane.InstanceCommand, "--name", name, "--interface", "eth0")
	cmd.Stderr = os.Stderr
	return plane.StartCommand(cmd, func(cmd *exec.Cmd) error { return s.start(name, cmd) })
}

// listen listens in srv.
func (s *space) listen(t testing.TB, at netip.AddrPort) net.Listener {
	t.Helper()
	l, err := ns.Listen(s.path("srv"), "tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dial connects from the fabric.
func (s *space) dial(d net.Dialer, network, to string) (c net.Conn, err error) {
	err = ns.Do(s.path("fabric"), func() error {
		c, err = d.Dial(network, to)
		return err
	})
	return c, err
}

// inSpace calls f on a thread in the namespace.
func inSpace(path string, f func() error) error { return ns.Do(path, f) }
