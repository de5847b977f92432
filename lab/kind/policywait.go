package kind

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/lab"
	"proxylab/lab/procs"
)

// awaitPolicy returns once the API server applies the policy, which it does a moment after it has taken it: a pod that it is
// only asked about shows that.
func (m *making) awaitPolicy(ctx context.Context) error {
	c, err := m.api()
	if err != nil {
		return err
	}
	limit := lab.Patience(time.Minute)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the admission policy has no effect after %s", limit))
	defer cancel()
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "proxylab-policy", Namespace: metav1.NamespaceDefault},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "echo", Image: "proxylab/echo"}}},
	}
	for {
		// Where the default service account is not there yet, that is the error.
		pod, err := c.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && pod.Spec.Containers[0].ImagePullPolicy == corev1.PullIfNotPresent {
			return nil
		}
		if cause := procs.Sleep(ctx, 50*time.Millisecond); cause != nil {
			return fmt.Errorf("%w (last: %v)", cause, err) //nolint:errorlint // may be nil
		}
	}
}
