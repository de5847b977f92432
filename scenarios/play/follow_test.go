package play

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFollowFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reports.jsonl")
	lines := make(chan string, 10)
	f := followFile(path, func(line []byte) { lines <- string(line) })
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("one\ntw")
	got := []string{<-lines}
	write("o\n\nthree\nunfinished")
	got = append(got, <-lines, <-lines)
	write("\nlast\n")
	f.close() // reads to the end of what is there
	close(lines)
	for line := range lines {
		got = append(got, line)
	}
	if want := []string{"one", "two", "three", "unfinished", "last"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
