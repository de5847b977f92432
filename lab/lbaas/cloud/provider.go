package cloud

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
)

// provider is OpenStack as the service controller sees it: balancers and nothing else.
type provider struct {
	opts      Options
	conf      Config
	client    kubernetes.Interface
	clusterID string
	events    record.EventRecorder
	log       *slog.Logger
}

func newProvider(o Options, client kubernetes.Interface, clusterID string, events record.EventRecorder) *provider {
	return &provider{opts: o, conf: o.Balancers, client: client, clusterID: clusterID, events: events, log: o.Log}
}

func (p *provider) connect(context.Context) error { return nil }

type drift struct{}

func newDrift(*provider, coreinformers.ServiceInformer, coreinformers.NodeInformer) *drift {
	return &drift{}
}
func (*drift) run(ctx context.Context) { <-ctx.Done() }

// Initialize implements cloudprovider.Interface.
func (p *provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface.
func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Instances implements cloudprovider.Interface.
func (p *provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (p *provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Zones implements cloudprovider.Interface.
func (p *provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (p *provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (p *provider) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName implements cloudprovider.Interface.
func (p *provider) ProviderName() string { return "openstack" }

// HasClusterID implements cloudprovider.Interface.
func (p *provider) HasClusterID() bool { return true }

var _ = corev1.Service{}
