package agent

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"proxylab/lab/netns/fabric"
)

func podOf(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec:       corev1.PodSpec{NodeName: "node1", Containers: containers},
	}
}

func probe(port intstr.IntOrString, delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: port}},
		InitialDelaySeconds: delay,
	}
}

func TestWorkload(t *testing.T) {
	echo := func(args ...string) corev1.Container {
		return corev1.Container{Name: "c", Image: "proxylab/echo:v1", Args: args}
	}
	with := func(c corev1.Container, f func(*corev1.Container)) corev1.Container { f(&c); return c }
	host := podOf(echo())
	host.Spec.HostNetwork = true
	initial := podOf(echo())
	initial.Spec.InitContainers = []corev1.Container{echo()}
	for _, tc := range []struct {
		name    string
		pod     *corev1.Pod
		reasons string // of the refusals
		serves  bool
		after   time.Duration
		never   string // part of it
	}{
		{name: "echo", pod: podOf(echo()), serves: true},
		{name: "client", pod: podOf(corev1.Container{Name: "c", Image: "docker.io/proxylab/client@sha256:00", Command: []string{"sleep"}})},
		{name: "slow start", pod: podOf(echo("--slow-start=3s")), serves: true, after: 3 * time.Second},
		{name: "not ready", pod: podOf(echo("--not-ready")), serves: true, never: "--not-ready"},
		{name: "probe", pod: podOf(with(echo("--slow-start=3s"), func(c *corev1.Container) {
			c.ReadinessProbe = probe(intstr.FromInt32(8080), 5)
		})), serves: true, after: 5 * time.Second},
		{name: "probe by name", pod: podOf(with(echo("--http=80"), func(c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 80}}
			c.ReadinessProbe = probe(intstr.FromString("web"), 0)
		})), serves: true},
		{name: "probe of a wrong port", pod: podOf(with(echo(), func(c *corev1.Container) {
			c.ReadinessProbe = probe(intstr.FromInt32(80), 0)
		})), serves: true, never: "port 80"},
		{name: "probe of an unknown name", pod: podOf(with(echo(), func(c *corev1.Container) {
			c.ReadinessProbe = probe(intstr.FromString("nope"), 0)
		})), serves: true, never: "nothing listens"},
		{name: "other image", pod: podOf(corev1.Container{Name: "c", Image: "nginx"}), reasons: reasonImage},
		{name: "other registry", pod: podOf(corev1.Container{Name: "c", Image: "example.org:5000/proxylab/echo"}), reasons: reasonImage},
		{name: "bad arguments", pod: podOf(echo("--nope")), reasons: reasonArguments},
		{name: "command", pod: podOf(with(echo(), func(c *corev1.Container) { c.Command = []string{"sh"} })), reasons: reasonArguments},
		{name: "two mistakes", pod: podOf(echo("--nope"), corev1.Container{Name: "d", Image: "nginx"}), reasons: reasonArguments + " " + reasonImage},
		{name: "host network", pod: host, reasons: reasonHostNetwork},
		{name: "init containers", pod: initial, reasons: reasonInit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			containers, err := workload(tc.pod)
			var reasons []string
			for _, r := range refusals(err) {
				reasons = append(reasons, r.reason)
			}
			if got := strings.Join(reasons, " "); got != tc.reasons {
				t.Fatalf("refused for %q, want %q (%v)", got, tc.reasons, err)
			}
			if err != nil {
				return
			}
			c := containers[0]
			if c.serves != tc.serves || c.readyAfter != tc.after || (c.never == "") != (tc.never == "") || !strings.Contains(c.never, tc.never) {
				t.Errorf("got %+v", c)
			}
			if c.serves && (c.options.Pod != "web" || c.options.Node != "node1") {
				t.Errorf("it calls itself %+v", c.options)
			}
		})
	}
}

// A pool never gives an address to two pods, and lets each rest for as long as it can.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := fabric.Plan{Lab: "x", Count: 3}.Nodes()[1]
		p := newPool(n)
		has := map[string]fabric.PodAddrs{}
		var last int
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				pod := rapid.StringMatching("[a-z]{3}").Draw(t, "pod")
				if _, ok := has[pod]; ok {
					t.Skip()
				}
				a, err := p.take(pod)
				if err != nil {
					if len(has) < fabric.PodsPerNode {
						t.Fatal(err)
					}
					t.Skip()
				}
				number := n.Number(a)
				if last != 0 && len(has) < 100 && number == last {
					t.Fatalf("number %d again at once", number)
				}
				last, has[pod] = number, a
			},
			"free": func(t *rapid.T) {
				for pod, a := range has {
					p.free("another", a)
					p.free(pod, a)
					delete(has, pod)
					return
				}
			},
			"reserve": func(t *rapid.T) {
				pod := rapid.StringMatching("[a-z]{3}").Draw(t, "pod")
				if _, ok := has[pod]; ok {
					t.Skip()
				}
				a := n.Pod(rapid.IntRange(2, 254).Draw(t, "number"))
				if p.reserve(pod, a) {
					last, has[pod] = 0, a
				}
			},
			"": func(t *rapid.T) {
				seen := map[fabric.PodAddrs]bool{}
				for _, a := range has {
					if seen[a] || n.Number(a) == 0 {
						t.Fatalf("%v is twice or not the node's", a)
					}
					seen[a] = true
				}
			},
		})
	})
}

func TestReserveRefusesWhatIsNotTheNodes(t *testing.T) {
	nodes := fabric.Plan{Lab: "x", Count: 2}.Nodes()
	p := newPool(nodes[0])
	mixed := fabric.PodAddrs{V4: nodes[0].Pod(5).V4, V6: nodes[0].Pod(6).V6}
	for _, a := range []fabric.PodAddrs{{}, nodes[1].Pod(5), mixed, {V4: nodes[0].Pod(5).V4}} {
		if p.reserve("x", a) {
			t.Errorf("reserved %v", a)
		}
	}
}
