package cloud

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/prometheus/controllers"

	"proxylab/lab/procs"
)

// Main runs the controller until ctx ends. It fails if the options are wrong or Kubernetes does not answer; OpenStack may
// come later.
func Main(ctx context.Context, o Options) error {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	config.QPS, config.Burst = 1000, 2000
	config.UserAgent = Name
	return run(ctx, o, config)
}

func run(ctx context.Context, o Options, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of Kubernetes: %w", err)
	}
	// The UID of kube-system is what tells two clusters of one name apart.
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("identity of the cluster: %w", err)
	}
	return runWith(ctx, o, client, string(system.UID))
}

func runWith(ctx context.Context, o Options, client kubernetes.Interface, clusterID string) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	p := newProvider(ctx, o, client, clusterID, broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name}))
	factory := informers.NewSharedInformerFactory(client, 0)
	services, nodes := factory.Core().V1().Services(), factory.Core().V1().Nodes()
	controller, err := service.New(p, client, services, nodes, o.ClusterName, featuregate.NewFeatureGate())
	if err != nil {
		return fmt.Errorf("service controller: %w", err)
	}
	d := &drift{p: p, services: services.Lister(), nodes: nodes.Lister()}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := p.await(ctx); err != nil {
		return nil // told to end before OpenStack was there
	}
	if o.Ready != nil {
		o.Ready()
	}
	p.working.Go(func() { d.run(ctx) }) // ends with ctx
	controller.Run(ctx, o.Workers, controllers.NewControllerManagerMetrics(Name))
	p.end()
	factory.Shutdown()
	return nil
}

// await waits until OpenStack answers. It fails only when ctx ends.
func (p *provider) await(ctx context.Context) error {
	for {
		api, err := p.openStack(ctx)
		if err == nil {
			_, err = p.cache.get(ctx, api.lb)
		}
		if err == nil {
			return nil
		}
		p.log.Warn("OpenStack is not there yet", "error", err)
		if err := procs.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}
