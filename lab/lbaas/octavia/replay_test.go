package octavia

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recording is a request to the real service, with its answer.
type recording struct {
	Name    string
	Note    string
	Request struct {
		Method, Path string
		Headers      map[string]string
		Body         any
	}
	Response struct {
		Status  int
		Headers map[string]string
		Body    any
	}
}

func recordings(t *testing.T) []recording {
	t.Helper()
	f, err := os.Open("testdata/recordings.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []recording
	for s := bufio.NewScanner(f); s.Scan(); {
		var r recording
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) < 200 {
		t.Fatalf("%d recordings", len(all))
	}
	return all
}

var (
	uuidShape = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeShape = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}$`)
	hostShape = regexp.MustCompile(`^http://127\.0\.0\.1:\d+/`)
)

// translation knows which of our IDs stands for which recorded one.
type translation struct{ ours, theirs map[string]string }

// translate replaces recorded IDs that are known.
func (tr translation) translate(s string) string {
	return uuidShape.ReplaceAllStringFunc(s, func(id string) string {
		if our, ok := tr.ours[id]; ok {
			return our
		}
		return id
	})
}

// compare gives what differs between two bodies, where, and learns IDs on the way.
func (tr translation) compare(where string, want, have any) []string {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: want an object, have %v", where, have)}
		}
		if d := cmp.Diff(slices.Sorted(maps.Keys(w)), slices.Sorted(maps.Keys(h))); d != "" {
			return []string{where + ": keys (-recorded +ours):\n" + d}
		}
		var out []string
		for _, k := range slices.Sorted(maps.Keys(w)) {
			out = append(out, tr.compare(where+"."+k, w[k], h[k])...)
		}
		return out
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return []string{fmt.Sprintf("%s: want %d items, have %v", where, len(w), have)}
		}
		var out []string
		for i := range w {
			out = append(out, tr.compare(fmt.Sprintf("%s[%d]", where, i), w[i], h[i])...)
		}
		return out
	case string:
		h, ok := have.(string)
		if !ok || !tr.same(w, h) {
			return []string{fmt.Sprintf("%s:\n   recorded %q\n   ours     %q", where, tr.translate(w), have)}
		}
		return nil
	}
	if d := cmp.Diff(want, have); d != "" {
		return []string{fmt.Sprintf("%s: recorded %v, ours %v", where, want, have)}
	}
	return nil
}

func (tr translation) same(w, h string) bool {
	if timeShape.MatchString(w) {
		return timeShape.MatchString(h)
	}
	if uuidShape.FindString(w) == w && uuidShape.FindString(h) == h {
		if _, known := tr.ours[w]; !known && tr.theirs[h] == "" {
			tr.ours[w], tr.theirs[h] = h, w
		}
	}
	w, h = hostShape.ReplaceAllString(w, "http://host/"), hostShape.ReplaceAllString(h, "http://host/")
	return tr.translate(w) == h
}

// settled says before which recording the end states were set by hand, as they were when it was made: "" ACTIVE for all,
// an ID: ERROR for that one.
func settled() map[string]string {
	before := map[string]string{"172": "7ff4d0ef-421a-42b4-afbb-6514192aa8a4"}
	for _, n := range strings.Fields(`020 038 044 057 061 073 074 077 088 090 093 096 097 099 101 102 104 106 115 117 118
		124 127 131 159 164 165 176 177`) {
		before[n] = ""
	}
	return before
}

// knownDifferences are what a recording has otherwise, and why ours is right.
func knownDifferences() map[string]string {
	return map[string]string{
		"160": "operating_status", // of members: set by hand to NO_MONITOR, though there is a monitor
		"162": "operating_status",
		"186": "operating_status", // of members: NO_MONITOR in one of two pools that both have monitors, OFFLINE in 156
	}
}

func newReplayService(t *testing.T, opts Options) (*Service, *httptest.Server) {
	t.Helper()
	opts.Providers = []Provider{
		{Name: "noop_driver", Description: "'noop driver'"}, {Name: "amphora", Description: "'amphora (unused)'"}}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, server
}

// ask sends a request and gives the answer; the body is nil when there is none.
func ask(t *testing.T, method, url string, headers map[string]string, body any) (int, http.Header, any) {
	t.Helper()
	status, header, data := askRaw(t, method, url, headers, body)
	var decoded any
	if len(data) > 0 {
		if err := json.Unmarshal(data, &decoded); err != nil {
			t.Fatalf("%s %s: %v: %s", method, url, err, data)
		}
	}
	return status, header, decoded
}

func askRaw(t *testing.T, method, url string, headers map[string]string, body any) (int, http.Header, []byte) {
	t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, data
}

// TestReplay plays everything that was recorded of the real service, in order, and wants the same answers.
func TestReplay(t *testing.T) {
	s, server := newReplayService(t, Options{Manual: true})
	all := recordings(t)
	member := map[string]string{"X-Project-Id": strings.Repeat("1", 32), "Content-Type": "application/json"}
	// One balancer was there before the recording began.
	if status, _, _ := ask(t, "POST", server.URL+"/v2.0/lbaas/loadbalancers", member,
		`{"loadbalancer":{"name":"lb1","vip_subnet_id":"6c3f7bb1-1111-4444-8888-000000000001"}}`); status != http.StatusCreated {
		t.Fatal("seed:", status)
	}
	tr := translation{map[string]string{}, map[string]string{}}
	agreed := 0
	for _, r := range all {
		if id, now := settled()[r.Name[:3]]; now {
			if err := s.Settle(tr.translate(id), id != ""); err != nil {
				t.Fatal(r.Name, err)
			}
		}
		body := r.Request.Body
		if body != nil {
			raw, isText := body.(string)
			if !isText {
				data, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				raw = string(data)
			}
			body = tr.translate(raw)
		}
		status, header, have := ask(t, r.Request.Method, server.URL+tr.translate(r.Request.Path), r.Request.Headers, body)
		if differs := tr.judge(r, status, header, have); len(differs) > 0 {
			sort.Strings(differs)
			t.Errorf("%s: %s %s\n  %s", r.Name, r.Request.Method, r.Request.Path, strings.Join(differs, "\n  "))
			continue
		}
		agreed++
	}
	t.Logf("%d of %d answers agree", agreed, len(all))
}

func (tr translation) judge(r recording, status int, header http.Header, have any) []string {
	if strings.HasPrefix(r.Name, "068") { // a genuine 500 of the real one: the listener does not exist
		want := map[string]any{"faultcode": "Client", "debuginfo": nil,
			"faultstring": "Listener 00000000-dead-beef-0000-000000000000 not found."}
		if status != http.StatusNotFound {
			return []string{fmt.Sprintf("status: want 404, have %d", status)}
		}
		return tr.compare("body", want, have)
	}
	var differs []string
	if status != r.Response.Status {
		differs = append(differs, fmt.Sprintf("status: recorded %d, ours %d", r.Response.Status, status))
	}
	for name, want := range r.Response.Headers {
		if have := header.Get(name); have != want {
			differs = append(differs, fmt.Sprintf("header %s: recorded %q, ours %q", name, want, have))
		}
	}
	for _, d := range tr.compare("body", r.Response.Body, have) {
		known := knownDifferences()[r.Name[:3]]
		if known == "" || !strings.Contains(d, ".members[") || !strings.Contains(d, known) {
			differs = append(differs, d)
		}
	}
	return differs
}
