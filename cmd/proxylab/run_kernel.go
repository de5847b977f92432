package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"proxylab/bench/events"
)

// inKernel plays scenarios inside a kernel of their own, each in a fresh one. Inside, the same command plays and writes
// its events on standard output; out here they become the run's log, progress and result, as if played here.
func (o *runOptions) inKernel(cmd *cobra.Command, names []string) error {
	if len(names) == 1 {
		return o.oneInKernel(cmd, names[0])
	}
	var errs []error
	for _, name := range names {
		if cmd.Context().Err() != nil {
			break
		}
		errs = append(errs, o.oneInKernel(cmd, name))
	}
	return errors.Join(errs...)
}

func (o *runOptions) oneInKernel(cmd *cobra.Command, name string) error {
	out, in := io.Pipe()
	type ending struct {
		status int
		err    error
	}
	ended := make(chan ending, 1)
	args := innerArgs(cmd, []string{name}, "out", "output", "tui", "web")
	go func() {
		status, err := o.kernel.run(cmd.Context(), append([]string{args[0], "--relay"}, args[1:]...), in, cmd.ErrOrStderr())
		_ = in.Close() // it cannot fail
		ended <- ending{status, err}
	}()
	rec, closed, relayErr := o.relayed(cmd, out)
	_, _ = io.Copy(io.Discard, out) // the command inside must come to its end
	end := <-ended
	switch err := errors.Join(end.err, relayErr); {
	case rec == nil && err != nil: // nothing was played: refused inside, or no kernel
		return err
	case rec == nil && end.status != 0:
		return statusError(end.status)
	case rec == nil:
		return errors.New("the command inside the kernel ended without a run")
	case closed == nil:
		if err == nil {
			err = fmt.Errorf("the command inside the kernel ended with exit status %d before the run did", end.status)
		}
		closed = outcome(cmd.Context(), err)
		rec.log.Emit(events.Event{RunEnded: closed})
	}
	var playErr error
	if closed.Error != "" {
		playErr = errors.New(closed.Error)
	}
	return rec.conclude(o.output, playErr)
}

// relayed writes the events that come out of the kernel to the run's log, which begins with the first of them. closed is
// the last, if it came.
func (o *runOptions) relayed(cmd *cobra.Command, from io.Reader) (rec *recording, closed *events.RunEnded, err error) {
	for e, err := range events.Read(from) {
		if err != nil {
			return rec, closed, fmt.Errorf("what comes out of the kernel: %w", err)
		}
		if rec == nil {
			if e.RunStarted == nil {
				return nil, nil, fmt.Errorf("what comes out of the kernel begins with a %s event, and not with the run's start", e.Kind())
			}
			if rec, err = o.record(cmd, e.RunStarted.ID); err != nil {
				return nil, nil, err
			}
		}
		rec.log.Emit(e)
		if e.RunEnded != nil {
			closed = e.RunEnded
		}
	}
	return rec, closed, nil
}
