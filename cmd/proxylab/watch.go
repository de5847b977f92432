package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"proxylab/bench/events"
	"proxylab/bench/report"
	"proxylab/bench/tui"
)

func newWatch() *cobra.Command {
	var (
		speed float64
		show  string
	)
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "Watch a recorded run, or one that is going on",
		Long: `Play a run's log in the terminal as it happened, faster if you like, with pause and seek: ? says the keys. RUN is the
directory of a run or its log. A log that is still being written is shown as it grows. In the end comes the summary, which
is also what is left on the terminal.

Where there is no terminal, the events are printed as lines, without waiting, and then the table.`,
		Example: `  proxylab watch runs/20260101-120000-quickstart --speed 20`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if speed < tui.MinSpeed || speed > tui.MaxSpeed {
				return usagef("--speed %g: accepted are %d to %d", speed, tui.MinSpeed, tui.MaxSpeed)
			}
			screen, err := screenFor(show)
			if err != nil {
				return err
			}
			if screen == nil {
				return watchLines(cmd, args[0])
			}
			player, err := tui.Open(cmd.Context(), args[0], speed)
			if err != nil {
				return err
			}
			err = tui.Run(cmd.Context(), player, tui.Options{In: screen.in, Out: screen.out, Stay: true})
			player.Close()
			if err := errors.Join(err, player.Err()); err != nil {
				return err
			}
			return printTable(cmd, args[0])
		},
	}
	cmd.Flags().Float64Var(&speed, "speed", 10, "how many times faster than it happened, 1 to 100")
	registerTUI(cmd, &show)
	return cmd
}

// watchLines is watch for where there is no terminal.
func watchLines(cmd *cobra.Command, path string) error {
	show := report.Progress(cmd.ErrOrStderr())
	for e, err := range eventsOf(cmd.Context(), path) {
		if err != nil {
			return err
		}
		show(e)
	}
	return printTable(cmd, path)
}

// printTable prints what a run found, as far as it got.
func printTable(cmd *cobra.Command, path string) error {
	result, err := report.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), report.Table(result, tableOptions()))
	return err
}

// eventsOf are those of a log: as they come where it is still being written, and else those there are.
func eventsOf(ctx context.Context, path string) func(func(events.Event, error) bool) {
	return func(yield func(events.Event, error) bool) {
		file, err := events.Locate(path)
		if err != nil {
			yield(events.Event{}, err)
			return
		}
		if tui.Growing(file) {
			events.Follow(ctx, file)(yield)
			return
		}
		log, err := events.ReadFile(file)
		for _, e := range log.Events {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(events.Event{}, err)
		}
	}
}
