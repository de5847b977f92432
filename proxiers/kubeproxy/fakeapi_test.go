package kubeproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fakeAPI answers list and watch requests like kube-apiserver, in JSON, for a handful of objects, and accepts
// whatever is posted (events).
type fakeAPI struct {
	mu      sync.Mutex
	version int
	objects map[string]map[string]runtime.Object // resource -> name
	watches map[string]map[chan []byte]bool
}

func newFakeAPI(t *testing.T) (*fakeAPI, string) {
	api := &fakeAPI{version: 1, objects: map[string]map[string]runtime.Object{}, watches: map[string]map[chan []byte]bool{}}
	server := httptest.NewServer(api)
	t.Cleanup(server.CloseClientConnections)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: x, cluster: {server: %q}}]\n"+
		"contexts: [{name: x, context: {cluster: x, user: x}}]\nusers: [{name: x, user: {token: x}}]\n", server.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return api, file
}

// put stores an object and tells the watchers. The object must carry its apiVersion and kind.
func (a *fakeAPI) put(resource string, o runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	meta := o.(metav1.Object)
	meta.SetResourceVersion(fmt.Sprint(a.version))
	kind := "ADDED"
	if a.objects[resource] == nil {
		a.objects[resource] = map[string]runtime.Object{}
	}
	if _, there := a.objects[resource][meta.GetName()]; there {
		kind = "MODIFIED"
	}
	a.objects[resource][meta.GetName()] = o
	line, err := json.Marshal(map[string]any{"type": kind, "object": o})
	if err != nil {
		panic(err)
	}
	for w := range a.watches[resource] {
		w <- line
	}
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	query := r.URL.Query()
	switch {
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"x"}}`)
	case query.Get("sendInitialEvents") != "": // clients then fall back to list and watch
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422}`)
	case query.Get("watch") != "":
		a.watch(w, r, resource)
	default:
		a.list(w, resource)
	}
}

func (a *fakeAPI) list(w http.ResponseWriter, resource string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	groups := map[string]string{"endpointslices": "discovery.k8s.io/v1", "servicecidrs": "networking.k8s.io/v1"}
	kinds := map[string]string{"endpointslices": "EndpointSliceList", "servicecidrs": "ServiceCIDRList",
		"services": "ServiceList", "nodes": "NodeList"}
	group := groups[resource]
	if group == "" {
		group = "v1"
	}
	items := []runtime.Object{}
	for _, o := range a.objects[resource] {
		items = append(items, o)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": group, "kind": kinds[resource], "items": items,
		"metadata": map[string]string{"resourceVersion": fmt.Sprint(a.version)}})
}

func (a *fakeAPI) watch(w http.ResponseWriter, r *http.Request, resource string) {
	lines := make(chan []byte, 100)
	a.mu.Lock()
	if a.watches[resource] == nil {
		a.watches[resource] = map[chan []byte]bool{}
	}
	a.watches[resource][lines] = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.watches[resource], lines)
		a.mu.Unlock()
	}()
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case line := <-lines:
			fmt.Fprintf(w, "%s\n", line)
			w.(http.Flusher).Flush()
		}
	}
}
