// Package inspect looks into a lab that is up.
package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"proxylab/lab"
	"proxylab/proxiers"
	"proxylab/proxiers/rules"
)

// Rules are the rules behind a Service on one node of a lab.
type Rules struct {
	Lab     string        `json:"lab"`
	Node    string        `json:"node"`
	Proxier string        `json:"proxier"`
	Backend string        `json:"backend,omitempty"` // of iptables: "legacy" or "nft"
	Stories []rules.Story `json:"stories"`
}

// ReadRules collects what a node's tools print and explains it for a Service, "name" or "namespace/name".
func ReadRules(ctx context.Context, l lab.Lab, node, service string) (*Rules, error) {
	client, err := clientOf(l)
	if err != nil {
		return nil, err
	}
	node, err = nodeOf(ctx, l, node)
	if err != nil {
		return nil, err
	}
	subject, err := subjectOf(ctx, client, node, service)
	if err != nil {
		return nil, err
	}
	state, err := l.Proxier(ctx, node)
	if err != nil {
		return nil, err
	}
	if state == nil {
		return nil, fmt.Errorf("no proxier runs on %s: start one with proxylab swap", node)
	}
	info, err := proxiers.Lookup(state.Name)
	if err != nil {
		return nil, err
	}
	r := &Rules{Lab: l.Name(), Node: node, Proxier: state.Name}
	dump, err := r.dump(ctx, l, info.Mode)
	if err != nil {
		return nil, err
	}
	r.Stories, err = rules.Explain(info.Mode, subject, dump)
	return r, err
}

func clientOf(l lab.Lab) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of lab %s: %w", l.Name(), err)
	}
	return kubernetes.NewForConfig(config)
}

// nodeOf checks a node's name; empty is the first.
func nodeOf(ctx context.Context, l lab.Lab, name string) (string, error) {
	nodes, err := l.Nodes(ctx)
	if err != nil {
		return "", err
	}
	var names []string
	for _, n := range nodes {
		if n.Name == name || name == "" {
			return n.Name, nil
		}
		names = append(names, n.Name)
	}
	return "", fmt.Errorf("lab %s has no node %q: it has %s", l.Name(), name, strings.Join(names, ", "))
}

func subjectOf(ctx context.Context, client kubernetes.Interface, node, service string) (s rules.Subject, err error) {
	namespace, name, found := strings.Cut(service, "/")
	if !found {
		namespace, name = metav1.NamespaceDefault, service
	}
	s.Service, err = client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s, errors.Join(fmt.Errorf("there is no Service %s in namespace %s", name, namespace), similar(ctx, client, name))
	} else if err != nil {
		return s, err
	}
	list, err := client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return s, err
	}
	s.Slices = list.Items
	s.Node, err = client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	return s, err
}

// similar helps who has forgotten the namespace.
func similar(ctx context.Context, client kubernetes.Interface, name string) error {
	all, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil || len(all.Items) == 0 {
		return nil //nolint:nilerr // it is only a hint
	}
	var names []string
	for _, s := range all.Items {
		names = append(names, s.Namespace+"/"+s.Name)
	}
	return fmt.Errorf("did you mean %s?", strings.Join(names, " or "))
}

// dump runs the tools on the node. The iptables back end in use is the one that has a Service proxy's chains.
func (r *Rules) dump(ctx context.Context, l lab.Lab, mode string) (rules.Dump, error) {
	if mode == "nftables" {
		return collect(ctx, l, r.Node, rules.Sources(mode, ""))
	}
	var errs []error
	for _, backend := range []string{"nft", "legacy"} {
		d, err := collect(ctx, l, r.Node, rules.Sources(mode, backend))
		if err == nil && strings.Contains(d.IPTables+d.IP6Tables, "\n:KUBE-") {
			r.Backend = backend
			return d, nil
		}
		errs = append(errs, err)
	}
	return rules.Dump{}, errors.Join(append(errs, fmt.Errorf("%s on %s has no chains in the kernel", r.Proxier, r.Node))...)
}

func collect(ctx context.Context, l lab.Lab, node string, sources []rules.Source) (d rules.Dump, err error) {
	for _, s := range sources {
		text, err := output(ctx, l, node, s.Args)
		if err != nil && !s.Optional {
			return d, err
		}
		*s.Into(&d) = text
	}
	return d, nil
}

// output runs a command on a node.
func output(ctx context.Context, l lab.Lab, node string, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	p, err := l.Exec(ctx, lab.Place{Node: node}, lab.Command{Args: args, Stdout: &stdout, Stderr: &stderr})
	if err == nil {
		err = p.Wait()
	}
	if err != nil {
		return "", fmt.Errorf("on %s: %s: %w: %s", node, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Service is a Service that rules can be asked for.
type Service struct {
	Name      string   `json:"name"` // namespace/name
	Type      string   `json:"type"`
	Addresses []string `json:"addresses"`
	Ports     []string `json:"ports"` // "80/TCP", with ":30080" where there is a node port
	Endpoints int      `json:"endpoints"`
}

// Services lists those that a proxier programs.
func Services(ctx context.Context, l lab.Lab) ([]Service, error) {
	client, err := clientOf(l)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	slicesList, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	endpoints := map[string]map[string]bool{}
	for _, s := range slicesList.Items {
		key := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
		if endpoints[key] == nil {
			endpoints[key] = map[string]bool{}
		}
		for _, e := range s.Endpoints {
			who := strings.Join(e.Addresses, ",")
			if e.TargetRef != nil { // a dual-stack Service has a pod in two slices
				who = e.TargetRef.Namespace + "/" + e.TargetRef.Name
			}
			endpoints[key][who] = true
		}
	}
	var found []Service
	for _, s := range list.Items {
		if s.Spec.ClusterIP == corev1.ClusterIPNone || s.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		name := s.Namespace + "/" + s.Name
		item := Service{Name: name, Type: string(s.Spec.Type), Endpoints: len(endpoints[name]),
			Addresses: slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs)}
		for _, in := range s.Status.LoadBalancer.Ingress {
			item.Addresses = append(item.Addresses, in.IP)
		}
		for _, p := range s.Spec.Ports {
			text := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
			if p.NodePort > 0 {
				text = fmt.Sprintf("%d:%s", p.NodePort, text)
			}
			item.Ports = append(item.Ports, text)
		}
		found = append(found, item)
	}
	return found, nil
}
