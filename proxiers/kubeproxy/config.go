package kubeproxy

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

// kube-proxy's own default addresses.
const (
	healthzAddress = "0.0.0.0:10256"
	metricsAddress = "127.0.0.1:10249"
)

// configuration is what kube-proxy is told. What it does not mention is kube-proxy's default.
func configuration(o Options) *v1alpha1.KubeProxyConfiguration {
	zero, off := int32(0), metav1.Duration{}
	syncPeriod := metav1.Duration{Duration: o.SyncPeriod}
	minSync := metav1.Duration{Duration: o.MinSyncPeriod}
	if minSync.Duration == 0 { // mode ipvs has no default
		minSync.Duration = time.Second
	}
	c := &v1alpha1.KubeProxyConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "KubeProxyConfiguration"},
		Mode:               v1alpha1.ProxyMode(o.Mode),
		HostnameOverride:   o.Node,
		HealthzBindAddress: healthzAddress,
		MetricsBindAddress: metricsAddress,
		// A node that cannot say how it is must not look as if it could.
		BindAddressHardFail: true,
		// Nodes of a lab have pod CIDRs, and the native proxiers tell local traffic by them too.
		DetectLocalMode: "NodeCIDR",
		// Out-of-memory priority is left as it is: the default protects kube-proxy at the expense of whatever else
		// runs on the machine of the lab.
		OOMScoreAdj: &zero,
		// 0 leaves each setting as it is, because a network namespace cannot change some of them and because all
		// proxiers must find the same. Empty UDP timeouts do so by default.
		Conntrack: v1alpha1.KubeProxyConntrackConfiguration{
			MaxPerCore: &zero, Min: &zero, TCPEstablishedTimeout: &off, TCPCloseWaitTimeout: &off},
		Logging: logsapi.LoggingConfiguration{Format: logsapi.DefaultLogFormat,
			Verbosity: logsapi.VerbosityLevel(o.Verbosity)},
	}
	c.ClientConnection.Kubeconfig = o.Kubeconfig
	c.ClientConnection.ContentType = "application/vnd.kubernetes.protobuf"
	c.ClientConnection.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c.IPTables.SyncPeriod, c.IPTables.MinSyncPeriod = syncPeriod, minSync
	c.IPVS.SyncPeriod, c.IPVS.MinSyncPeriod = syncPeriod, minSync
	c.IPVS.Scheduler = o.Scheduler
	c.NFTables.SyncPeriod, c.NFTables.MinSyncPeriod = syncPeriod, minSync
	return c
}

// writeConfig writes the configuration to a file in a directory of its own and returns the file's path.
func writeConfig(o Options) (string, error) {
	data, err := yaml.Marshal(configuration(o))
	if err != nil {
		return "", fmt.Errorf("encode configuration: %w", err)
	}
	dir, err := os.MkdirTemp(o.RunDir, "proxylab-kube-proxy-")
	if err != nil {
		return "", fmt.Errorf("directory for the configuration: %w", err)
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("write configuration: %w", err)
	}
	return file, nil
}
