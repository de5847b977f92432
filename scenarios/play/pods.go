package play

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// awaitDeployment returns once a Deployment has the number of pods that is wanted, all of them Ready, and those that
// were too many are gone. want < 0 stands for what the Deployment itself says.
func (s *stage) awaitDeployment(ctx context.Context, namespace, name string, want int) error {
	return s.await(ctx, "pods of Deployment "+name, 2*time.Minute, func() (bool, string) {
		d, err := s.deployment(namespace, name)
		if err != nil {
			return false, err.Error()
		}
		pods, err := s.selected(namespace, d.Spec.Selector)
		if err != nil {
			return false, err.Error()
		}
		return (want < 0 || replicas(d) == want) && settled(d) && len(pods) == replicas(d),
			fmt.Sprintf("%d replicas wanted, %d ready, %d updated, %d pods in all",
				replicas(d), d.Status.ReadyReplicas, d.Status.UpdatedReplicas, len(pods))
	})
}

func settled(d *appsv1.Deployment) bool {
	want := int32(replicas(d))
	return d.Status.ObservedGeneration >= d.Generation && d.Status.ReadyReplicas == want && d.Status.UpdatedReplicas == want
}

func replicas(d *appsv1.Deployment) int {
	if d.Spec.Replicas == nil {
		return 1
	}
	return int(*d.Spec.Replicas)
}

func (s *stage) deployment(namespace, name string) (*appsv1.Deployment, error) {
	return s.factories[namespace].Apps().V1().Deployments().Lister().Deployments(namespace).Get(name)
}

func (s *stage) service(namespace, name string) (*corev1.Service, error) {
	return s.factories[namespace].Core().V1().Services().Lister().Services(namespace).Get(name)
}

// awaitPod returns a pod once it is Ready.
func (s *stage) awaitPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	var pod *corev1.Pod
	err := s.await(ctx, "Pod "+name+" ready", time.Minute, func() (ok bool, state string) {
		p, err := s.factories[namespace].Core().V1().Pods().Lister().Pods(namespace).Get(name)
		if err != nil {
			return false, err.Error()
		}
		pod = p
		return isReady(p), "phase " + string(p.Status.Phase)
	})
	return pod, err
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

// readyPodsOf lists the pods of a Deployment that are Ready and not on their way out.
func (s *stage) readyPodsOf(namespace, deployment string) ([]*corev1.Pod, error) {
	d, err := s.deployment(namespace, deployment)
	if err != nil {
		return nil, err
	}
	all, err := s.selected(namespace, d.Spec.Selector)
	if err != nil {
		return nil, err
	}
	ready := all[:0:0]
	for _, p := range all {
		if isReady(p) {
			ready = append(ready, p)
		}
	}
	return ready, nil
}

func (s *stage) selected(namespace string, selector *metav1.LabelSelector) ([]*corev1.Pod, error) {
	sel, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	return s.factories[namespace].Core().V1().Pods().Lister().Pods(namespace).List(sel)
}

// podsOf are the living pods that the objects stand for: Pods themselves, and those that a workload's selector picks.
func (s *stage) podsOf(objects []*unstructured.Unstructured) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, o := range objects {
		namespace := namespaceOf(o)
		factory, watched := s.factories[namespace]
		if !watched {
			continue
		}
		if o.GetKind() == "Pod" {
			if p, err := factory.Core().V1().Pods().Lister().Pods(namespace).Get(o.GetName()); err == nil {
				pods = append(pods, p)
			}
			continue
		}
		matchLabels, found, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
		if err != nil || !found {
			continue
		}
		selected, err := factory.Core().V1().Pods().Lister().Pods(namespace).List(labels.SelectorFromSet(matchLabels))
		if err == nil {
			pods = append(pods, selected...)
		}
	}
	return pods
}
