package controlplane

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestBackgroundKey(t *testing.T) {
	a, b := netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.96.0.0/12")
	keys := map[string]bool{}
	for _, k := range []string{
		backgroundKey(Background{10, 4}, a), backgroundKey(Background{4, 10}, a),
		backgroundKey(Background{104, 0}, a), backgroundKey(Background{10, 4}, b),
	} {
		keys[k] = true
	}
	if len(keys) != 4 {
		t.Errorf("different contents share a key: %v", keys)
	}
	if !keys[backgroundKey(Background{10, 4}, a)] {
		t.Error("the key changes")
	}
}

func TestBrokenEntryIsSeen(t *testing.T) {
	write := func(t *testing.T, entry, name, content string) {
		t.Helper()
		if err := writeFile(filepath.Join(entry, name), []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for name, breakIt := range map[string]func(t *testing.T, entry string){
		"byte":     func(t *testing.T, e string) { write(t, e, "member/snap/db", "Xyz") },
		"cut":      func(t *testing.T, e string) { write(t, e, "member/snap/db", "xy") },
		"extra":    func(t *testing.T, e string) { write(t, e, "member/wal/2", "") },
		"manifest": func(t *testing.T, e string) { write(t, e, manifestFile, `{"member`) },
		"empty":    func(t *testing.T, e string) { write(t, e, manifestFile, `{}`) },
		"gone": func(t *testing.T, e string) {
			if err := os.Remove(filepath.Join(e, "member/wal/1")); err != nil {
				t.Fatal(err)
			}
		},
		"no manifest": func(t *testing.T, e string) {
			if err := os.Remove(filepath.Join(e, manifestFile)); err != nil {
				t.Fatal(err)
			}
		},
		"link": func(t *testing.T, e string) {
			if err := os.Symlink("db", filepath.Join(e, "member/snap/other")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			entry := filepath.Join(t.TempDir(), "entry")
			if err := checkEntry(entry); !errors.Is(err, errNoEntry) {
				t.Errorf("no entry: %v", err)
			}
			write(t, entry, "member/snap/db", "xyz")
			write(t, entry, "member/wal/1", "log")
			if err := writeManifest(entry); err != nil {
				t.Fatal(err)
			}
			if err := checkEntry(entry); err != nil {
				t.Fatalf("whole entry: %v", err)
			}
			breakIt(t, entry)
			if err := checkEntry(entry); err == nil || errors.Is(err, errNoEntry) {
				t.Errorf("broken entry: %v", err)
			}
		})
	}
}

// starterFor prepares what ensureData needs.
func starterFor(t *testing.T, lab, cache string, b Background) *starter {
	t.Helper()
	c := testConfig(t, lab)
	c.CacheDir, c.Background = cache, b
	c, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := &starter{Config: c, paths: paths{c.Dir}}
	if err := os.MkdirAll(s.logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRacingLabsShareOneEntry(t *testing.T) {
	cache, ctx := t.TempDir(), context.Background()
	b := Background{Services: 20, EndpointsPerService: 2}
	var wg sync.WaitGroup
	labs := []string{"proxylab-cp-race1", "proxylab-cp-race2", "proxylab-cp-race3"}
	all := make([]*starter, 0, len(labs))
	for _, lab := range labs {
		s := starterFor(t, lab, cache, b)
		all = append(all, s)
		wg.Go(func() {
			if err := s.ensureData(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	entries, err := filepath.Glob(filepath.Join(cache, "background", "*", manifestFile))
	if err != nil || len(entries) != 1 {
		t.Fatalf("entries %v, %v", entries, err)
	}
	want, err := sums(filepath.Dir(entries[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		have, err := sums(s.etcdData())
		if err != nil || len(have) != len(want) {
			t.Fatalf("%d files of %d, %v", len(have), len(want), err)
		}
		for name := range want {
			if have[name] != want[name] {
				t.Errorf("%s of %s is no copy", name, s.Lab)
			}
		}
		if err := s.ensureData(ctx); err != nil {
			t.Errorf("data that is there: %v", err)
		}
	}
}

func TestBrokenEntryIsMadeAgain(t *testing.T) {
	cache, ctx := t.TempDir(), context.Background()
	b := Background{Services: 3, EndpointsPerService: 1}
	if err := starterFor(t, "proxylab-cp-broken1", cache, b).ensureData(ctx); err != nil {
		t.Fatal(err)
	}
	dbs, _ := filepath.Glob(filepath.Join(cache, "background", "*", "member", "snap", "db"))
	if len(dbs) != 1 {
		t.Fatalf("databases: %v", dbs)
	}
	if err := os.Truncate(dbs[0], 100); err != nil {
		t.Fatal(err)
	}
	// What a run that was killed left behind does not matter either.
	if err := os.MkdirAll(filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(dbs[0])))+".new", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := starterFor(t, "proxylab-cp-broken2", cache, b)
	if err := s.ensureData(ctx); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(s.etcdData(), "member", "snap", "db")); err != nil || info.Size() < 4096 {
		t.Errorf("copy of a broken database: %v, %v", info, err)
	}
}

func TestCacheThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := starterFor(t, "proxylab-cp-nocache", file, Background{Services: 1})
	if err := s.ensureData(context.Background()); err == nil {
		t.Error("no error")
	}
}
