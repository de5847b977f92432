package play

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proxylab/bench/load"
	"proxylab/lab"
	"proxylab/scenarios"
)

// clientNamespace holds the pods that belong to the measuring and not to the scenario.
const clientNamespace = "proxylab"

// Ports that the image proxylab/echo serves by default, by kind of load.
var echoPorts = map[string]int{"http": 8080, "connect": 8081, "hold": 8081, "udp": 8082, "stream": 8083}

// nodeNamed finds a node of the lab by its name there, or by the name that scenarios call it: node1 is the first.
func (s *subject) nodeNamed(name string) (lab.Node, error) {
	for i, n := range s.nodes {
		if n.Name == name || lab.NodeName(i) == name {
			return n, nil
		}
	}
	return lab.Node{}, fmt.Errorf("the lab has no node %q", name)
}

// startClients runs the pod that traffic comes from, on another node where there is one the pod that direct traffic goes to,
// and a client on each node that a load names.
func (s *subject) startClients(ctx context.Context) error {
	at, err := s.nodeNamed(s.Scenario.Spec.Client.Node)
	if err != nil {
		return err
	}
	directNode := at.Name
	if i := slices.IndexFunc(s.nodes, func(n lab.Node) bool { return n.Name != at.Name }); i >= 0 {
		directNode = s.nodes[i].Name
	}
	s.clients = map[string]client{"": {lab.Place{Namespace: clientNamespace, Pod: "client"}, at.Name}}
	objects := []*unstructured.Unstructured{
		pod("client", "proxylab/client", at.Name),
		pod("direct", "proxylab/echo", directNode),
	}
	for _, step := range s.Scenario.Spec.Steps {
		if step.Load == nil || step.Load.Node == "" || step.Load.From == "outside" {
			continue
		}
		n, err := s.nodeNamed(step.Load.Node)
		if err != nil {
			return err
		}
		if _, there := s.clients[step.Load.Node]; !there {
			name := "client-" + step.Load.Node
			s.clients[step.Load.Node] = client{lab.Place{Namespace: clientNamespace, Pod: name}, n.Name}
			objects = append(objects, pod(name, "proxylab/client", n.Name))
		}
	}
	if err := s.stage.apply(ctx, objects); err != nil {
		return err
	}
	for _, o := range objects {
		p, err := s.stage.awaitPod(ctx, clientNamespace, o.GetName())
		if err != nil {
			return err
		}
		for _, ip := range p.Status.PodIPs {
			if o.GetName() == "direct" {
				s.direct = append(s.direct, ip.IP)
			}
		}
	}
	return nil
}

// client is a pod that traffic comes from.
type client struct {
	lab.Place
	node string
}

func pod(name, image, node string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": clientNamespace},
		"spec": map[string]any{
			"nodeSelector":                  map[string]any{"kubernetes.io/hostname": node},
			"terminationGracePeriodSeconds": int64(0),
			"containers":                    []any{map[string]any{"name": name, "image": image}},
		},
	}}
}

// loadSpec works out where a load goes and what it does there.
func (s *subject) loadSpec(step scenarios.LoadStep) (load.Spec, lab.Place, error) {
	namespace, name := scenarios.SplitName(step.Service)
	svc, err := s.stage.service(namespace, name)
	if err != nil {
		return load.Spec{}, lab.Place{}, fmt.Errorf("look up Service %s: %w", step.Service, err)
	}
	port, err := scenarios.ServicePort(svc, step)
	if err != nil {
		return load.Spec{}, lab.Place{}, err
	}
	family := corev1.IPv4Protocol
	if step.Family == "ipv6" {
		family = corev1.IPv6Protocol
	}
	at, from := lab.Place{}, "outside"
	if step.From != "outside" {
		c := s.clients[step.Node]
		at, from = c.Place, "pod "+c.Pod+" on "+c.node
	}
	to := s.nodes[0]
	if step.Node != "" {
		if to, err = s.nodeNamed(step.Node); err != nil {
			return load.Spec{}, lab.Place{}, err
		}
	}
	target, err := serviceTarget(svc, port, family, step.Via, to)
	if err != nil {
		return load.Spec{}, lab.Place{}, err
	}
	spec := load.Spec{
		Name: step.Name, Kind: step.Kind, Targets: []string{target}, Connections: step.Connections,
		Count: step.Count, Reopen: step.Reopen, Timeout: step.Timeout.Duration(), Duration: step.For.Duration(), From: from,
		Pace: s.Scenario.Pace(),
	}
	if step.Rate != nil {
		spec.Rate = step.Rate.PerSecond()
	}
	return spec, at, nil
}

// serviceTarget is the address of a Service port in a family: its ClusterIP, its VIP, or its NodePort of a node.
func serviceTarget(svc *corev1.Service, port corev1.ServicePort, family corev1.IPFamily, via string, node lab.Node) (string, error) {
	if via == "nodePort" {
		if port.NodePort == 0 {
			return "", fmt.Errorf("port %d of Service %s has no node port", port.Port, svc.Name)
		}
		for _, addr := range node.Addresses {
			if addr.Is4() == (family == corev1.IPv4Protocol) {
				return net.JoinHostPort(addr.String(), strconv.Itoa(int(port.NodePort))), nil
			}
		}
		return "", fmt.Errorf("%s has no %s address", node.Name, family)
	}
	if via == scenarios.ViaVIP {
		vip := vipOf(svc, family)
		if vip == "" {
			return "", fmt.Errorf("no %s VIP of Service %s", family, svc.Name)
		}
		return net.JoinHostPort(vip, strconv.Itoa(int(port.Port))), nil
	}
	for i, f := range svc.Spec.IPFamilies {
		if f == family && i < len(svc.Spec.ClusterIPs) {
			return net.JoinHostPort(svc.Spec.ClusterIPs[i], strconv.Itoa(int(port.Port))), nil
		}
	}
	return "", fmt.Errorf("no %s address of Service %s", family, svc.Name)
}

// directSpec is the same load, at a tenth of the rate, straight to a pod.
func (s *subject) directSpec(spec load.Spec, family string) (load.Spec, error) {
	for _, ip := range s.direct {
		if (net.ParseIP(ip).To4() != nil) == (family != "ipv6") {
			spec.Name += directSuffix
			spec.Targets = []string{net.JoinHostPort(ip, strconv.Itoa(echoPorts[spec.Kind]))}
			spec.Rate = max(spec.Rate/10, min(spec.Rate, 5*spec.Pace))
			return spec, nil
		}
	}
	return load.Spec{}, fmt.Errorf("pod direct has no %s address", family)
}

const directSuffix = "/direct"
