package octavia

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkMany has the size of a large cluster: 200 balancers of 5 listeners with pools of 20 members each, kept in a file.
func BenchmarkMany(b *testing.B) {
	s, err := New(Options{Store: FileStore(filepath.Join(b.TempDir(), "state")), DefaultProject: "p"})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	do := func(method, path, body string, want int) []byte {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), method, "/v2.0/lbaas/"+path, strings.NewReader(body)))
		if w.Code != want {
			b.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w.Body.Bytes()
	}
	members := func(port, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"address":"10.0.0.%d","protocol_port":%d}`, i+1, port))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	var pool string
	for i := range 200 {
		var listeners []string
		for port := range 5 {
			listeners = append(listeners, fmt.Sprintf(`{"protocol":"TCP","protocol_port":%d,"default_pool":{"name":"p%d","protocol":"TCP","lb_algorithm":"ROUND_ROBIN","members":%s}}`,
				80+port, port, members(30000+port, 20)))
		}
		answer := do("POST", "loadbalancers", fmt.Sprintf(`{"loadbalancer":{"name":"lb%d","vip_subnet_id":"%s","listeners":[%s]}}`, i, subnet, strings.Join(listeners, ",")), http.StatusCreated)
		var created struct {
			Loadbalancer struct{ Pools []struct{ ID string } }
		}
		if err := json.Unmarshal(answer, &created); err != nil {
			b.Fatal(err)
		}
		pool = created.Loadbalancer.Pools[0].ID
	}
	if err := s.Settle("", false); err != nil {
		b.Fatal(err)
	}
	b.Run("batch", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			do("PUT", "pools/"+pool+"/members", `{"members":`+members(30000, 19+i%2)+`}`, http.StatusAccepted)
			_ = s.Settle("", false) // it may have ended already
		}
	})
	b.Run("by name", func(b *testing.B) {
		for b.Loop() {
			do("GET", "loadbalancers?name=lb7", "", http.StatusOK)
		}
	})
	b.Run("members", func(b *testing.B) {
		for b.Loop() {
			do("GET", "pools/"+pool+"/members", "", http.StatusOK)
		}
	})
}
