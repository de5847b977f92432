package octavia

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// recordedCall is a call that the community's cloud controller manager made, with the first bytes of its answer.
type recordedCall struct {
	section, method, path string
	status                int
	request, response     string
}

func controllerCalls(t *testing.T) []recordedCall {
	t.Helper()
	data, err := os.ReadFile("testdata/cloud-controller-calls.txt")
	if err != nil {
		t.Fatal(err)
	}
	var calls []recordedCall
	section := ""
	for _, line := range strings.Split(string(data), "\n") {
		last := len(calls) - 1
		switch {
		case strings.HasPrefix(line, "## "):
			section = line[3:]
		case strings.HasPrefix(line, "    request "):
			calls[last].request = strings.TrimPrefix(line, "    request ")
		case strings.HasPrefix(line, "    response "):
			calls[last].response = strings.TrimPrefix(line, "    response ")
		case line != "":
			f := strings.Fields(line)
			status, err := strconv.Atoi(f[len(f)-1])
			if err != nil || len(f) != 4 {
				t.Fatalf("%q", line)
			}
			calls = append(calls, recordedCall{section: section, method: f[0], path: f[1], status: status})
		}
	}
	return calls
}

// controllerReplay finds out which of our IDs stands for a recorded one: the recording has whole answers only in part.
type controllerReplay struct {
	*testing.T
	tr     translation
	server *httptest.Server
	s      *Service
	lb     string // ours, the newest
	pool   string // ours, whose members were asked for last
}

func (r *controllerReplay) learn(theirs, ours string) {
	if theirs != "" && ours != "" && r.tr.ours[theirs] == "" {
		r.tr.ours[theirs], r.tr.theirs[ours] = ours, theirs
	}
}

// guess takes the first object of the newest balancer that has no recorded ID yet.
func (r *controllerReplay) guess(collection, theirs string) {
	if r.tr.ours[theirs] != "" {
		return
	}
	query := "?loadbalancer_id=" + r.lb
	switch collection {
	case "loadbalancers":
		r.learn(theirs, r.lb)
		return
	case "healthmonitors":
		query = "?pool_id=" + r.pool
	}
	_, _, body := ask(r.T, "GET", r.server.URL+"/v2.0/lbaas/"+collection+query, nil, nil)
	list, _ := body.(map[string]any)[collection].([]any)
	for _, o := range list {
		if id := o.(map[string]any)["id"].(string); r.tr.theirs[id] == "" {
			r.learn(theirs, id)
			return
		}
	}
	r.Errorf("no object of ours for %s %s", collection, theirs)
}

var (
	pathIDs    = regexp.MustCompile(`(loadbalancers|listeners|pools|members|healthmonitors)/([0-9a-f-]{36})`)
	answerID   = regexp.MustCompile(`^\{"(?:listener|pool|member|healthmonitor)": ?\{"id": ?"([0-9a-f-]{36})"`)
	treeAnswer = regexp.MustCompile(`"listeners": ?\[\{"l7policies": ?\[\], ?"id": ?"([0-9a-f-]{36})"`)
	timeInText = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}`)
)

func (r *controllerReplay) play(c recordedCall) {
	for _, m := range pathIDs.FindAllStringSubmatch(c.path, -1) {
		r.guess(m[1], m[2])
	}
	for _, id := range uuidShape.FindAllString(c.path, -1) { // of a query
		r.guess("loadbalancers", id)
	}
	path := r.tr.translate(c.path)
	if m := pathIDs.FindStringSubmatch(path); m != nil && m[1] == "pools" {
		r.pool = m[2]
	}
	headers := map[string]string{"X-Project-Id": "p", "Content-Type": "application/json"}
	var body any
	if c.request != "" {
		body = r.tr.translate(c.request)
	}
	status, _, have := askRaw(r.T, c.method, r.server.URL+path, headers, body)
	where := fmt.Sprintf("%s: %s %s", c.section, c.method, c.path)
	if status != c.status {
		r.Errorf("%s: recorded %d, ours %d %s", where, c.status, status, have)
		return
	}
	if c.method == http.MethodPost {
		r.created(where, c, have)
	} else if c.response == "" && c.method != http.MethodGet && len(have) > 0 {
		r.Errorf("%s: recorded no body, ours %s", where, have)
	}
	// The controller polls until a balancer is ACTIVE or gone: it becomes so after it was looked at once.
	if _, waits := r.s.Pending()[r.lb]; waits && c.method == http.MethodGet && strings.Contains(path, "/loadbalancers/") {
		if err := r.s.Settle(r.lb, false); err != nil {
			r.Fatal(err)
		}
	}
}

// created learns the IDs of an answer, and compares what there is of it, byte by byte: keys in their order, and values.
func (r *controllerReplay) created(where string, c recordedCall, have []byte) {
	var decoded map[string]map[string]any
	if err := json.Unmarshal(have, &decoded); err != nil {
		r.Fatal(where, err)
	}
	if lb := decoded["loadbalancer"]; lb != nil {
		r.lb = lb["id"].(string)
	}
	for _, shape := range []*regexp.Regexp{answerID, treeAnswer} {
		if theirs, ours := shape.FindStringSubmatch(c.response), shape.FindSubmatch(have); theirs != nil && ours != nil {
			r.learn(theirs[1], string(ours[1]))
		}
	}
	want, mine := plain(c.response), plain(string(have))
	want = want[:len(want)-min(len(want), 40)] // it may end within an ID
	if len(want) < 100 || !strings.HasPrefix(mine, want) {
		r.Errorf("%s\n  recorded %s\n  ours     %s", where, want, mine)
	}
}

// plain is a JSON text without the spaces between its tokens, IDs and times.
func plain(s string) string {
	var b strings.Builder
	quoted, escaped := false, false
	for _, c := range s {
		if c == ' ' && !quoted {
			continue
		}
		if c == '"' && !escaped {
			quoted = !quoted
		}
		escaped = c == '\\' && !escaped
		b.WriteRune(c)
	}
	return timeInText.ReplaceAllString(uuidShape.ReplaceAllString(b.String(), "ID"), "TIME")
}

// TestCloudControllerCalls makes every call that the real cloud controller manager makes for a Service, in five
// configurations, in its order, and wants the status it got from the real Octavia.
func TestCloudControllerCalls(t *testing.T) {
	s, server := newReplayService(t, Options{Manual: true})
	r := &controllerReplay{T: t, tr: translation{map[string]string{}, map[string]string{}}, server: server, s: s}
	calls := controllerCalls(t)
	if len(calls) < 300 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, c := range calls {
		r.play(c)
	}
	if left := s.db.count(kindBalancer); left != 0 {
		t.Errorf("%d balancers are left", left)
	}
}
