package play

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/scenarios"
)

func (s *subject) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *subject) scale(ctx context.Context, step scenarios.ScaleStep) error {
	ref := scenarios.Target{Deployment: step.Deployment}.Ref()
	err := s.stage.patch(ctx, ref, map[string]any{"spec": map[string]any{"replicas": step.Replicas}})
	if err != nil || !step.Wait {
		return err
	}
	return s.stage.awaitDeployment(ctx, ref.Namespace, ref.Name, step.Replicas)
}

// churn deletes pods at the rate asked for, the one that has been ready longest first, and returns when the
// Deployment is whole again and the last of the deleted pods is gone.
func (s *subject) churn(ctx context.Context, step scenarios.ChurnStep) error {
	namespace, name := scenarios.SplitName(step.Deployment)
	interval := time.Duration(float64(time.Second) / step.Rate.PerSecond())
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	end := time.After(step.For.Duration())
	deleted := map[string]bool{} // the watch may show a pod as ready for a while after
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return s.stage.awaitDeployment(ctx, namespace, name, -1)
		case <-ticker.C:
			if err := s.deleteOldest(ctx, namespace, name, deleted); err != nil {
				return err
			}
		}
	}
}

func (s *subject) deleteOldest(ctx context.Context, namespace, deployment string, deleted map[string]bool) error {
	pods, err := s.stage.readyPodsOf(namespace, deployment)
	if err != nil {
		return err
	}
	var oldest *corev1.Pod
	for _, p := range pods {
		if !deleted[p.Name] && (oldest == nil || p.CreationTimestamp.Before(&oldest.CreationTimestamp)) {
			oldest = p
		}
	}
	if oldest == nil {
		return nil // all are on their way out or not up yet: nothing to churn at this tick
	}
	deleted[oldest.Name] = true
	err = s.api.typed.CoreV1().Pods(namespace).Delete(ctx, oldest.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Pod %s: %w", oldest.Name, err)
	}
	return nil
}
