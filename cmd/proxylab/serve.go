package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"proxylab/web"
)

// defaultListen is where the dashboard is unless somebody says otherwise: this machine alone can reach it.
const defaultListen = "127.0.0.1:9870"

func newServe() *cobra.Command {
	var (
		listen string
		child  bool
	)
	cmd := &cobra.Command{
		Use:   "serve [DIR]",
		Short: "The web dashboard over live and recorded runs",
		Long: `Serve a web page with the runs in DIR (default: runs): those recorded, and those going on, which it follows. It only
reads. It listens on ` + defaultListen + `; where --listen makes it reachable from other machines, visitors need the token that is
printed, once, as part of the address.`,
		Example: `  proxylab serve
  proxylab serve results --listen :8080`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "runs"
			if len(args) > 0 {
				dir = args[0]
			}
			if err := checkListen("--listen", listen); err != nil {
				return err
			}
			ctx := cmd.Context()
			if child {
				ctx = untilEnd(ctx, cmd.InOrStdin())
			}
			return serve(ctx, dir, listen)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", defaultListen, "address and port to listen on")
	cmd.Flags().BoolVar(&child, "child", false, "end when standard input does, and so with the run that this is for")
	_ = cmd.Flags().MarkHidden("child") // it is there
	return cmd
}

// untilEnd is done when in ends: a pipe ends with the process at its other end, however that comes about.
func untilEnd(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // an end is an end
	}()
	return ctx
}

// checkListen refuses what is no address to listen on.
func checkListen(flag, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("%s %q: accepted are an address and a port such as %s or :8080", flag, address, defaultListen)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return usagef("%s %q: the port is a number from 0 to 65535", flag, address)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && host != "localhost" {
		return usagef("%s %q: before the port stands an IP address, localhost, or nothing for all addresses", flag, address)
	}
	return nil
}

func serve(ctx context.Context, dir, listen string) error {
	lowerPriority()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("the dashboard cannot listen on %s: %w (--listen takes another)", listen, err)
	}
	o := web.Options{Dir: dir, Log: slog.Default()}
	address := "http://" + l.Addr().String() + "/"
	if a, err := netip.ParseAddrPort(l.Addr().String()); err != nil || !a.Addr().Unmap().IsLoopback() {
		o.Token = rand.Text()
		address += "?token=" + o.Token
	}
	s, err := web.New(o)
	if err != nil {
		l.Close()
		return err
	}
	defer s.Close()
	slog.Info("the dashboard is at " + address)
	return s.Serve(ctx, l)
}

// lowerPriority makes way for what is measured on the same machine. Priorities belong to threads; those to come inherit it.
func lowerPriority() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		slog.Debug("the dashboard runs at normal priority", "error", err)
		return
	}
	for _, t := range tasks {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, 10); err != nil {
				slog.Debug("a thread of the dashboard runs at normal priority", "error", err)
			}
		}
	}
}

// dashboard is a process of its own that serves the runs while one is made, so that it can neither delay nor fail the run.
type dashboard struct {
	cmd  *exec.Cmd
	in   io.Closer
	done chan error
}

// startDashboard makes the directory of runs where it does not exist, and serves it.
func startDashboard(cmd *cobra.Command, dir, listen string) (*dashboard, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory of runs: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	// What ends the run must not end the page before it has shown the end: it ends with its standard input.
	d := &dashboard{cmd: exec.CommandContext(context.WithoutCancel(cmd.Context()), self, "serve", "--child", "--listen", listen, dir), done: make(chan error, 1)}
	d.cmd.Stdout, d.cmd.Stderr = cmd.ErrOrStderr(), cmd.ErrOrStderr()
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the dashboard: %w", err)
	}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the dashboard: %w", err)
	}
	go func() { d.done <- d.cmd.Wait() }()
	select {
	case err := <-d.done:
		return nil, fmt.Errorf("the dashboard ended at once: %w", errors.Join(err, cmd.Context().Err()))
	case <-time.After(300 * time.Millisecond): // an address in use shows at once; anything later is not the run's concern
	}
	return d, nil
}

// stop ends it, after live pages have got the last of the run.
func (d *dashboard) stop() {
	if err := d.in.Close(); err != nil {
		slog.Debug("the dashboard had ended before", "error", err)
	}
	select {
	case err := <-d.done:
		slog.Debug("the dashboard has ended", "error", err)
	case <-time.After(10 * time.Second):
		_ = d.cmd.Process.Kill() // it has had its time
		slog.Debug("the dashboard was ended", "error", <-d.done)
	}
}
