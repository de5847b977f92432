package events

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func following(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), time.Minute) // a bound for a hang, not an expectation
}

func TestFollowReadsAGrowingLogToItsEnd(t *testing.T) {
	ctx, cancel := following(t)
	defer cancel()
	dir := t.TempDir()
	log := sampleLog()
	got := make(chan Event)
	go func() {
		defer close(got)
		for e, err := range Follow(ctx, dir) { // there is no log yet
			if err != nil {
				t.Error(err)
				return
			}
			got <- e
		}
	}()
	f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// In pieces that do not respect lines; each event must come as soon as its line is complete.
	seen, complete := 0, 0
	for start := 0; start < len(log); start += 100 {
		piece := log[start:min(start+100, len(log))]
		if _, err := f.Write(piece); err != nil {
			t.Fatal(err)
		}
		complete += strings.Count(string(piece), "\n")
		for ; seen < complete; seen++ {
			select {
			case e := <-got:
				if want := sample()[seen]; e.Kind() != want.Kind() {
					t.Fatalf("event %d is a %s, want a %s", seen, e.Kind(), want.Kind())
				}
			case <-ctx.Done():
				t.Fatalf("event %d did not come", seen)
			}
		}
	}
	if e, more := <-got; more {
		t.Errorf("after the end of the run: %v", e)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), append(sampleLog()[:300], "{\"ti"...), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for e, err := range Follow(ctx, dir) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if e.RunStarted != nil {
			cancel()
		}
	}
	if n == 0 {
		t.Error("no event")
	}
	for _, err := range Follow(ctx, t.TempDir()) { // waiting for a log that never comes
		t.Error(err)
	}
}

func TestFollowReportsWhatIsWrong(t *testing.T) {
	ctx, cancel := following(t)
	defer cancel()
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path, []byte("oops\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]string{path: "line 1", filepath.Join(dir, "missing"): "no such file"} {
		var last error
		for _, err := range Follow(ctx, where) {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), want) {
			t.Errorf("%s: %v", where, last)
		}
	}
}

func TestGrowthIsNoticedWithoutNotifications(t *testing.T) {
	ctx, cancel := following(t)
	defer cancel()
	none := watch(filepath.Join(t.TempDir(), "missing"))
	defer none.close()
	if none.watcher != nil {
		t.Fatal("watching a directory that is not there")
	}
	if err := none.wait(ctx); err != nil {
		t.Error(err)
	}
}
