package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// sample has each payload once.
func sample() []Event {
	cpu := 0.25
	s := &Subject{Proxier: "kube-proxy/iptables", Backend: "nft", Repetition: 1}
	list := []Event{
		{RunStarted: &RunStarted{ID: "r1", Scenario: "quickstart", Expect: []string{"load.web.errors == 0"}}},
		{Subject: s, SubjectStarted: &SubjectStarted{}},
		{Subject: s, StepStarted: &StepStarted{Kind: "load", Text: "load web"}},
		{Subject: s, LoadStarted: &LoadStarted{Name: "web", Kind: "http", RatePerSec: 200}},
		{Subject: s, StepEnded: &StepEnded{Seconds: 0.1}},
		{Subject: s, LoadTick: &LoadTick{Name: "web", Seconds: 0.5, Requests: 100, Errors: 1, ErrorsByKind: map[string]int64{"reset": 1}}},
		{Subject: s, Sync: &Sync{Node: "node1", Full: true, Seconds: 0.2, CPUSeconds: &cpu}},
		{Subject: s, Usage: &Usage{Node: "node1", PID: 7, CPUSeconds: 1}},
		{Subject: s, Softirq: &Softirq{Seconds: 0.4}},
		{Subject: s, Programming: &Programming{Service: "default/web", Change: "added", Seconds: 0.3}},
		{Subject: s, Swap: &Swap{From: "userspace", To: "iptables"}},
		{Subject: s, Rules: &Rules{Service: "default/web", Node: "node1", Proxier: "iptables", Lines: []string{"nat KUBE-SERVICES:"}}},
		{Subject: s, Note: &Note{Text: "no ip_vs"}},
		{Subject: s, LBCall: &LBCall{Operation: "loadbalancer.create", Write: true, Code: 201, Seconds: 0.02, Client: "cloud"}},
		{Subject: s, LBState: &LBState{Kind: "loadbalancer", ID: "1", Status: "provisioning", From: "PENDING_CREATE", To: "ACTIVE", Seconds: 2}},
		{Subject: s, LBPublished: &LBPublished{Service: "default/web", Created: true, Address: "10.10.0.128:80", AddressSeconds: &cpu, Seconds: 2.5}},
		{Subject: s, LBFailover: &LBFailover{From: "lb1", To: "lb2", Seconds: 0.3, FlowsLost: new(int)}},
		{Subject: s, LBFault: &LBFault{Name: "busy", What: "struck", Text: "member.batch_update answered 409"}},
		{Subject: s, PartUsage: &PartUsage{Part: "lbaas", PID: 9, CPUSeconds: 0.5}},
		{Subject: s, NodeChange: &NodeChange{Node: "node3", What: "killed"}},
		{Subject: s, LoadEnded: &LoadEnded{Name: "web"}},
		{Subject: s, SubjectEnded: &SubjectEnded{}},
		{RunEnded: &RunEnded{Outcome: "done"}},
	}
	for i := range list {
		list[i].Time = time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
	}
	return list
}

func sampleLog() []byte {
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, e := range sample() {
		w.Emit(e)
	}
	return out.Bytes()
}

func collect(in io.Reader) (got []Event, truncated bool, err error) {
	r := NewReader(in)
	for e, err := range r.All() {
		if err != nil {
			return got, r.Truncated(), err
		}
		got = append(got, e)
	}
	return got, r.Truncated(), nil
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadGivesBackWhatWasWritten(t *testing.T) {
	got, truncated, err := collect(iotest.OneByteReader(bytes.NewReader(sampleLog())))
	if err != nil || truncated {
		t.Fatalf("truncated %v, error %v", truncated, err)
	}
	if want := asJSON(t, sample()); asJSON(t, got) != want {
		t.Errorf("got  %s\nwant %s", asJSON(t, got), want)
	}
}

func TestEveryPayloadHasItsKind(t *testing.T) {
	for _, e := range sample() {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(asJSON(t, e)), &fields); err != nil {
			t.Fatal(err)
		}
		if _, ok := fields[e.Kind()]; !ok {
			t.Errorf("%s is of kind %q", asJSON(t, e), e.Kind())
		}
	}
}

func TestALogCutOffAnywhereGivesWhatCameBefore(t *testing.T) {
	log := sampleLog()
	for n := range len(log) + 1 {
		got, truncated, err := collect(bytes.NewReader(log[:n]))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		lines := bytes.Count(log[:n], []byte("\n"))
		rest := n - 1 - bytes.LastIndexByte(log[:n], '\n')
		complete := rest > 0 && n < len(log) && log[n] == '\n' // only the line's end is missing
		if complete {
			lines++
		}
		if len(got) != lines || truncated != (rest > 0 && !complete) {
			t.Fatalf("cut at %d: %d events (want %d), truncated %v", n, len(got), lines, truncated)
		}
	}
}

func TestReaderToleratesANewerVersion(t *testing.T) {
	in := `{"time":"2026-01-01T00:00:00Z","note":{"text":"a","colour":"red"},"shard":3}
{"time":"2026-01-01T00:00:01Z","subject":{"proxier":"ipvs"},"firstPacket":{"hdr":"x"}}

{"time":"2026-01-01T00:00:02Z","note":{"text":"b"}}
`
	got, truncated, err := collect(strings.NewReader(in))
	if err != nil || truncated || len(got) != 3 {
		t.Fatalf("%d events, truncated %v, error %v", len(got), truncated, err)
	}
	if got[0].Note.Text != "a" || got[1].Kind() != "" || got[1].Subject.Proxier != "ipvs" || got[2].Kind() != "note" {
		t.Errorf("got %s", asJSON(t, got))
	}
}

func TestReaderIsStrictInTheMiddle(t *testing.T) {
	good := `{"time":"2026-01-01T00:00:00Z","note":{"text":"a"}}` + "\n"
	for name, bad := range map[string]string{
		"half a line": `{"time":"2026-01-01T00`,
		"not json":    `hello`,
		"null":        `null`,
		"a number":    `12`,
		"an array":    `[]`,
		"wrong type":  `{"time":"2026-01-01T00:00:00Z","note":{"text":7}}`,
		"wrong time":  `{"time":"yesterday"}`,
		"two objects": `{} {}`,
		"nul bytes":   "\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			got, truncated, err := collect(strings.NewReader(good + bad + "\n" + good))
			var line *LineError
			if !errors.As(err, &line) || line.Line != 2 {
				t.Fatalf("error %v, want one about line 2", err)
			}
			if len(got) != 1 || truncated {
				t.Errorf("%d events before it, truncated %v", len(got), truncated)
			}
		})
	}
}

func TestReaderRepeatsItsError(t *testing.T) {
	r := NewReader(strings.NewReader("x\n{}\n"))
	_, first := r.Next()
	_, second := r.Next()
	if first == nil || !errors.Is(second, first) {
		t.Errorf("first %v, then %v", first, second)
	}
	failing := errors.New("broken pipe")
	if _, err := NewReader(iotest.ErrReader(failing)).Next(); !errors.Is(err, failing) {
		t.Errorf("reading error: %v", err)
	}
}

func TestReaderTakesLongLines(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	long := strings.Repeat("manifest\n", 300_000)
	w.Emit(Event{RunStarted: &RunStarted{ScenarioYAML: long}})
	w.Emit(note("after"))
	got, _, err := collect(&out)
	if err != nil || len(got) != 2 || got[0].RunStarted.ScenarioYAML != long {
		t.Fatalf("%d events, error %v", len(got), err)
	}
}

func TestReadFileTakesDirectoryOrFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, FileName)
	if _, err := ReadFile(dir); err == nil || !strings.Contains(err.Error(), "not the directory of a run") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := ReadFile(filepath.Join(dir, "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	if err := os.WriteFile(file, append(sampleLog(), "{\"time"...), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file} {
		log, err := ReadFile(path)
		if err != nil || !log.Truncated || len(log.Events) != len(sample()) || log.Path != file {
			t.Errorf("%s: %+v, error %v", path, log, err)
		}
	}
	if err := os.WriteFile(file, []byte("oops\n{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(dir); err == nil || !strings.Contains(err.Error(), file+": line 1") {
		t.Errorf("corrupt: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(sampleLog())
	f.Add([]byte("{}\n\n null\n"))
	f.Add([]byte(`{"time":"2026-01-01T00:00:00Z","loadTick":{"latency":{"hdr":"HISTFAAAA"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, truncated, err := collect(bytes.NewReader(data))
		slow, slowTruncated, slowErr := collect(iotest.OneByteReader(bytes.NewReader(data)))
		if len(got) != len(slow) || truncated != slowTruncated || (err == nil) != (slowErr == nil) {
			t.Fatalf("read in one piece: %d %v %v; byte by byte: %d %v %v",
				len(got), truncated, err, len(slow), slowTruncated, slowErr)
		}
		if truncated && err != nil {
			t.Fatalf("both truncated and %v", err)
		}
		// What was read can be written and read again.
		var out bytes.Buffer
		w := NewWriter(&out)
		for _, e := range got {
			w.Emit(e)
		}
		if w.Err() != nil {
			return // a year that JSON cannot hold, say
		}
		again, _, err := collect(&out)
		if err != nil || len(again) != len(got) {
			t.Fatalf("written again: %d events, error %v; want %d", len(again), err, len(got))
		}
	})
}
