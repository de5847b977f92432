package kind

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"proxylab/lab"
)

// kubeadm's objects, as kind has them made.
func kubeadm() (*appsv1.DaemonSet, *corev1.ConfigMap) {
	meta := metav1.ObjectMeta{Name: "kube-proxy", Namespace: "kube-system", UID: "x", ResourceVersion: "7"}
	labels := map[string]string{"k8s-app": "kube-proxy"}
	return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				HostNetwork:  true,
				NodeSelector: map[string]string{"kubernetes.io/os": "linux", parkedOn: "true"},
				Containers: []corev1.Container{{Name: "kube-proxy", Image: "registry.k8s.io/kube-proxy:v1", Command: []string{"kube-proxy"},
					Env: []corev1.EnvVar{{Name: "NODE_NAME"}}}},
				Volumes: []corev1.Volume{
					{Name: "lib-modules"},
					{Name: "kube-proxy", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-proxy"}}}},
				}}}}},
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"kubeconfig.conf": "where", configKey: `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: 0.0.0.0
clusterCIDR: 10.244.0.0/16
mode: iptables
conntrack: {maxPerCore: 0, min: null, tcpBeLiberal: true, udpTimeout: 0s}
iptables: {masqueradeBit: 14, minSyncPeriod: 1s}
ipvs: {scheduler: ""}
`}}
}

func TestDeriveUpstream(t *testing.T) {
	set, config := kubeadm()
	p := lab.ProxierSpec{Name: "kube-proxy/nftables", MinSyncPeriod: 50 * time.Millisecond, SyncPeriod: 30 * time.Second, Scheduler: "rr"}
	d, err := deriveUpstream("l", p.Name, p, set, config)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(d.daemonSet.Name, "proxylab-kube-proxy-nftables-") || d.daemonSet.Name != d.config.Name || d.daemonSet.UID != "" {
		t.Errorf("names: %s, %s", d.daemonSet.Name, d.config.Name)
	}
	pod := d.daemonSet.Spec.Template
	if pod.Spec.NodeSelector[nodeLabel] != d.config.Name || pod.Spec.NodeSelector[parkedOn] != "" || pod.Labels["k8s-app"] != "" ||
		pod.Spec.Volumes[1].ConfigMap.Name != d.config.Name || !pod.Spec.HostNetwork {
		t.Errorf("pod: %+v", pod)
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["PROXYLAB_LAB"] != "l" || env["PROXYLAB_PART"] != "proxier/$(PROXYLAB_NODE)" || !strings.Contains(env[specVar], `"Name":"kube-proxy/nftables"`) {
		t.Errorf("environment: %v", env)
	}
	checkDerivedConfig(t, d.config)
	if set.Spec.Template.Spec.Volumes[1].ConfigMap.Name != "kube-proxy" || !strings.Contains(config.Data[configKey], "mode: iptables") {
		t.Error("what it was derived from was changed")
	}
	other, err := deriveUpstream("l", "kube-proxy/iptables", p, set, config)
	if err != nil || other.config.Name == d.config.Name {
		t.Errorf("another mode, the same name %s, %v", other.config.Name, err)
	}
	p.MinSyncPeriod *= 2
	if other, err = deriveUpstream("l", p.Name, p, set, config); err != nil || other.config.Name == d.config.Name {
		t.Errorf("other terms, the same name %s, %v", other.config.Name, err)
	}
}

// Only the mode and the terms are changed.
func checkDerivedConfig(t *testing.T, m *corev1.ConfigMap) {
	t.Helper()
	var got map[string]any
	if err := yaml.Unmarshal([]byte(m.Data[configKey]), &got); err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
clusterCIDR: 10.244.0.0/16
conntrack:
  maxPerCore: 0
  min: 0
  tcpBeLiberal: false
  tcpCloseWaitTimeout: 0s
  tcpEstablishedTimeout: 0s
  udpTimeout: 0s
iptables:
  masqueradeBit: 14
  minSyncPeriod: 50ms
  syncPeriod: 30s
ipvs:
  minSyncPeriod: 50ms
  scheduler: rr
  syncPeriod: 30s
kind: KubeProxyConfiguration
mode: nftables
nftables:
  minSyncPeriod: 50ms
  syncPeriod: 30s
`
	if text, err := yaml.Marshal(got); err != nil || string(text) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	if m.Data["kubeconfig.conf"] != "where" {
		t.Error("the kubeconfig is gone")
	}
}

func TestDeriveFromSomethingElse(t *testing.T) {
	for what, change := range map[string]func(*appsv1.DaemonSet, *corev1.ConfigMap){
		"no volume": func(s *appsv1.DaemonSet, _ *corev1.ConfigMap) { s.Spec.Template.Spec.Volumes = nil },
		"a sidecar": func(s *appsv1.DaemonSet, _ *corev1.ConfigMap) {
			s.Spec.Template.Spec.Containers = append(s.Spec.Template.Spec.Containers, corev1.Container{Name: "x"})
		},
		"no configuration": func(_ *appsv1.DaemonSet, m *corev1.ConfigMap) { m.Data = nil },
	} {
		set, config := kubeadm()
		change(set, config)
		if _, err := deriveUpstream("l", "kube-proxy/iptables", lab.ProxierSpec{}, set, config); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestModeOf(t *testing.T) {
	for text, want := range map[string]string{"mode: nftables": "nftables", `mode: ""`: "iptables", "{}": "iptables"} {
		if got, err := modeOf(text); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
