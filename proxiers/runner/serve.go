package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// listenAgain is the pause before a port that was busy is tried again.
const listenAgain = 5 * time.Second

// server is one of the proxier's HTTP servers.
type server struct {
	what    string
	network string // "tcp" if empty
	address string
	handler http.Handler
	clock   clock.Clock
	log     *slog.Logger
	// listening, if not nil, is told the address in use.
	listening func(net.Addr)
}

// run serves until ctx is done. A proxier without it still does its job, so what fails is told and tried again.
func (s server) run(ctx context.Context) {
	if s.address == None {
		return
	}
	for {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, unix.EAFNOSUPPORT) {
			s.log.Info("this node does not have the family to serve "+s.what, "network", s.network, "error", err)
			return
		}
		s.log.Error("cannot serve "+s.what+"; the proxier goes on without and tries again",
			"address", s.address, "error", err, "pause", listenAgain)
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(listenAgain):
		}
	}
}

func (s server) serve(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, cmp.Or(s.network, "tcp"), s.address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if s.listening != nil {
		s.listening(l.Addr())
	}
	srv := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
