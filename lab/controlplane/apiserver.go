package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"proxylab/lab/procs"
)

// admissionOff are the default admission plugins that a lab is better without.
var admissionOff = []string{
	// Without it a Pod needs no service account, so it can be made in the first moment of a namespace, and carries
	// no token volume, which the lab's pods do not mount.
	"ServiceAccount",
	// Keeps Pods off a new Node until the controller manager has seen it Ready. A lab's nodes are ready when they
	// are made.
	"TaintNodesByCondition",
	// Volumes, certificates, image policy: a lab has none of them.
	"DefaultStorageClass", "PersistentVolumeClaimResize", "StorageObjectInUseProtection",
	"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest",
	"PodSecurity", "RuntimeClass",
	// Webhooks and policies.
	"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
}

// apisOff are APIs that nothing in a lab asks for. Each costs start-up time and memory. (kubectl scale does not need
// autoscaling: the scale of a Deployment is part of apps.)
var apisOff = []string{
	"autoscaling/v1", "autoscaling/v2", "certificates.k8s.io/v1",
	"flowcontrol.apiserver.k8s.io/v1", "node.k8s.io/v1", "storagemigration.k8s.io/v1",
}

func apiServerArgs(c *component) []string {
	return []string{
		"--etcd-servers=unix://" + c.etcdSocket(),
		"--advertise-address=" + c.state.Address.String(),
		"--service-cluster-ip-range=" + joinPrefixes(c.state.ServiceCIDRs),
		"--service-node-port-range=" + c.state.NodePorts.String(),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--tls-cert-file=" + c.pki("apiserver.crt"),
		"--tls-private-key-file=" + c.pki("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + c.pki("sa.key"),
		"--service-account-key-file=" + c.pki("sa.pub"),
		"--anonymous-auth=false",
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=" + strings.Join(admissionOff, ","),
		"--runtime-config=" + strings.Join(apisOff, "=false,") + "=false",
		"--allow-privileged=true",
		// One user, one machine: nobody has to be protected from anybody, and a burst is what a scenario is about.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=0",
		"--max-mutating-requests-inflight=0",
		"--profiling=false",
		"--shutdown-delay-duration=0s",
	}
}

// runAPIServer is what app.NewAPIServerCommand does, with two differences: it serves inherited sockets, and the port
// that it announces is the lab's.
func runAPIServer(ctx context.Context, c *component) error {
	sockets, err := inheritedSockets()
	if err != nil {
		return err
	}
	defer sockets.Close()
	s := options.NewServerRunOptions()
	if err := parse(kubeAPIServer, s.Flags(), apiServerArgs(c)); err != nil {
		return err
	}
	s.SecureServing.Listener = sockets
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(s.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	opts, err := s.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := opts.Validate(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	if opts.InformerName, err = cache.NewInformerName(kubeAPIServer); err != nil {
		return err
	}
	if err := c.await(ctx, etcdPart); err != nil {
		return err
	}
	return serveAPI(ctx, c, opts)
}

func serveAPI(ctx context.Context, c *component, opts options.CompletedOptions) error {
	config, err := app.NewConfig(opts)
	if err != nil {
		return err
	}
	// The server's clients of itself are made by now, for the loopback port. From here on the address of the
	// listener is what endpoints of the Service default/kubernetes and discovery say, so it must be the lab's.
	serving := config.KubeAPIs.ControlPlane.Generic.SecureServing
	serving.Listener = announced{serving.Listener, &net.TCPAddr{IP: c.state.Address.AsSlice(), Port: labPort}}
	nameVersion(config)
	skipBootstrapHooks(config)
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := app.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	go func() {
		if err := awaitReadyz(ctx, c.kubeconfig(admin.file)); err == nil {
			_ = c.ready() // Start says what is missing if this fails
		}
	}()
	return prepared.Run(ctx)
}

// awaitReadyz waits until the API server says that it is ready.
func awaitReadyz(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for {
		if err = readyz(ctx, client, config.Host); err == nil {
			return nil
		}
		if stop := procs.Sleep(ctx, 20*time.Millisecond); stop != nil {
			return fmt.Errorf("%w (%w)", stop, err)
		}
	}
}

func readyz(ctx context.Context, client *http.Client, host string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s/readyz: %s", host, resp.Status)
	}
	return nil
}
