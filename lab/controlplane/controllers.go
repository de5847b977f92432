package controlplane

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	schedapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedoptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"proxylab/lab/procs"
)

// controllers are those that a lab needs. Left out are volumes, certificates, quota, autoscaling and cloud matters,
// and node-ipam: whoever makes a Node says which pod ranges it has.
var controllers = []string{
	names.DeploymentController, names.ReplicaSetController, names.ReplicationControllerController,
	names.DaemonSetController, names.StatefulSetController, names.JobController, names.CronJobController,
	names.DisruptionController, names.TTLAfterFinishedController,
	names.EndpointsController, names.EndpointSliceController, names.EndpointSliceMirroringController, names.ServiceCIDRController,
	names.NodeLifecycleController, names.TaintEvictionController, names.PodGarbageCollectorController,
	names.NamespaceController, names.GarbageCollectorController,
	names.ServiceAccountController, names.ServiceAccountTokenController, names.RootCACertificatePublisherController,
	names.ClusterRoleAggregationController,
}

// clientArgs are for a client that is never to wait for its own sake.
func clientArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--kube-api-content-type=application/vnd.kubernetes.protobuf",
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
	}
}

func controllerManagerArgs(c *component) []string {
	return append(clientArgs(c.kubeconfig(controllerManager.file)),
		"--controllers="+strings.Join(controllers, ","),
		"--controller-start-interval=0s",
		"--allocate-node-cidrs=false",
		"--service-account-private-key-file="+c.pki("sa.key"),
		"--root-ca-file="+c.pki("ca.crt"),
		"--concurrent-deployment-syncs=10",
		"--concurrent-replicaset-syncs=10",
		"--concurrent-gc-syncs=10",
		"--concurrent-service-endpoint-syncs=10",
	)
}

func runControllerManager(ctx context.Context, c *component) error {
	s, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, off, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	flags := s.Flags(known, off, aliases)
	if err := parse(kubeControllerManager, flags, controllerManagerArgs(c)); err != nil {
		return err
	}
	s.ParsedFlags = &flags
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(s.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	// Upstream asks once a second whether the API server is there, and gives up after ten.
	if err := c.await(ctx, kubeAPIServer); err != nil {
		return err
	}
	config, err := s.Config(ctx, known, off, aliases)
	if err != nil {
		return err
	}
	go func() {
		if err := awaitDefaultServiceAccount(ctx, c.kubeconfig(controllerManager.file)); err == nil {
			_ = c.ready() // Start says what is missing if this fails
		}
	}()
	return app.Run(ctx, config.Complete())
}

// awaitDefaultServiceAccount waits for a thing that only working controllers make.
func awaitDefaultServiceAccount(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if stop := procs.Sleep(ctx, 50*time.Millisecond); stop != nil {
			return fmt.Errorf("%w (%w)", stop, err)
		}
	}
}

func runScheduler(ctx context.Context, c *component) error {
	s := schedoptions.NewOptions()
	if err := parse(kubeScheduler, *s.Flags, clientArgs(c.kubeconfig(scheduler.file))); err != nil {
		return err
	}
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(s.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	if err := c.await(ctx, kubeAPIServer); err != nil {
		return err
	}
	config, sched, err := schedapp.Setup(ctx, s)
	if err != nil {
		return err
	}
	go func() {
		if err := sched.WaitForHandlersSync(ctx); err == nil {
			_ = c.ready()
		}
	}()
	return schedapp.Run(ctx, config, sched)
}
