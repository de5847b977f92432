package events

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

func TestUnpackIsWhatTheLibraryDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := NewHistogram()
		for _, us := range rapid.SliceOfN(rapid.Int64Range(1, 60_000_000), 1, 200).Draw(t, "µs") {
			Record(h, time.Duration(us)*time.Microsecond)
		}
		text := Encode(h).HDR
		got, err := unpack(text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := hdrhistogram.DecodePacked([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		a, b := NewHistogram(), NewHistogram()
		got.MergeInto(a)
		want.MergeInto(b)
		if !a.Equals(b) || a.TotalCount() != h.TotalCount() {
			t.Fatalf("%d values, the library has %d of %d", a.TotalCount(), b.TotalCount(), h.TotalCount())
		}
	})
}

func TestUnpackLeavesOtherHistogramsToTheLibrary(t *testing.T) {
	other := hdrhistogram.New(1, 3_600_000_000, 2)
	for i := range int64(100) {
		_ = other.RecordValue(1000 * i)
	}
	b, err := other.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := unpack(string(b)); err != nil || h.TotalCount() != 100 {
		t.Errorf("%v, error %v", h, err)
	}
}

func FuzzUnpack(f *testing.F) {
	h := NewHistogram()
	Record(h, time.Millisecond)
	f.Add(Encode(h).HDR)
	f.Add("HISTFAAAACx42pJpmSzMwMDAwQABzFCaEcyZ3M5g/wEi8JefqVuA6SY3EyAAAP//d0UGMQ==")
	f.Add("")
	f.Add("HISTFAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := unpack(text); err == nil && h == nil {
			t.Fatal("neither a histogram nor an error")
		}
	})
}

// TestReadAheadIsRead: the same events and the same errors, for logs of any length, cut off and corrupt.
func TestReadAheadIsRead(t *testing.T) {
	var long bytes.Buffer
	w := NewWriter(&long)
	for i := range 5000 {
		w.Emit(note(fmt.Sprintf("%d %s", i, strings.Repeat("x", i%300))))
		if i == 2500 {
			w.Emit(note(strings.Repeat("long ", 200_000)))
		}
	}
	whole := long.String()
	for name, log := range map[string]string{
		"sample":      string(sampleLog()),
		"long":        whole,
		"cut off":     whole[:len(whole)-20],
		"corrupt":     whole[:700_000] + "\noops\n" + whole[700_000:],
		"no line end": strings.TrimSuffix(whole, "\n"),
		"empty":       "",
	} {
		want, _, wantErr := collect(strings.NewReader(log))
		var got []Event
		var gotErr error
		for e, err := range ReadAhead(strings.NewReader(log)) {
			if err != nil {
				gotErr = err
				break
			}
			got = append(got, e)
		}
		if asJSON(t, got) != asJSON(t, want) {
			t.Errorf("%s: %d events, want %d", name, len(got), len(want))
		}
		var a, b *LineError
		if errors.As(gotErr, &a) != errors.As(wantErr, &b) || a != nil && (a.Line != b.Line || a.Error() != b.Error()) {
			t.Errorf("%s: error %v, want %v", name, gotErr, wantErr)
		}
	}
	for e := range ReadAhead(strings.NewReader(whole)) { // who stops early leaves nothing behind: goleak looks
		_ = e
		break
	}
}
