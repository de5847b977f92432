package scenarios

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

const small = `apiVersion: proxylab/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  manifests: |
    apiVersion: v1
    kind: Service
    metadata: {name: web}
    spec:
      ports:
      - {name: metrics, port: 90}
      - {name: http, port: 80}
      - {name: dns, port: 53, protocol: UDP}
`

func parse(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Parse("small.yaml", []byte(text), testOptions)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefaults(t *testing.T) {
	s := parse(t, small+`  steps:
  - load: {name: a, service: web, kind: http, rate: 10/s}
  - load: {name: b, service: web, kind: hold}
  - load: {name: c, service: web, kind: udp, rate: 30/m, connections: keepalive}
  - load: {name: d, service: kube-system/dns, kind: connect, rate: 1/s, from: outside, for: 3s, timeout: 100ms}
  - apply: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}"
  - scale: {deployment: web, replicas: 0}
`)
	if s.Spec.Nodes != 2 || s.Spec.Client.Node != "node1" || s.Spec.Background.EndpointsPerService != 4 || s.Spec.Background.Services != 0 {
		t.Errorf("spec: %+v", s.Spec)
	}
	rate := func(text string) *Rate {
		r, err := ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	five := Duration(5 * time.Second)
	want := []LoadStep{
		{Name: "a", Service: "web", Kind: "http", Rate: rate("10/s"), Connections: "new", From: "pod", Via: "clusterIP", Family: "ipv4", Direct: true, Timeout: five},
		{Name: "b", Service: "web", Kind: "hold", Count: 10, Reopen: true, From: "pod", Via: "clusterIP", Family: "ipv4", Timeout: five},
		{Name: "c", Service: "web", Kind: "udp", Rate: rate("30/m"), Connections: "keepalive", Count: 1, From: "pod", Via: "clusterIP", Family: "ipv4", Direct: true, Timeout: five},
		{Name: "d", Service: "kube-system/dns", Kind: "connect", Rate: rate("1/s"), From: "outside", Via: "nodePort", Family: "ipv4", For: Duration(3 * time.Second), Timeout: Duration(100 * time.Millisecond)},
	}
	for i, w := range want {
		got := *s.Spec.Steps[i].Load
		if (got.Rate == nil) != (w.Rate == nil) || w.Rate != nil && *got.Rate != *w.Rate {
			t.Errorf("load %s: rate %v, want %v", w.Name, got.Rate, w.Rate)
		}
		got.Rate, w.Rate = nil, nil
		if got != w {
			t.Errorf("load %s:\n got %+v\nwant %+v", w.Name, got, w)
		}
	}
	if o := s.Spec.Steps[4].Apply.Objects; len(o) != 1 || o[0].GetKind() != "Deployment" {
		t.Errorf("applied objects: %v", o)
	}
	if scale := s.Spec.Steps[5].Scale; !scale.Wait || scale.Replicas != 0 {
		t.Errorf("scale: %+v", scale)
	}
}

func TestStepTexts(t *testing.T) {
	s := parse(t, small+`  steps:
  - load: {name: a, service: web, kind: http, rate: 10/s, port: 80, family: ipv4}
  - load: {name: b, service: web, kind: hold, count: 7}
  - load: {name: c, service: prod/web, kind: stream, family: ipv6, via: nodePort, for: 3s}
  - load: {name: d, service: prod/web, kind: udp, rate: 5/s, connections: keepalive, count: 4, from: outside}
  - wait: 90s
  - scale: {deployment: prod/web, replicas: 3}
  - patch: {service: web, patch: {spec: {sessionAffinity: ClientIP}}}
  - churn: {deployment: prod/web, rate: 2/s, for: 10s}
  - swap: {to: iptables, node: node2}
  - swap: {to: [iptables, subject]}
  - stop: a
  - stop: [b, c]
  - apply: |
      {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}
      ---
      {apiVersion: v1, kind: Namespace, metadata: {name: y}}
  - delete: {service: web}
  - delete: {pod: prod/web-1}
  - delete: {namespace: y}
`)
	want := `load a: http 10/s, new connections, to web:80
load b: hold 7 connections, to web
load c: stream 1 at once, to prod/web by NodePort over IPv6, for 3s
load d: udp 5/s, keepalive connections of 4 clients, to prod/web from outside
wait 1m30s
scale prod/web to 3
patch service web with {"spec":{"sessionAffinity":"ClientIP"}}
churn pods of prod/web at 2/s for 10s
swap to iptables on node2
swap to iptables or the subject (the first that does not run now)
stop load a
stop load b, c
apply configmap x, namespace y
delete service web
delete pod prod/web-1
delete namespace y`
	if got := strings.Join(s.StepTexts(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSwapResolve(t *testing.T) {
	for _, c := range []struct {
		to               Names
		subject, running string
		want             string
	}{
		{Names{"a"}, "s", "r", "a"},
		{Names{"a"}, "s", "a", "a"},
		{Names{"subject"}, "s", "r", "s"},
		{Names{"subject"}, "s", "s", "s"},
		{Names{"a", "b"}, "s", "a", "b"},
		{Names{"a", "b"}, "s", "c", "a"},
		{Names{"a", "subject"}, "s", "a", "s"},
		{Names{"subject", "a"}, "s", "s", "a"},
		{nil, "s", "r", "r"},
	} {
		if got := (SwapStep{To: c.to}).Resolve(c.subject, c.running); got != c.want {
			t.Errorf("%v, subject %s, running %s: %s, want %s", c.to, c.subject, c.running, got, c.want)
		}
	}
}

func TestServicePort(t *testing.T) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "metrics", Port: 90},
		{Name: "http", Port: 80},
		{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
		{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP},
	}}}
	for _, c := range []struct {
		kind string
		port Port
		want string // the port's name; empty: none
	}{
		{"http", "", "http"},
		{"connect", "", "metrics"},
		{"udp", "", "dns"},
		{"udp", "53", "dns"},
		{"connect", "53", "dns-tcp"},
		{"http", "90", "metrics"},
		{"http", "metrics", "metrics"},
		{"http", "dns", ""},
		{"udp", "http", ""},
		{"stream", "81", ""},
	} {
		got, err := ServicePort(service, LoadStep{Kind: c.kind, Port: c.port})
		if got.Name != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s to port %q: %q, %v; want %q", c.kind, c.port, got.Name, err, c.want)
		}
	}
	if _, err := ServicePort(&corev1.Service{}, LoadStep{Kind: "http"}); err == nil {
		t.Error("a Service without ports has one")
	}
}

func TestTargets(t *testing.T) {
	for target, want := range map[Target]Ref{
		{Service: "web"}:         {"v1", "Service", "services", "default", "web"},
		{Deployment: "prod/web"}: {"apps/v1", "Deployment", "deployments", "prod", "web"},
		{EndpointSlice: "a"}:     {"discovery.k8s.io/v1", "EndpointSlice", "endpointslices", "default", "a"},
		{Namespace: "prod"}:      {"v1", "Namespace", "namespaces", "", "prod"},
		{}:                       {},
	} {
		if got := target.Ref(); got != want {
			t.Errorf("%+v: %+v, want %+v", target, got, want)
		}
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]float64{"200/s": 200, "12/m": 0.2, "36 / h": 0.01, "0.5/s": 0.5, "1e3/s": 1000} {
		if r, err := ParseRate(text); err != nil || r.PerSecond() != want {
			t.Errorf("%q: %v per second, %v; want %v", text, r.PerSecond(), err, want)
		}
	}
	for _, text := range []string{"", "/s", "200", "200/", "200/d", "s", "0/s", "-1/s", "Inf/s", "NaN/s", "1/s/s", "0x10", "1e400/s"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q is taken for %v", text, r)
		}
	}
	for _, text := range []string{"", "5", "5 s", "0s", "-1s", "1d", "s", "99999999999h"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is taken for %v", text, d)
		}
	}
}

func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Range(1, 1<<50).Draw(t, "d"))
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%v: %v, %v", d, again, err)
		}
		text := rapid.StringMatching(`[1-9][0-9]{0,5}(\.[0-9]{1,3})?/[smh]`).Draw(t, "rate")
		r, err := ParseRate(text)
		if err != nil || r.String() != text || r.PerSecond() <= 0 {
			t.Fatalf("%s: %v, %v", text, r, err)
		}
	})
}

// The example of the design document is a scenario.
func TestExample(t *testing.T) {
	s := parse(t, `apiVersion: proxylab/v1alpha1
kind: Scenario
metadata: {name: scale-out, description: A Deployment goes 1 -> 3 -> 10 under load}
spec:
  nodes: 2
  manifests: |            # plain Kubernetes objects; also a file or a directory
    {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}
    ---
    {apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}
  background: {services: 0, endpointsPerService: 4}   # dummy Services to make the tables realistic
  steps:
  - load: {name: web, service: web, kind: http, rate: 200/s, connections: new}   # runs on until stopped
  - wait: 5s
  - scale: {deployment: web, replicas: 3}
  - patch: {service: web, patch: {spec: {sessionAffinity: ClientIP}}}
  - churn: {deployment: web, rate: 2/s, for: 10s}
  - swap:  {to: kube-proxy/ipvs}
  - stop: web
  expect:
  - load.web.errors == 0
  - load.web.latency.p99 < 50ms
  - programming.p99 < 1s
`)
	if len(s.Objects) != 2 || len(s.Spec.Steps) != 7 || len(s.Spec.Expect) != 3 {
		t.Errorf("%+v", s)
	}
}

func TestManifestsInFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("objects[1]/b.yaml", "{apiVersion: v1, kind: Service, metadata: {name: b, namespace: prod}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
	write("objects[1]/a.json", `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}}`)
	write("objects[1]/notes.txt", "not an object")
	write("later.yml", "{apiVersion: v1, kind: Service, metadata: {name: b, namespace: prod}, spec: {ports: [{port: 80}]}}")
	write("s.yaml", `apiVersion: proxylab/v1alpha1
kind: Scenario
metadata: {name: files}
spec:
  manifests: objects[1]
  steps:
  - apply: later.yml
  - load: {name: a, service: prod/b, kind: http, rate: 1/s}
`)
	s, err := Load(filepath.Join(dir, "s.yaml"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range append(s.Objects, s.Spec.Steps[0].Apply.Objects...) {
		names = append(names, o.GetName())
	}
	if got := strings.Join(names, " "); got != "prod b c b" {
		t.Errorf("objects: %s", got)
	}
}

// The lists of alternatives are those of the types.
func TestAlternatives(t *testing.T) {
	for want, typ := range map[string]reflect.Type{
		strings.Join(stepKinds, " "):        reflect.TypeFor[Step](),
		strings.Join(Target{}.OneOf(), " "): reflect.TypeFor[Target](),
	} {
		var names []string
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, listed: %s", typ, got, want)
		}
	}
}
