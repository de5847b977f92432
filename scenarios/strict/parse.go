package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Parse reads the YAML documents of a text. Empty ones are left out. A text that is not YAML yields what came before
// the mistake, and a Problem.
func Parse(text []byte, at Place) ([]*yaml.Node, []Problem) {
	if i := notText(text); i >= 0 {
		line := 1 + bytes.Count(text[:i], []byte("\n"))
		return nil, []Problem{at.Problem(line, i-bytes.LastIndexByte(text[:i], '\n'), "", "is not text: it holds the byte %#02x; a YAML file in UTF-8 is wanted", text[i])}
	}
	docs, err := documents(text)
	if err != nil {
		return docs, []Problem{syntaxProblem(text, at, err)}
	}
	return docs, nil
}

// notText is the index of the first byte that no text file has, or -1.
func notText(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && !strings.ContainsRune("\t\n\r", r) {
			return i
		}
		i += size
	}
	return -1
}

// documents reads all documents. The YAML library reports some mistakes by panic: they become errors.
func documents(text []byte) (docs []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, err
		}
		if len(doc.Content) == 1 && !isNull(doc.Content[0]) {
			docs = append(docs, doc.Content[0])
		}
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Texts longer than this are not searched for the line of a syntax mistake: that takes quadratic time.
const maxSearchLines = 2000

var yamlErrorLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntaxProblem finds the line that broke the YAML. The library's own line number is that of the enclosing block, or
// off by one, or missing; so the line is found by trial: what comes before the broken line is YAML, and with it
// nothing is.
func syntaxProblem(text []byte, at Place, err error) Problem {
	reason := yamlErrorLine.ReplaceAllString(err.Error(), "")
	lines := strings.SplitAfter(string(text), "\n")
	broken := 1
	if len(lines) > maxSearchLines {
		if m := yamlErrorLine.FindStringSubmatch(err.Error()); m != nil && m[1] != "" {
			_, _ = fmt.Sscan(m[1], &broken)
		}
	} else {
		for n := len(lines) - 1; n > 0; n-- {
			if _, err := documents([]byte(strings.Join(lines[:n], ""))); err == nil {
				broken = n + 1
				break
			}
		}
	}
	line := lines[min(broken, len(lines))-1]
	content := strings.TrimLeft(line, " \t")
	if indent := line[:len(line)-len(content)]; strings.Contains(indent, "\t") {
		reason += "; indent with spaces, not with tabs"
	} else {
		reason += remedy(reason)
	}
	return at.Problem(broken, 1+len(line)-len(content), "", "broken YAML: %s", reason)
}

// remedies say what usually helps against what the YAML library says.
var remedies = []struct{ reason, remedy string }{
	{"did not find expected key", "see whether it is indented like the lines around it"},
	{"did not find expected '-'", "see whether it is indented like the entries around it"},
	{"mapping values are not allowed", "put text that holds a colon in quotes, and see whether the line is indented rightly"},
	{"did not find expected ',' or", "close what is opened here by { or ["},
	{"did not find expected node content", "close what is opened here by { or ["},
	{"found unexpected end of stream", "close what is opened here by a quote"},
	{"could not find expected ':'", "put a colon and a space between key and value"},
	{"cannot start any token", "put text that begins with this character in quotes"},
	{"unknown anchor", "define it before, with & in place of *, or put the text in quotes"},
	{"alphabetic or numeric character", "put text that begins with * or & in quotes"},
}

func remedy(reason string) string {
	for _, r := range remedies {
		if strings.Contains(reason, r.reason) {
			return "; " + r.remedy
		}
	}
	return ""
}
