package scenarios

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what is said about the files in testdata/wrong as what shall be said")

// The proxiers that the wrong files are checked against.
var testOptions = Options{Proxiers: []string{"userspace", "iptables", "kube-proxy/iptables", "kube-proxy/nftables", "kube-proxy/ipvs"}}

// Each file of testdata/wrong holds a scenario, whatever files it refers to, and what is said about it ("errors").
func TestWrongFiles(t *testing.T) {
	archives, err := filepath.Glob("testdata/wrong/*.txtar")
	if err != nil || len(archives) < 12 {
		t.Fatalf("found %d wrong files: %v", len(archives), err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { testWrongFile(t, path) })
	}
}

func testWrongFile(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var want string
	kept := archive.Files[:0]
	for _, f := range archive.Files {
		if f.Name == "errors" {
			want = string(f.Data)
			continue
		}
		kept = append(kept, f)
		file := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	got := loadWrong(t, "scenario.yaml")
	t.Chdir(repo)
	if *update {
		kept = append(kept, txtar.File{Name: "errors", Data: []byte(got)})
		archive.Files = kept
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("said:\n%s\nwanted:\n%s", got, want)
	}
}

var repo, _ = os.Getwd()

// loadWrong loads what must be wrong and returns what is said about it.
func loadWrong(t *testing.T, path string) string {
	t.Helper()
	s, err := Load(path, testOptions)
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("%s: got %v, %v; want an *Invalid", path, s, err)
	}
	if len(invalid.Problems) == 0 || s != nil {
		t.Fatalf("%s: %d problems and %v", path, len(invalid.Problems), s)
	}
	return err.Error() + "\n"
}

// What no archive of texts can hold.
func TestWrongPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name string, data []byte) {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("binary.yaml", append([]byte("kind: Scenario\nx: "), 0, 1, 2, 0xff))
	write("latin1.yaml", []byte("kind: Scenario\ndescription: caf\xe9\n"))
	write("large.yaml", []byte("# "+strings.Repeat("x", MaxFileSize)))
	if err := os.Mkdir("dir", 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"binary.yaml":  "binary.yaml:2:4: is not text: it holds the byte 0x00; a YAML file in UTF-8 is wanted",
		"latin1.yaml":  "latin1.yaml:2:17: is not text: it holds the byte 0xe9; a YAML file in UTF-8 is wanted",
		"large.yaml":   "large.yaml: is larger than 1024 KiB; that is no scenario or manifest",
		"dir":          "dir: is a directory; name a file in it",
		"nowhere.yaml": "nowhere.yaml: there is no such file",
		"quikstart":    "quikstart: there is neither a built-in scenario nor a file of this name; did you mean quickstart?",
		"":             ": there is neither a built-in scenario nor a file of this name; known here: affinity, churn, lb-failover, lb-local-policy, lb-many, lb-node-churn, lb-publish, live-swap, quickstart, rollout, scale-out, udp-flows",
		"/dev/zero":    "/dev/zero: is larger than 1024 KiB; that is no scenario or manifest",
	} {
		if got := strings.TrimSpace(loadWrong(t, path)); got != want {
			t.Errorf("%s:\n said   %s\n wanted %s", path, got, want)
		}
	}
}
