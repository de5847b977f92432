package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"proxylab/lab"
	"proxylab/scenarios"
)

// Exit codes, as the README lists them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitExpectation = 3
	exitRegression  = 4
	exitMissing     = 5
)

// usageError is wrong use of the command line or a wrong file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// expectationError says that a run was played, but not everything expected of it held.
type expectationError struct{ failed, total int }

func (e expectationError) Error() string {
	return fmt.Sprintf("%d of %d expectations did not hold", e.failed, e.total)
}

// behavioursError says that native proxiers differ in some behaviours.
type behavioursError struct{ differ, applicable int }

func (e behavioursError) Error() string {
	return fmt.Sprintf("native proxiers differ in %d of %d applicable behaviours", e.differ, e.applicable)
}

// exitCode maps an error to the exit code that says what kind it is.
func exitCode(err error) int {
	var (
		usage   usageError
		invalid *scenarios.Invalid
		missing lab.Missing
		expect  expectationError
		inside  statusError
		differ  behavioursError
		worse   regressionError
	)
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &inside):
		return int(inside)
	case errors.As(err, &expect), errors.As(err, &differ):
		return exitExpectation
	case errors.As(err, &worse):
		return exitRegression
	case errors.As(err, &usage), errors.As(err, &invalid):
		return exitUsage
	case errors.As(err, &missing):
		return exitMissing
	case isCobraUsage(err):
		return exitUsage
	}
	return exitFailed
}

// isCobraUsage recognises the errors that cobra makes itself; it has no type for them.
func isCobraUsage(err error) bool {
	for _, prefix := range []string{"unknown command", "unknown flag", "unknown shorthand", "invalid argument",
		"flag needs an argument", "accepts ", "requires at least", "bad flag syntax", "required flag"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}

func printError(w io.Writer, err error) {
	if inside := statusError(0); errors.As(err, &inside) && err == error(inside) { //nolint:errorlint // alone: it was said inside
		return
	}
	fmt.Fprintln(w, "proxylab:", err)
}
