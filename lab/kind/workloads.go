package kind

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// policyName is of the policy by which proxylab's own images work in pods as they do in the netns lab.
const policyName = "proxylab-workloads"

// Expressions of the policy. CEL cannot count while it goes through a list, so containers are named by number.
const (
	ours     = `matches('^(docker\\.io/|localhost/)?proxylab/(echo|client)(:latest)?$')`
	ourEcho  = `matches('^(docker\\.io/|localhost/)?proxylab/echo(:latest)?$')`
	each     = `[0, 1, 2, 3].filter(i, i < size(object.spec.containers) && object.spec.containers[i].image.%s%s)`
	at       = `"/spec/containers/" + string(i) + `
	pullNode = `.map(i, JSONPatch{op: "add", path: ` + at + `"/imagePullPolicy", value: "IfNotPresent"})`
	nodeVar  = `{"name": dyn("PROXYLAB_NODE"), "valueFrom": dyn({"fieldRef": {"fieldPath": "spec.nodeName"}})}`
	envNode  = `.map(i, has(object.spec.containers[i].env) ?
  JSONPatch{op: "add", path: ` + at + `"/env/-", value: ` + nodeVar + `} :
  JSONPatch{op: "add", path: ` + at + `"/env", value: [` + nodeVar + `]})`
	// An echo whose HTTP server is off is ready when it runs.
	unprobed = ` && !has(object.spec.containers[i].readinessProbe) && !(has(object.spec.containers[i].args) && "--http=0" in object.spec.containers[i].args)`
	portArg  = `object.spec.containers[i].args.filter(a, a.startsWith("--http="))`
	probe    = `.map(i, JSONPatch{op: "add", path: ` + at + `"/readinessProbe", value: {
  "httpGet": dyn({"path": dyn("/healthz"), "scheme": dyn("HTTP"), "port": dyn(
    has(object.spec.containers[i].args) && ` + portArg + `.size() > 0 ? int(` + portArg + `[0].substring(7)) : 8080)}),
  "periodSeconds": dyn(1), "failureThreshold": dyn(3), "successThreshold": dyn(1), "timeoutSeconds": dyn(2)}})`
)

// policy changes new pods with our images, so that manifests need not know what lab they are for: the image is the one that
// the lab has put on the node and never asked for at a registry; an echo knows its node; and it is ready once it
// answers, and not before its --slow-start is over.
func policy() *admissionv1.MutatingAdmissionPolicy {
	mutate := func(expression string) admissionv1.Mutation {
		return admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: expression}}
	}
	return &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      ptr.To(admissionv1.Fail),
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "ours", Expression: `object.spec.containers.exists(c, c.image.` + ours + `)`}},
			Mutations: []admissionv1.Mutation{
				mutate(fmt.Sprintf(each, ours, "") + pullNode),
				mutate(fmt.Sprintf(each, ourEcho, "") + envNode),
				mutate(fmt.Sprintf(each, ourEcho, unprobed) + probe),
			},
		},
	}
}

// workloads has the policy in the cluster.
func (m *making) workloads(ctx context.Context) error {
	c, err := m.api()
	if err != nil {
		return err
	}
	want, policies := policy(), c.AdmissionregistrationV1().MutatingAdmissionPolicies()
	if _, err := policies.Create(ctx, want, metav1.CreateOptions{}); apierrors.IsNotFound(err) {
		m.log.Warn("this Kubernetes has no mutating admission policies: pods with proxylab's images need imagePullPolicy: IfNotPresent",
			"release", m.state.Release)
		return nil
	} else if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("admission policy: %w", err)
	}
	_, err = c.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(ctx, &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policyName},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("binding of the admission policy: %w", err)
	}
	return m.awaitPolicy(ctx)
}
