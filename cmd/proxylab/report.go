package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"proxylab/bench/report"
	"proxylab/bench/report/html"
)

// renderers are the views that can be printed, by the name that -o takes.
var renderers = map[string]func(*report.Result) ([]byte, error){
	"table": func(r *report.Result) ([]byte, error) {
		return []byte(report.Table(r, tableOptions())), nil
	},
	"json":  report.JSON,
	"junit": report.JUnit,
	"bench": report.Bench,
}

// viewHTML needs more than the result: what happened when.
const viewHTML = "html"

func outputs() []string {
	var names []string
	for name := range renderers {
		names = append(names, name)
	}
	names = append(names, viewHTML)
	slices.Sort(names)
	return names
}

func checkOutput(name string) error {
	if renderers[name] == nil && name != viewHTML {
		return usagef("-o %q: accepted are %s", name, strings.Join(outputs(), ", "))
	}
	return nil
}

func newReport() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Print the result of a recorded run, also of one that was cut off",
		Long: `Print the result of a run from its log. RUN is the run's directory or its events.jsonl. The log of a run that
was killed gives what was measured until then. Exit code 3 when an expectation did not hold.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			return printRun(cmd, args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "one of "+strings.Join(outputs(), ", "))
	return cmd
}

// readRun reads a run's log, once, for its result and the view asked for.
func readRun(path, output string) (*report.Result, func(*report.Result) ([]byte, error), error) {
	if output != viewHTML {
		result, err := report.ReadFile(path)
		return result, renderers[output], err
	}
	v, err := html.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	return v.Result, func(*report.Result) ([]byte, error) { return v.Report() }, nil
}

// printRun folds a run's log, keeps result.json beside it, prints the view asked for, and fails where an expectation
// did not hold.
func printRun(cmd *cobra.Command, path, output string) error {
	result, render, err := readRun(path, output)
	if err != nil {
		return err
	}
	if dir, err := os.Stat(path); err == nil && dir.IsDir() {
		data, err := report.JSON(result)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(path, "result.json"), data, 0o644); err != nil {
			return fmt.Errorf("result.json: %w", err)
		}
	}
	data, err := render(result)
	if err != nil {
		return err
	}
	if _, err := cmd.OutOrStdout().Write(data); err != nil {
		return err
	}
	failed := 0
	for _, e := range result.Expectations {
		if !e.Holds {
			failed++
		}
	}
	if failed > 0 {
		return expectationError{failed, len(result.Expectations)}
	}
	return nil
}
