package report

import (
	"encoding/xml"
	"fmt"
	"strings"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr,omitempty"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr,omitempty"`
	Timestamp string      `xml:"timestamp,attr,omitempty"`
	Cases     []junitCase `xml:"testcase"`
	Output    string      `xml:"system-out,omitempty"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr,omitempty"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
	Skipped *junitProblem `xml:"skipped"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit is the result as continuous integration systems read it: a suite per proxier and repetition, in which each
// step and each expectation is a test. An expectation that does not hold is a failure; what could not be played is
// an error; a step that was not come to is skipped.
func JUnit(r *Result) ([]byte, error) {
	all := junitSuites{Name: r.Run.Scenario}
	for _, s := range r.Subjects {
		all.Suites = append(all.Suites, suiteOf(r, s))
	}
	if r.Run.Outcome != Done {
		all.Suites = append(all.Suites, outcomeSuite(r))
	}
	for _, s := range all.Suites {
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
	}
	if r.Run.Started != nil && r.Run.Ended != nil {
		all.Time = junitSeconds(r.Run.Ended.Sub(*r.Run.Started).Seconds())
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the result as JUnit's XML: %w", err)
	}
	return append([]byte(xml.Header), append(text, '\n')...), nil
}

func junitSeconds(s float64) string { return fmt.Sprintf("%.3f", s) }

func suiteOf(r *Result, s *Subject) junitSuite {
	name := nameOf(s.Proxier, s.Backend)
	if r.Run.Repeat > 1 {
		name += fmt.Sprintf(" repetition %d", s.Repetition)
	}
	suite := junitSuite{Name: r.Run.Scenario + " / " + name}
	if s.Started != nil {
		suite.Timestamp = s.Started.UTC().Format("2006-01-02T15:04:05")
		if s.Ended != nil {
			suite.Time = junitSeconds(s.Ended.Sub(*s.Started).Seconds())
		}
	}
	// Class names take dots for levels.
	class := strings.NewReplacer(".", "_", " ", "_").Replace(r.Run.Scenario) + "." + strings.NewReplacer(".", "_").Replace(name)
	for _, step := range s.Steps {
		suite.add(stepCase(class, step))
	}
	if s.Error != "" {
		suite.add(junitCase{Class: class, Name: "played to its end", Error: problem(s.Error)})
	} else if s.Ended == nil {
		suite.add(junitCase{Class: class, Name: "played to its end", Error: problem("the log has no end of it")})
	}
	for _, v := range r.Expectations {
		if v.Proxier != s.Proxier || v.Backend != s.Backend || v.Repetition != s.Repetition {
			continue
		}
		c := junitCase{Class: class, Name: v.Name}
		if !v.Holds {
			c.Failure = problem(strings.TrimSuffix("got "+v.Got+", want "+v.Want, ", want "))
		}
		suite.add(c)
	}
	return suite
}

func stepCase(class string, step Step) junitCase {
	c := junitCase{Class: class, Name: fmt.Sprintf("step %d: %s", step.Index+1, step.Text)}
	if step.Seconds != nil {
		c.Time = junitSeconds(*step.Seconds)
	}
	if step.Error != "" {
		c.Error = problem(step.Error)
	} else if step.Seconds == nil {
		c.Skipped = problem("it did not end")
	}
	return c
}

// outcomeSuite makes a run that did not end well fail, whatever its subjects say.
func outcomeSuite(r *Result) junitSuite {
	text := "the run ended as: " + r.Run.Outcome
	if r.Run.Error != "" {
		text += ": " + r.Run.Error
	}
	suite := junitSuite{Name: r.Run.Scenario + " / run", Output: strings.Join(r.Notes, "\n")}
	suite.add(junitCase{Class: "run", Name: "ended as planned", Error: problem(text)})
	return suite
}

// problem has its first line as the message, and all of it as the text where there is more.
func problem(text string) *junitProblem {
	first, _, more := strings.Cut(text, "\n")
	if !more {
		return &junitProblem{Message: text}
	}
	return &junitProblem{Message: first, Text: text}
}

func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}
