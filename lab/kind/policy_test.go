package kind

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// mutated is a pod after the policy, as the API server itself goes about it.
func mutated(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	gvk, gvr := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	pod.SetGroupVersionKind(gvk)
	for _, m := range policy().Spec.Mutations {
		compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		if err != nil {
			t.Fatal(err)
		}
		patcher := patch.NewJSONPatcher(compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression},
			cel.OptionalVariableDeclarations{HasAuthorizer: true, HasPatchTypes: true}, environment.StoredExpressions))
		attributes := admission.NewAttributesRecord(pod, nil, gvk, pod.Namespace, pod.Name, gvr, "", admission.Create, nil, false, nil)
		got, err := patcher.Patch(t.Context(), patch.Request{
			MatchedResource: gvr, ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme.Scheme),
			VersionedAttributes: &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(runtime.Object(pod))},
			Namespace:           &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		}, 10_000_000)
		if err != nil {
			t.Fatalf("%s: %v", m.JSONPatch.Expression, err)
		}
		pod = got.(*corev1.Pod)
	}
	return pod
}

func TestPolicy(t *testing.T) {
	own := `{httpGet: {path: /mine, port: 1}}`
	const env = `{name: PROXYLAB_NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}`
	probe := func(port string) string {
		return `{failureThreshold: 3, httpGet: {path: /healthz, port: ` + port + `, scheme: HTTP}, periodSeconds: 1, successThreshold: 1, timeoutSeconds: 2}`
	}
	for name, test := range map[string]struct{ pod, want string }{
		"client": {`[{name: a, image: proxylab/client, imagePullPolicy: Always}]`, `[{name: a, image: proxylab/client, imagePullPolicy: IfNotPresent, resources: {}}]`},
		"echo": {`[{name: a, image: proxylab/echo}]`,
			`[{name: a, image: proxylab/echo, imagePullPolicy: IfNotPresent, env: [` + env + `], readinessProbe: ` + probe("8080") + `, resources: {}}]`},
		"echo with arguments": {`[{name: a, image: "localhost/proxylab/echo:latest", args: [--delay=1s, --http=9090], env: [{name: X, value: why}]}]`,
			`[{name: a, image: "localhost/proxylab/echo:latest", args: [--delay=1s, --http=9090], imagePullPolicy: IfNotPresent, env: [{name: X, value: why}, ` + env + `], readinessProbe: ` + probe("9090") + `, resources: {}}]`},
		"no HTTP": {`[{name: a, image: proxylab/echo, args: [--http=0]}]`, `[{name: a, image: proxylab/echo, args: [--http=0], imagePullPolicy: IfNotPresent, env: [` + env + `], resources: {}}]`},
		"own probe, among others": {`[{name: a, image: nginx}, {name: b, image: proxylab/echo, readinessProbe: ` + own + `}]`,
			`[{name: a, image: nginx, resources: {}}, {name: b, image: proxylab/echo, imagePullPolicy: IfNotPresent, env: [` + env + `], readinessProbe: ` + own + `, resources: {}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
			if err := yaml.UnmarshalStrict([]byte(test.pod), &pod.Spec.Containers); err != nil {
				t.Fatal(err)
			}
			if got, want := normal(t, mutated(t, pod).Spec.Containers), normal(t, test.want); got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		})
	}
}

func normal(t *testing.T, v any) string {
	t.Helper()
	if text, ok := v.(string); ok {
		v = nil
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
	}
	data, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}
