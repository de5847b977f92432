package report

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// JSON is the result as result.json holds it, with a line end. It fails on a sum that left the range of numbers, which
// takes a log that nobody measured.
func JSON(r *Result) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("write the result as JSON: %w", err)
	}
	return out.Bytes(), nil
}
