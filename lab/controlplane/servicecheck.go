package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// serviceCheck looks whether pods would find the API: kube-apiserver makes the Service default/kubernetes, and puts
// itself behind it, only after it says that it is ready; and one that comes back after a crash first takes itself out.
type serviceCheck struct {
	http    *http.Client
	client  kubernetes.Interface
	address string
}

func newServiceCheck(kubeconfig string, address netip.Addr) (*serviceCheck, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second
	config.ContentType = "application/vnd.kubernetes.protobuf"
	c := &serviceCheck{address: address.String()}
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	c.client, err = kubernetes.NewForConfigAndClient(config, c.http)
	return c, err
}

func (c *serviceCheck) check(ctx context.Context) error {
	const name = "kubernetes"
	if _, err := c.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{}); err != nil {
		return err
	}
	slice, err := c.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	leads := slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return slices.Contains(e.Addresses, c.address) })
	if !leads {
		return fmt.Errorf("service default/%s does not lead to %s", name, c.address)
	}
	return nil
}

func (c *serviceCheck) close() { c.http.CloseIdleConnections() }
