package events

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

func TestMergeIntoAddsWhatDecodeWouldGive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packed, got, want := NewPacked(), NewHistogram(), NewHistogram()
		for range rapid.IntRange(0, 4).Draw(t, "histograms") {
			h := NewHistogram()
			for _, us := range rapid.SliceOf(rapid.Int64Range(0, 70_000_000)).Draw(t, "µs") {
				Record(h, time.Duration(us)*time.Microsecond)
			}
			e := Encode(h)
			if err := e.MergeInto(packed); err != nil {
				t.Fatal(err)
			}
			dense, err := Decode(e)
			if err != nil {
				t.Fatal(err)
			}
			want.Merge(dense)
		}
		packed.MergeInto(got)
		if !got.Equals(want) {
			t.Fatalf("%d values, want %d", got.TotalCount(), want.TotalCount())
		}
	})
}

func TestMergeIntoRefusesWhatIsNoHistogram(t *testing.T) {
	for _, text := range []string{"", "hello", "HISTFAAAA", "====", "\x00"} {
		if err := (&Histogram{HDR: text}).MergeInto(NewPacked()); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	wide := hdrhistogram.New(1, 1<<40, 3)
	_ = wide.RecordValue(1 << 39)
	if err := Encode(wide).MergeInto(NewPacked()); err == nil {
		t.Error("values outside the range were accepted")
	}
}

func BenchmarkMergeInto(b *testing.B) {
	h := NewHistogram()
	for i := range 100 {
		Record(h, time.Duration(300+i*i)*time.Microsecond)
	}
	e, dst := Encode(h), NewPacked()
	for b.Loop() {
		if err := e.MergeInto(dst); err != nil {
			b.Fatal(err)
		}
	}
}
