// Package eventstest is the log of a real run, for tests of what is made of logs.
package eventstest

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/bench/events"
)

// The scenario quickstart with userspace, iptables, kube-proxy/iptables and kube-proxy/nftables, on Linux 6.18 with two
// processors: 173 seconds.
//
//go:embed quickstart.jsonl.gz
var packed []byte

var plain = sync.OnceValues(func() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
})

var parsed = sync.OnceValues(func() ([]events.Event, error) {
	text, err := plain()
	if err != nil {
		return nil, err
	}
	var list []events.Event
	for e, err := range events.Read(bytes.NewReader(text)) {
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
})

// Log is a run of quickstart with four proxiers, as its file has it. It is the caller's to change.
func Log(t testing.TB) []byte {
	t.Helper()
	text, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(text)
}

// Events are those of Log. What they point to is not to be changed.
func Events(t testing.TB) []events.Event {
	t.Helper()
	list, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(list)
}

// TwoHours is Log again and again, as repetitions, until it is two hours long: about 54 MB.
func TwoHours(t testing.TB) []byte {
	t.Helper()
	list := Events(t)
	length := list[len(list)-1].Time.Sub(list[0].Time)
	times := int(2*time.Hour/length) + 1
	var out bytes.Buffer
	out.Grow(60 << 20)
	w := events.NewWriter(&out)
	for i := range times {
		for _, e := range list {
			if e.RunStarted != nil && i > 0 || e.RunEnded != nil && i < times-1 {
				continue
			}
			e.Time = e.Time.Add(time.Duration(i) * length)
			if e.Subject != nil {
				s := *e.Subject
				s.Repetition = i + 1
				e.Subject = &s
			}
			w.Emit(e)
		}
	}
	if err := w.Err(); err != nil {
		t.Fatal(fmt.Errorf("write a log of two hours: %w", err))
	}
	return out.Bytes()
}

// Write makes a run of that name, with that log, in a directory, and returns the path of the log.
func Write(t testing.TB, dir, id string, log []byte) string {
	t.Helper()
	path := filepath.Join(dir, id, events.FileName)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, log, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// ReportCPU begins to measure the processor time of a benchmark, and returns what ends it and reports it for one iteration: where a
// machine has other work, the time on the wall says little.
func ReportCPU(b *testing.B) (done func()) {
	b.Helper()
	from := CPUSeconds(b)
	return func() { b.ReportMetric((CPUSeconds(b)-from)/float64(b.N), "cpu-s/op") }
}

// CPUSeconds is the processor time of this process so far.
func CPUSeconds(b *testing.B) float64 {
	b.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}
