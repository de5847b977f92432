package play

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"proxylab/proxiers/runner"
)

// InEffect is the proxier that runs by its own word, read from the last report in a file of reports: another than was asked
// for where a fallback runs, or where kube-proxy fell back by itself. Empty: it has not said.
func InEffect(reports string) string {
	f, err := os.Open(reports)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	const enough = 64 << 10
	if st, err := f.Stat(); err == nil && st.Size() > enough {
		if _, err := f.Seek(-enough, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	lines := bytes.Split(data, []byte("\n"))
	for i := len(lines) - 2; i >= 0; i-- { // what comes after the last line break is not complete
		var r runner.Report
		if json.Unmarshal(lines[i], &r) == nil && r.Error == "" {
			return r.Proxier
		}
	}
	return ""
}
