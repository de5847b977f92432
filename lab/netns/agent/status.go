package agent

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"proxylab/lab/netns/fabric"
)

// report is what a pod's status is made of.
type report struct {
	node     fabric.Node
	addrs    fabric.PodAddrs // zero: none yet
	accepted time.Time
	started  time.Time // of the containers; zero: they wait
	restarts int32
	refused  []refusal
	ready    map[string]bool // by container
	// conditions are those of the last report. When they changed is kept here and not read back from the API, where
	// an older report may still be seen: the two would take turns for ever.
	conditions []corev1.PodCondition
}

// status is what a kubelet would report.
func (r *report) status(pod *corev1.Pod, now time.Time) corev1.PodStatus {
	s := corev1.PodStatus{Phase: corev1.PodPending, StartTime: &metav1.Time{Time: r.accepted}}
	hosts := []string{r.node.Addr4.Addr().String(), r.node.Addr6.Addr().String()}
	s.HostIP, s.HostIPs = hosts[0], []corev1.HostIP{{IP: hosts[0]}, {IP: hosts[1]}}
	if r.addrs.V4.IsValid() {
		s.PodIP = r.addrs.V4.String()
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}, {IP: r.addrs.V6.String()}}
	}
	running := !r.started.IsZero()
	if running {
		s.Phase = corev1.PodRunning
	}
	allReady := running
	for _, c := range pod.Spec.Containers {
		cs := r.container(c)
		allReady = allReady && cs.Ready
		s.ContainerStatuses = append(s.ContainerStatuses, cs)
	}
	podReady := allReady
	for _, gate := range pod.Spec.ReadinessGates {
		podReady = podReady && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
	}
	var conditions []corev1.PodCondition
	for _, c := range []struct {
		kind corev1.PodConditionType
		is   bool
		why  string
	}{
		{corev1.PodReadyToStartContainers, s.PodIP != "", ""},
		{corev1.PodInitialized, true, ""},
		{corev1.ContainersReady, allReady, "ContainersNotReady"},
		{corev1.PodReady, podReady, "ContainersNotReady"},
	} {
		conditions = append(conditions, condition(r.conditions, c.kind, c.is, c.why, now))
	}
	s.Conditions, r.conditions = conditions, conditions
	return s
}

func (r *report) container(c corev1.Container) corev1.ContainerStatus {
	started := !r.started.IsZero()
	cs := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, Ready: started && r.ready[c.Name], Started: &started, RestartCount: r.restarts,
	}
	if started {
		cs.ImageID = imageName(c.Image)
		cs.ContainerID = "proxylab://" + c.Name
		cs.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: r.started}}
		return cs
	}
	cs.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCreating}
	for _, f := range r.refused {
		if f.container == "" || f.container == c.Name {
			cs.State.Waiting = &corev1.ContainerStateWaiting{Reason: f.reason, Message: f.message}
		}
	}
	return cs
}

func condition(old []corev1.PodCondition, kind corev1.PodConditionType, is bool, why string, now time.Time) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: why, LastTransitionTime: metav1.Time{Time: now}}
	if is {
		c.Status, c.Reason = corev1.ConditionTrue, ""
	}
	for _, o := range old {
		if o.Type == kind && o.Status == c.Status {
			c.LastTransitionTime = o.LastTransitionTime
		}
	}
	return c
}

// patch is a strategic merge patch for the status of exactly this pod, not of one that came later under its name.
func patch(uid types.UID, s corev1.PodStatus) ([]byte, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		return nil, err
	}
	for _, list := range []string{"podIPs", "hostIPs"} { // which would be merged with the old ones
		if values, ok := status[list].([]any); ok {
			status[list] = append([]any{map[string]any{"$patch": "replace"}}, values...)
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
}
