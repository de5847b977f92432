package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/charmbracelet/log"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"proxylab/bench/events"
	"proxylab/bench/report"
	"proxylab/bench/tui"
	"proxylab/lab"
)

// screen is a terminal that the view can be drawn on. It is on standard error, like all progress, so that the result can
// go elsewhere.
type screen struct{ in, out *os.File }

func registerTUI(cmd *cobra.Command, show *string) {
	cmd.Flags().StringVar(show, "tui", "auto", "show it full screen: on, off, or auto (where there is a terminal that can)")
}

// screenFor is the terminal that --tui asks for; nil where there is to be none.
func screenFor(show string) (*screen, error) {
	switch show {
	case "off":
		return nil, nil
	case "auto", "on":
	default:
		return nil, usagef("--tui %q: accepted are auto, on, off", show)
	}
	s := &screen{in: os.Stdin, out: os.Stderr}
	term := os.Getenv("TERM")
	switch {
	case isTerminal(s.in) && isTerminal(s.out) && term != "" && term != "dumb":
		return s, nil
	case show == "auto":
		return nil, nil
	case term == "" || term == "dumb":
		return nil, lab.Missing{What: "a terminal that can be drawn on: TERM is \"" + term + "\"", Remedy: "set TERM to what the terminal is, or use --tui off"}
	}
	return nil, lab.Missing{What: "a terminal: standard input or standard error is none", Remedy: "use --tui off"}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// display shows a run as it goes on: on the full screen, or as lines.
type display struct {
	listener *events.Listener
	live     *tui.Live     // nil: lines
	left     chan struct{} // closed when the screen has been given back
	logged   *slog.Logger  // what logged before
}

// collectSeldom lets the garbage collector of this process run a fourth as often as it would, for some tens of megabytes: beside what
// is measured, processors are dearer than memory. Who sets GOGC has the say.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// displayOf begins to show what is written to a log. While it fills the screen, what the program logs is a part of it.
func displayOf(cmd *cobra.Command, to *events.Writer, s *screen) *display {
	if s == nil {
		return &display{listener: to.Listen(report.Progress(cmd.ErrOrStderr()))}
	}
	return displayOn(cmd.Context(), to, s, tui.Options{Stop: interrupt})
}

// displayOn is displayOf on the full screen.
func displayOn(ctx context.Context, to *events.Writer, s *screen, o tui.Options) *display {
	d := &display{live: tui.NewLive(), left: make(chan struct{}), logged: slog.Default()}
	d.listener = to.Listen(d.live.Add)
	slog.SetDefault(slog.New(log.NewWithOptions(d.live, log.Options{Level: log.InfoLevel})))
	go func() {
		defer close(d.left)
		o.In, o.Out = s.in, s.out
		err := tui.Run(context.WithoutCancel(ctx), d.live, o)
		if err != nil {
			d.logged.Warn("the run goes on unseen", "error", err)
		}
	}()
	return d
}

// interrupt is what Ctrl-C does, which does nothing by itself on a terminal that is drawn on.
func interrupt() { _ = unix.Kill(os.Getpid(), unix.SIGINT) }

// close shows the rest, for as long as ctx allows, and gives the terminal back.
func (d *display) close(ctx context.Context, stderr io.Writer) {
	_ = d.listener.Close(ctx) // what a terminal has not taken by then is in the log
	if d.live == nil {
		return
	}
	d.live.Finish()
	select {
	case <-d.left:
	case <-time.After(5 * time.Second):
	}
	slog.SetDefault(d.logged)
	for _, line := range d.live.Warnings() {
		_, _ = io.WriteString(stderr, line+"\n")
	}
}

// tableOptions are how a table looks on standard output.
func tableOptions() report.TableOptions { return report.Terminal(os.Stdout) }
