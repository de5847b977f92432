package controlplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Create makes the background in a cluster that runs, through its API: some hundred objects a second. What is there already
// stays, so that it can be repeated.
func (b Background) Create(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 1000, 2000
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	g := generator{endpoint: endpointRange.Addr()}
	for i := range b.Services {
		namespace := backgroundNamespace(i)
		if i%servicesPerNamespace == 0 {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); unless(err) != nil {
				return fmt.Errorf("namespace %s: %w", namespace, err)
			}
		}
		svc := newService(i, endpointRange.Addr()) // of the address the cluster has the say
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.IPFamilies = "", nil, []corev1.IPFamily{corev1.IPv4Protocol}
		made, err := client.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
		if unless(err) != nil {
			return fmt.Errorf("background Service %s: %w", svc.Name, err)
		}
		if err == nil {
			svc = made
		}
		for n := 0; n*endpointsPerSlice < b.EndpointsPerService; n++ {
			slice := g.slice(svc, n, min(endpointsPerSlice, b.EndpointsPerService-n*endpointsPerSlice))
			if _, err := client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{}); unless(err) != nil {
				return fmt.Errorf("endpoints of background Service %s: %w", svc.Name, err)
			}
		}
	}
	return nil
}

// unless it is there already.
func unless(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
