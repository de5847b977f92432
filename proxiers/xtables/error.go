package xtables

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// RestoreError is a failed iptables-restore.
type RestoreError struct {
	Args   []string // the command
	Line   int      // of the input, from 1; 0: the tool named none
	Text   string   // that line. "COMMIT" means that the kernel refused the table, not which rule it was for
	Output string   // what the tool printed
	Err    error
}

func (e *RestoreError) Error() string {
	s := fmt.Sprintf("%s: %v: %s", strings.Join(e.Args, " "), e.Err, e.Output)
	if e.Line > 0 {
		s += fmt.Sprintf(" (line %d is %q)", e.Line, e.Text)
	}
	return s
}

func (e *RestoreError) Unwrap() error { return e.Err }

// Locked says whether the tool gave up because another program held the xtables lock.
func (e *RestoreError) Locked() bool { return strings.Contains(e.Output, "xtables lock") }

var failingLine = regexp.MustCompile(`\bline:? (\d+)`)

// NewRestoreError finds the line that the tool complains about in its output. Each version has words of its own for it:
// "Error occurred at line: 3", "line 3 failed", "line 3: RULE_APPEND failed".
func NewRestoreError(args []string, input []byte, output string, err error) *RestoreError {
	e := &RestoreError{Args: args, Output: strings.TrimSpace(output), Err: err}
	if m := failingLine.FindStringSubmatch(output); m != nil {
		e.Line, _ = strconv.Atoi(m[1]) // digits, and 0 if there are too many
	}
	rest := input
	for i := 1; i <= e.Line && len(rest) > 0; i++ {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if i == e.Line {
			e.Text = string(line)
		}
		rest = after
	}
	return e
}
