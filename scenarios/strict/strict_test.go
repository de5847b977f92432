package strict

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type sample struct {
	Name    string            `json:"name" jsonschema:"required"`
	Count   int               `json:"count,omitempty" jsonschema:"default=7,minimum=1,maximum=9"`
	Small   int8              `json:"small,omitempty"`
	Port    uint16            `json:"port,omitempty"`
	Share   float64           `json:"share,omitempty"`
	On      bool              `json:"on,omitempty" jsonschema:"default=true"`
	Colour  string            `json:"colour,omitempty" jsonschema:"enum=red,enum=green,default=green"`
	Data    []byte            `json:"data,omitempty"`
	List    []inner           `json:"list,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Pointer *inner            `json:"pointer,omitempty"`
	Any     any               `json:"any,omitempty"`
	Time    stamp             `json:"time,omitempty"`
	Inner   inner             `json:"inner,omitempty"`
	flat    `json:",inline"`
	Hidden  string `json:"-"`
	private string //nolint:unused // must be left alone
}

type inner struct {
	Value int `json:"value,omitempty" jsonschema:"default=3"`
}

type flat struct {
	Flat string `json:"flat,omitempty"`
}

// stamp reads itself from text.
type stamp struct{ at time.Time }

func (s *stamp) UnmarshalText(text []byte) (err error) {
	s.at, err = time.Parse(time.DateOnly, string(text))
	return err
}

func decode(t *testing.T, text string) (sample, *Index, []Problem) {
	t.Helper()
	docs, problems := Parse([]byte(text), Place{File: "f"})
	if len(docs) != 1 || len(problems) > 0 {
		t.Fatalf("%q: %d documents, %v", text, len(docs), problems)
	}
	var s sample
	index, problems := Decode(docs[0], &s, Place{File: "f"}, Options{})
	return s, index, problems
}

func TestDecodeWhole(t *testing.T) {
	s, index, problems := decode(t, `
name: "12"
small: -128
port: 0xffff
share: 1
on: false
data: aGk=
list: [{value: 1}, {}]
labels: {a.b/c: x, d: "1"}
pointer: {}
any: {a: [1, 2.5, null, true, x, 2024-01-02], 5: y}
time: 2024-01-02
flat: f
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if got, want := fmt.Sprint(s.Any), "map[5:y a:[1 2.5 <nil> true x 2024-01-02]]"; got != want {
		t.Errorf("any is %s, want %s", got, want)
	}
	if s.Name != "12" || s.Count != 7 || s.Small != -128 || s.Port != 0xffff || s.Share != 1 || s.On || s.Colour != "green" || string(s.Data) != "hi" ||
		len(s.List) != 2 || s.List[0].Value != 1 || s.List[1].Value != 3 || s.Labels["a.b/c"] != "x" || s.Pointer.Value != 3 || s.Inner.Value != 3 ||
		s.Time.at.Day() != 2 || s.Flat != "f" {
		t.Errorf("%+v", s)
	}
	if !index.Has("list[1]") || index.Has("count") || index.Node("flat").Value != "f" {
		t.Error("the index does not know what the file gives")
	}
	if p := index.Problem("list[0].value.deeper", "x"); p.Line != 8 || p.Column != 16 {
		t.Errorf("the nearest place is %+v", p)
	}
}

func TestDecodeMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                              "f:1:1: name is missing",
		"name: ''":                        "f:1:7: name: is empty",
		"name: x\nname: y":                "f:2:1: name: is given a second time; the first is in line 1",
		"name: x\nHidden: y":              `f:2:1: unknown field "Hidden"`,
		"name: x\nprivate: y":             `f:2:1: unknown field "private"`,
		"name: x\ncount: 10":              "f:2:8: count: 10 is too large; the most is 9",
		"name: x\ncount: 1e3":             `f:2:8: count: "1e3" is not a whole number`,
		"name: x\nsmall: 128":             `f:2:8: small: "128" is not a whole number that fits here`,
		"name: x\nport: -1":               `f:2:7: port: "-1" is not a whole number that fits here`,
		"name: x\nshare: much":            `f:2:8: share: "much" is not a number`,
		"name: x\non: yes":                `f:2:5: on: "yes" is not true or false`,
		"name: x\ncolour: gren":           `f:2:9: colour: unknown value "gren"; did you mean green?`,
		"name: x\ndata: '%'":              "f:2:7: data: is not base64: illegal base64 data at input byte 0",
		"name: x\nlist:\n  value: 3":      "f:3:3: list: is a mapping, where a list is wanted; begin each entry with a dash",
		"name: x\nlist: [{value: {}}]":    "f:2:16: list[0].value: is a mapping, where a whole number is wanted",
		"name: x\nlabels: {a: true}":      `f:2:13: labels.a: is true, where text is wanted; put it in quotes: "true"`,
		"name: x\ntime: soon":             `f:2:7: time: parsing time "soon" as "2006-01-02": cannot parse "soon" as "2006"`,
		"name: x\ninner:":                 "f:2:7: inner: has no value; give it one, or leave the key out",
		"name: x\nany: {a: 1, a: 2}":      "f:2:13: any.a: is given a second time; the first is in line 2",
		"name: x\nany: .nan":              "f:2:6: any: .nan is not a number that JSON has",
		"name: x\nany: 99999999999999999": "",
		"name: x\n? [a]\n: b":             "f:2:3: has a list as a key; a key is a word",
		"name: x\n<<: {count: 3}":         "f:2:1: merge keys (<<) are not known here; write the fields out",
		"name: x\nany: &a {b: *a}":        "f:2:13: any.b.b: the alias *a stands for something that holds itself",
		"name: x\nany: &a [1]\ninner: *a": "f:2:6: inner: is a list, where a mapping with the fields value is wanted",
	} {
		_, _, problems := decode(t, text)
		var got []string
		for _, p := range problems {
			said, _, _ := strings.Cut(p.String(), "; known here")
			got = append(got, said)
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%q:\n said   %s\n wanted %s", text, strings.Join(got, "\n"), want)
		}
	}
}

func TestAliases(t *testing.T) {
	s, _, problems := decode(t, "name: x\npointer: &p {value: 5}\ninner: *p\nlist: [*p, *p]\n")
	if len(problems) > 0 || s.Inner.Value != 5 || s.List[1].Value != 5 {
		t.Errorf("%+v, %v", s, problems)
	}
}

func TestAliasesThatStandForTooMuch(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: x\nany:\n  a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	_, _, problems := decode(t, b.String())
	if len(problems) != 1 || !strings.Contains(problems[0].Text, "stand for too much") {
		t.Errorf("%v", problems)
	}
}

func TestNullAllowed(t *testing.T) {
	docs, _ := Parse([]byte("name:\ninner:\nlist: [null]\npointer: ~\n"), Place{})
	var s sample
	if _, problems := Decode(docs[0], &s, Place{}, Options{AllowNull: true}); len(problems) > 0 || s.Pointer != nil || len(s.List) != 1 {
		t.Errorf("%+v, %v", s, problems)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: [1\nc: 2\nd: 3\n":   "f:2:1: ", // not closed
		"a: 1\nb: 'x\nc: 2\n":         "f:2:1: ",
		"a: 1\n b: 2\nc: 3\n":         "f:2:2: ",
		"a:\n  b: 1\n c: 2\n":         "f:3:2: ",
		"a:\n\tb: 1\n":                "f:2:2: ",
		"a: 1\nb: @x\n":               "f:2:1: ",
		"a: 1\nb: c: d\n":             "f:2:1: ",
		"a: 1\n---\nb: [\n":           "f:3:1: ",
		"a: 1\nb: *c\n":               "f:2:1: ",
		"a: 1\n\x00":                  "f:2:1: is not text: it holds the byte 0x00",
		"a: \xff":                     "f:1:4: is not text: it holds the byte 0xff",
		"a: 1\n- b\n":                 "f:2:1: ",
		"%YAML 9.9\n---\na: 1\n":      "f:1:1: ",
		"":                            "",
		"# nothing":                   "",
		"---\n---\n":                  "",
		"a: 1\n...\n---\nb: 2\n---\n": "",
	} {
		_, problems := Parse([]byte(text), Place{File: "f"})
		var got string
		if len(problems) > 0 {
			got = problems[0].String()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: said %q, wanted %q", text, got, want)
		}
	}
	if docs, _ := Parse([]byte("a: 1\n---\n# none\n---\nb: 2\n"), Place{}); len(docs) != 2 {
		t.Errorf("%d documents, want 2", len(docs))
	}
}

// A text too long to be searched still gets the library's own line.
func TestParseLong(t *testing.T) {
	text := strings.Repeat("a:\n", 1) + strings.Repeat("- b\n", 2*maxSearchLines) + "\tc\n"
	_, problems := Parse([]byte(text), Place{File: "f"})
	if len(problems) != 1 || problems[0].Line < 1 || problems[0].Line > 2*maxSearchLines+3 {
		t.Errorf("%v", problems)
	}
}

func TestPlace(t *testing.T) {
	at := Place{File: "f", Lines: 10, Columns: 4, Prefix: "Service web"}
	if got, want := at.Problem(2, 3, "spec.x", "bad %d", 1).String(), "f:12:7: Service web: spec.x: bad 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	at.Fixed = true
	if got, want := at.Problem(2, 3, "", "bad").String(), "f:10:4: Service web: bad"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"iptables", "nftables", "ipvs", "userspace"}
	for word, want := range map[string]string{
		"iptabels": "; did you mean iptables?",
		"IPVS":     "; did you mean ipvs?",
		"user":     "; known here: iptables, nftables, ipvs, userspace",
		"":         "; known here: iptables, nftables, ipvs, userspace",
		"nfables":  "; did you mean nftables?",
	} {
		if got := Suggest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Suggest("x", nil); got != "" {
		t.Errorf("nothing known: %q", got)
	}
}

func TestDistance(t *testing.T) {
	word := rapid.StringMatching(`[a-c]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		switch {
		case d != distance(b, a):
			t.Fatal("not symmetric")
		case (d == 0) != (a == b):
			t.Fatal("zero for different words, or not for the same")
		case d > max(len(a), len(b)), d < max(len(a)-len(b), len(b)-len(a)):
			t.Fatalf("%d is impossible", d)
		}
	})
}

// Whatever is decoded, each mistake is about a line that the text has.
func FuzzDecode(f *testing.F) {
	f.Add("name: x\nlist: [{value: 1}]\nany: {a: [1]}\n")
	f.Add("name: &a x\npointer: *a\n<<: *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		docs, problems := Parse([]byte(text), Place{File: "f"})
		for _, doc := range docs {
			var s sample
			_, more := Decode(doc, &s, Place{File: "f"}, Options{})
			problems = append(problems, more...)
		}
		for _, p := range problems {
			// YAML has more line breaks than "\n".
			if p.Line < 1 || p.Line > strings.Count(text, "\n")+1 && !strings.ContainsAny(text, "\r\u0085\u2028\u2029") || p.Column < 1 {
				t.Errorf("%q: %+v", text, p)
			}
		}
	})
}
