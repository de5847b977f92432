package report

import (
	"bytes"
	"encoding/json"
)

// JSON is the result as result.json holds it, with a line end.
func JSON(r *Result) []byte {
	text, err := encode(r)
	if err != nil {
		// A sum that left the range of numbers, in a log that nobody measured. What was played can still be said.
		text, _ = encode(&Result{
			Run: r.Run, Subjects: []*Subject{}, Expectations: []Verdict{},
			Notes: append(r.Notes, "The figures cannot be written: "+err.Error()+"."),
		})
	}
	return text
}

func encode(r *Result) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(r)
	return out.Bytes(), err
}
