package play

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInEffect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "reports")
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{`{"proxier":"ipvs"}`, ""}, // not complete
		{`{"proxier":"ipvs"}` + "\n" + `{"proxier":"iptables"}` + "\n" + `{"proxier":"ip`, "iptables"},
		{`{"proxier":"ipvs"}` + "\n" + `{"proxier":"iptables","error":"x"}` + "\n", "ipvs"},
		{`{"seconds":1}` + "\n", ""},
		{strings.Repeat("x", 1<<20) + "\n" + `{"proxier":"ipvs"}` + "\n", "ipvs"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := InEffect(file); got != c.want {
			t.Errorf("%.60q: %q, want %q", c.text, got, c.want)
		}
	}
	if got := InEffect(file + "x"); got != "" {
		t.Errorf("no file: %q", got)
	}
}
