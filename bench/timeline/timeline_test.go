package timeline

import (
	"os"
	"testing"

	"proxylab/bench/events"
	"proxylab/bench/report"
)

func TestReal(t *testing.T) {
	log, err := events.ReadFile(os.Getenv("LOG"))
	if err != nil { t.Skip(err) }
	f := NewFolder()
	for _, e := range log.Events { f.Add(e) }
	for _, g := range f.Timeline().Groups { t.Log(g.Name(), g.Seconds, len(g.Loads), len(g.Syncs)) }
}

func BenchmarkParts(b *testing.B) {
	log, err := events.ReadFile(os.Getenv("LOG"))
	if err != nil { b.Skip(err) }
	b.Run("read", func(b *testing.B) { for b.Loop() { events.ReadFile(os.Getenv("LOG")) } })
	b.Run("report", func(b *testing.B) { for b.Loop() { f := report.NewFolder(); for _, e := range log.Events { f.Add(e) } } })
	b.Run("timeline", func(b *testing.B) { for b.Loop() { f := NewFolder(); for _, e := range log.Events { f.Add(e) } } })
}
