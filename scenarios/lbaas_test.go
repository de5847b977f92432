package scenarios

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const balancedScenario = `
apiVersion: proxylab/v1alpha1
kind: Scenario
metadata: {name: balanced}
spec:
  nodes: 2
  lbaas:
    topology: active-standby
    provisionDelay: 2s
    version: v2.10
    provider: {batchMembers: false}
    faults:
    - {name: early, operation: pool.create, status: 503, count: 2}
  manifests: |
    apiVersion: v1
    kind: Service
    metadata: {name: web}
    spec:
      type: LoadBalancer
      selector: {app: web}
      ports:
      - {name: http, port: 80, targetPort: 8080}
  steps:
  - load: {name: a, service: web, kind: http, rate: 10/s, from: outside, via: vip}
  - lb: {fault: {name: slow, operation: loadbalancer.create, pending: forever}}
  - lb: {clear: [early, slow]}
  - lb: {edit: {kind: pool, name: "kube_*", set: {lb_algorithm: SOURCE_IP}}}
  - lb: {delete: {kind: loadbalancer, name: "kube_service_*_default_web"}}
  - lb: {flap: {member: node1, down: 1s, for: 5s}}
  - lb: {kill: active}
  - lb: {kill: lb2}
  - lb: {create: {services: 3, ports: 2, selector: {app: web}}}
  - lb: {await: {}}
  - lb: {await: {service: [web, lb-3], until: address}}
  - lb: {await: {service: lb-2, members: 2, within: 5m}}
  - load: {name: b, service: lb-3, port: p2, kind: http, rate: 10/s, via: vip}
  - node: {add: node3}
  - node: {cordon: node3}
  - node: {uncordon: node3}
  - node: {kill: node2}
  - node: {delete: node2}
`

func TestBalancedScenario(t *testing.T) {
	s, err := Parse("balanced.yaml", []byte(balancedScenario), testOptions)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"load a: http 10/s, new connections, to web from outside through the VIP",
		`load balancers: fault slow {"operation":"loadbalancer.create","pending":"forever"}`,
		"load balancers: clear early, slow",
		`load balancers: edit pool kube_*: {"lb_algorithm":"SOURCE_IP"}`,
		"load balancers: delete loadbalancer kube_service_*_default_web",
		"load balancers: flap member node1 for 5s",
		"load balancers: kill the active instance",
		"load balancers: kill lb2",
		"load balancers: create 3 Services with 2 ports each",
		"load balancers: await an answer of all Services through the VIP",
		"load balancers: await the VIP of web, lb-3",
		"load balancers: await 2 members of lb-2",
		"load b: http 10/s, new connections, to lb-3:p2 through the VIP",
		"add node3", "cordon node3", "uncordon node3", "kill node2", "delete node2",
	}
	if got := s.StepTexts(); !slices.Equal(got, want) {
		t.Errorf("steps\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := s.Spec.LBaaS.Instances(); !slices.Equal(got, []string{"lb1", "lb2"}) || s.Spec.LBaaS.Version != "v2.10" || len(s.Spec.LBaaS.Faults) != 1 {
		t.Errorf("load balancers %+v", s.Spec.LBaaS)
	}
	if await := s.Spec.Steps[9].LB.Await; await.Until != "answers" || await.Within.String() != "1m0s" {
		t.Errorf("defaults of await: %+v", await)
	}
	if result := schemaValidator(t).Validate(plain(t, balancedScenario)); result.HasErrors() {
		t.Errorf("does not follow the schema: %v", result.Errors)
	}
}

// The Services that a step creates are Services as Kubernetes takes them.
func TestCreatedServices(t *testing.T) {
	c := LBCreate{Services: 2, Ports: 3, Selector: map[string]string{"app": "web"}}
	objects := c.Objects()
	if len(objects) != 2 || objects[1].GetName() != "lb-2" || objects[1].GetNamespace() != "default" || objects[0].GetKind() != "Service" {
		t.Fatalf("objects %+v", objects)
	}
	if _, has := objects[0].Object["status"]; has {
		t.Error("has a status, which is the controller's to write")
	}
	svc := c.service(0)
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || len(svc.Spec.Ports) != 3 || svc.Spec.Ports[2].Port != 8003 {
		t.Errorf("%+v", svc.Spec)
	}
}
