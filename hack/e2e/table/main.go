// Table puts what the Kubernetes project's tests said of several proxiers side by side, in Markdown on standard output:
//
//	table SKIP NAME=JUNIT...
//
// SKIP is the list of what was left out, with reasons. A proxier NAME that is a mode of kube-proxy's has that mode's name
// after "kube-proxy/". It ends with 1 where a test that a mode of kube-proxy passes fails with the native proxier of the
// same name, and with 2 where it cannot read a file or one holds no test that ran.
package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/reporters"
)

const (
	focus    = "[sig-network] Services"
	upstream = "kube-proxy/"
)

// results are the states of tests of one proxier by the test's name, as Ginkgo calls them.
type results struct {
	proxier string
	states  map[string]test
}

type test struct {
	state string // passed, failed, timedout, panicked, skipped ...
	why   string // of one that was skipped or failed, a line
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: table SKIP NAME=JUNIT...")
		os.Exit(2)
	}
	all, reasons, err := read(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Print(markdown(all, reasons))
	if worse := regressions(all); len(worse) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(worse, "\n"))
		os.Exit(1)
	}
}

// read takes in all files, and says of all what is wrong with them.
func read(skips string, files []string) (all []results, reasons []reason, err error) {
	reasons, err = readReasons(skips)
	for _, arg := range files {
		proxier, path, found := strings.Cut(arg, "=")
		if !found {
			err = errors.Join(err, fmt.Errorf("%q is not NAME=JUNIT", arg))
			continue
		}
		states, readErr := readJUnit(path)
		err = errors.Join(err, readErr)
		all = append(all, results{proxier, states})
	}
	return all, reasons, err
}

// readJUnit returns the tests of Services in a report of Ginkgo's.
func readJUnit(path string) (map[string]test, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var report reporters.JUnitTestSuites
	if err := xml.Unmarshal(data, &report); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	states, ran := map[string]test{}, 0
	for _, suite := range report.TestSuites {
		for _, c := range suite.TestCases {
			_, name, found := strings.Cut(c.Name, focus+" ")
			if !found {
				continue
			}
			t := test{state: c.Status}
			switch {
			case c.Failure != nil:
				t.why = firstLine(c.Failure.Message)
			case c.Error != nil:
				t.why = firstLine(c.Error.Message)
			case c.Skipped != nil:
				t.why = firstLine(strings.TrimPrefix(c.Skipped.Message, "skipped - "))
			}
			if t.state != "skipped" {
				ran++
			}
			states[labels.ReplaceAllString(name, "")] = t
		}
	}
	if ran == 0 {
		return nil, fmt.Errorf("%s: no test of %q ran", path, focus)
	}
	return states, nil
}

// labels stand once more at the end of a name in the report, all of them.
var labels = regexp.MustCompile(` \[sig-network(, [^\]]*)?\]$`)

// kubectl is how tests call it; where it was is of no interest.
var kubectl = regexp.MustCompile(`\S+/kubectl( --(server|kubeconfig)=\S+)*`)

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return kubectl.ReplaceAllString(line, "kubectl")
}

// reason is a line of the list of what is left out.
type reason struct {
	tests *regexp.Regexp
	why   string
}

func readReasons(path string) ([]reason, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []reason
	for i, line := range strings.Split(string(data), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, why, found := strings.Cut(line, "#")
		tests, err := regexp.Compile(strings.TrimSpace(pattern))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		if !found {
			return nil, fmt.Errorf("%s:%d: no reason: want a regular expression, a # and the reason", path, i+1)
		}
		all = append(all, reason{tests, strings.TrimSpace(why)})
	}
	return all, nil
}

// regressions are the tests that kube-proxy passes in a mode and the native proxier of that name does not.
func regressions(all []results) []string {
	var worse []string
	for _, native := range all {
		i := slices.IndexFunc(all, func(r results) bool { return r.proxier == upstream+native.proxier })
		if i < 0 {
			continue
		}
		for name, t := range all[i].states {
			if is := native.states[name]; t.state == "passed" && is.state != "passed" {
				worse = append(worse, fmt.Sprintf("%s: %s with %s: %s", native.proxier, stateName(is), name, is.why))
			}
		}
	}
	slices.Sort(worse)
	return worse
}

func stateName(t test) string {
	if t.state == "" {
		return "not run"
	}
	return t.state
}
