package agent

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"proxylab/lab/netns/fabric"
)

// What is reported depends on what the agent knows and not on which of its own reports it sees at the API, or two
// reports would take turns. Conditions keep the time of their last change.
func TestStatusDoesNotDependOnWhatIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := fabric.Plan{Lab: "x", Count: 1}.Nodes()[0]
		now := time.Unix(1000, 0)
		r := report{node: n, accepted: now, ready: map[string]bool{}}
		pod := podOf(corev1.Container{Name: "c"})
		reports := []corev1.PodStatus{r.status(pod, now)}
		was, changed := false, now
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			now = now.Add(time.Second)
			if rapid.Bool().Draw(t, "started") {
				r.started, r.addrs = now, n.Pod(2)
			}
			r.ready["c"] = rapid.Bool().Draw(t, "ready")
			pod.Status = rapid.SampledFrom(reports).Draw(t, "seen at the API")
			s := r.status(pod, now)
			reports = append(reports, s)
			is := !r.started.IsZero() && r.ready["c"]
			if is != was {
				was, changed = is, now
			}
			for _, c := range s.Conditions {
				if c.Type == corev1.PodReady && ((c.Status == corev1.ConditionTrue) != is || !c.LastTransitionTime.Time.Equal(changed)) {
					t.Fatalf("ready is %v since %v, reported is %+v", is, changed, c)
				}
			}
		}
	})
}
