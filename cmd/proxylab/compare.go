package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"proxylab/bench/compare"
	"proxylab/bench/report"
)

// regressionError says that a figure got worse.
type regressionError struct{ worse, of int }

func (e regressionError) Error() string {
	return fmt.Sprintf("%d of %d figures got worse", e.worse, e.of)
}

// comparisons are the views of a comparison, by the name that -o takes.
var comparisons = map[string]func(*compare.Comparison) ([]byte, error){
	"table": func(c *compare.Comparison) ([]byte, error) { return compare.Table(c), nil },
	"json":  compare.JSON,
	"junit": compare.JUnit,
}

func newCompare() *cobra.Command {
	var threshold, output string
	cmd := &cobra.Command{
		Use:   "compare BASE NEW",
		Short: "Say whether a run is worse than another, and fail if it is",
		Long: `Compare two runs, figure by figure and proxier by proxier: medians over the repetitions with their 95 % confidence
intervals, and a Mann-Whitney test. A figure got worse when p < 0.05 and the median changed by more than the threshold.

A single repetition cannot be told from chance: make both runs with --repeat 6 or more. With fewer than four nothing is judged,
and that is said. Exit code 4 when a figure got worse.`,
		Example: `  proxylab run churn --proxiers iptables --repeat 6
  proxylab compare runs/20260101-120000-churn runs/20260102-120000-churn --threshold 5% -o junit`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			share, err := parseThreshold(threshold)
			if err != nil {
				return err
			}
			view := comparisons[output]
			if view == nil {
				var names []string
				for name := range comparisons {
					names = append(names, name)
				}
				slices.Sort(names)
				return usagef("-o %q: accepted are %s", output, strings.Join(names, ", "))
			}
			return compareRuns(cmd, args[0], args[1], share, view)
		},
	}
	cmd.Flags().StringVar(&threshold, "threshold", "10%", "smallest change of a median that counts")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "one of json, junit, table")
	return cmd
}

// parseThreshold reads "10%", as a share.
func parseThreshold(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || !(v >= 0 && v <= 1000) {
		return 0, usagef("--threshold %q: accepted are 0%% to 1000%%", text)
	}
	return v / 100, nil
}

func compareRuns(cmd *cobra.Command, base, new string, threshold float64, view func(*compare.Comparison) ([]byte, error)) error {
	before, err := report.ReadFile(base)
	if err != nil {
		return err
	}
	after, err := report.ReadFile(new)
	if err != nil {
		return err
	}
	c := compare.Results(before, after, threshold)
	data, err := view(c)
	if err != nil {
		return err
	}
	if _, err := cmd.OutOrStdout().Write(data); err != nil {
		return err
	}
	if worse := len(c.Regressions()); worse > 0 {
		return regressionError{worse, len(c.Rows)}
	}
	return nil
}
