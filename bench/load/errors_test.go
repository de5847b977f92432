package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"proxylab/bench/load/echotest"
)

func TestErrorKindOfRealSockets(t *testing.T) {
	pod := echotest.Start(t, "pod-a", "127.0.0.1")
	stalled := echotest.Start(t, "pod-b", "127.0.0.1")
	stalled.Stall()
	failing := echotest.Start(t, "pod-c", "127.0.0.1")
	failing.Status(503)
	end := func(linger int, say string) string {
		return echotest.Script(t, func(c *net.TCPConn) {
			buf := make([]byte, 1)
			if say == "" {
				_, _ = c.Read(buf[:0])
			}
			_, _ = io.WriteString(c, say)
			_ = c.SetLinger(linger)
		})
	}
	for _, c := range []struct{ name, kind, target, want string }{
		{"http", HTTP, pod.HTTP, ""},
		{"connect", Connect, pod.TCP, ""},
		{"udp", UDP, pod.UDP, ""},
		{"http refused", HTTP, echotest.DeadPort(t, "tcp"), Refused},
		{"connect refused", Connect, echotest.DeadPort(t, "tcp"), Refused},
		{"udp refused", UDP, echotest.DeadPort(t, "udp"), Refused},
		{"http stalled", HTTP, stalled.HTTP, Timeout},
		{"connect stalled", Connect, stalled.TCP, Timeout},
		{"udp stalled", UDP, stalled.UDP, Timeout},
		{"http status", HTTP, failing.HTTP, "status-503"},
		{"connect reset", Connect, end(0, ""), Reset},
		{"connect closed", Connect, end(-1, ""), EOF},
		{"connect closed in the middle of the line", Connect, end(-1, "pod-a no"), EOF},
		{"connect to something else", Connect, end(-1, "SSH-2.0-x\n"), Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			defer cancel()
			_, err := Ask(ctx, c.kind, c.target, 0)
			if got := ErrorKind(err); got != c.want {
				t.Errorf("%q, want %q (%v)", got, c.want, err)
			}
		})
	}
}

// Routes that lead nowhere, in a network namespace of the test's own.
func TestErrorKindOfRoutes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes a network namespace")
	}
	inNamespace(t, func() {
		for _, kind := range []string{HTTP, Connect, UDP} {
			for _, c := range []struct{ target, want string }{
				{"203.0.113.9:80", Unreachable},
				{"192.0.2.9:80", NoRoute},
				{"198.51.100.9:80", Denied},
			} {
				ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
				_, err := Ask(ctx, kind, c.target, 0)
				cancel()
				if got := ErrorKind(err); got != c.want {
					t.Errorf("%s to %s: %q, want %q (%v)", kind, c.target, got, c.want, err)
				}
			}
		}
	})
}

// inNamespace calls f on a thread that is alone in a new network namespace, with a route of type unreachable to
// 192.0.2.0/24 and one of type prohibit to 198.51.100.0/24.
func inNamespace(t *testing.T, f func()) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine, and the namespace with it
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(lo); err != nil {
				return err
			}
			for dst, kind := range map[string]int{"192.0.2.0/24": unix.RTN_UNREACHABLE, "198.51.100.0/24": unix.RTN_PROHIBIT} {
				_, prefix, err := net.ParseCIDR(dst)
				if err != nil {
					return err
				}
				if err := netlink.RouteAdd(&netlink.Route{Dst: prefix, Type: kind}); err != nil {
					return fmt.Errorf("route to %s: %w", dst, err)
				}
			}
			f()
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestErrorKind(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("a: %w", &net.OpError{Op: "read", Err: err}) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{wrapped(os.NewSyscallError("connect", syscall.ECONNREFUSED)), Refused},
		{wrapped(syscall.ECONNRESET), Reset},
		{wrapped(syscall.EPIPE), Reset},
		{wrapped(syscall.ETIMEDOUT), Timeout},
		{wrapped(os.ErrDeadlineExceeded), Timeout},
		{wrapped(context.DeadlineExceeded), Timeout},
		{wrapped(syscall.EHOSTUNREACH), NoRoute},
		{wrapped(syscall.ENETUNREACH), Unreachable},
		{wrapped(syscall.EADDRNOTAVAIL), NoPort},
		{wrapped(syscall.EPERM), Denied},
		{wrapped(io.EOF), EOF},
		{wrapped(io.ErrUnexpectedEOF), EOF},
		{wrapped(statusError(404)), "status-404"},
		{wrapped(&malformedError{"x"}), Malformed},
		{wrapped(errUnsent), Unsent},
		{wrapped(syscall.ENOBUFS), Other},
		{errors.New("something"), Other},
	} {
		if got := ErrorKind(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
