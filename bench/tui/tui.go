// Package tui shows a run on a terminal, while it happens or from its log.
//
// It is a view: it folds events (State) and draws what they say, and knows nothing of labs. Nothing here can hold up a
// run: events are folded as they come, into sums and charts of bounded size, and some times a second what there is by
// then is drawn.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"golang.org/x/sys/unix"
)

const (
	// framesPerSecond is how often is drawn at most. A key is answered at the next of them.
	framesPerSecond = 10
	// liveFrames is how often the figures of a live run are drawn: its loads report twice a second.
	liveFrames = 4
)

// Options are what a Program needs to know.
type Options struct {
	In  io.Reader // keys; a terminal
	Out io.Writer // the screen; a terminal
	// Stop is called when the user wants the run to end, as Ctrl-C would. Nil: there is no run to end, and q just leaves.
	Stop func()
	// Control acts on the lab behind the view. Nil: there is none, or it is not for the user to change.
	Control Control
	// Stay keeps the view open when the source has come to its end, until the user leaves.
	Stay bool
}

// Run shows what source has until the user leaves, the source ends (see Options.Stay) or ctx is done.
//
// It draws on a thread of its own with a low priority, so that where processors are short the view waits and not what is
// measured.
func Run(ctx context.Context, source Source, o Options) error {
	renderer := lipgloss.NewRenderer(o.Out)
	m := newModel(source, o, newTheme(renderer))
	// The view ends by itself when ctx does, so that it can show that the run is being stopped.
	program := tea.NewProgram(m, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithAltScreen(),
		tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler(), tea.WithContext(ctx))
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, and its priority with it
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 10); err != nil {
			slog.Debug("the view keeps the priority of the run", "error", err)
		}
		_, err := program.Run()
		ended <- err
	}()
	if err := <-ended; err != nil && !errors.Is(err, tea.ErrProgramKilled) {
		return fmt.Errorf("show the run on the terminal: %w", err)
	}
	if m.forced {
		o.Stop()
	}
	return nil
}
