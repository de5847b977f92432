package kind

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"proxylab/lab"
	"proxylab/lab/procs"
)

// Names in the cluster. Each mode, with its terms, has a DaemonSet and a ConfigMap of its own beside those of the cluster,
// which are parked: a node's label says which one runs there, so that a mode can be changed node by node, and no pod of the old
// mode is there together with one of the new.
const (
	kubeProxy    = "kube-proxy"          // the cluster's own DaemonSet, ConfigMap and container
	upstreamName = "proxylab-kube-proxy" // what the names of ours begin with
	nodeLabel    = "proxylab.io/proxier" // of nodes
	podLabel     = "proxylab.io/kube-proxy"
	configKey    = "config.conf"
)

// deriveUpstream makes what runs kube-proxy in a mode out of what the cluster has for it: other than the mode and the terms,
// which are equal for all proxiers, nothing is changed.
func deriveUpstream(labName, proxier string, p lab.ProxierSpec, original *appsv1.DaemonSet, config *corev1.ConfigMap) (derived, error) {
	mode := strings.TrimPrefix(proxier, upstreamPrefix)
	asked, err := json.Marshal([]any{proxier, p})
	if err != nil {
		return derived{}, err
	}
	sum := sha256.Sum256(asked)
	name := fmt.Sprintf("%s-%s-%s", upstreamName, mode, hex.EncodeToString(sum[:3]))
	conf, err := changeConfig(config.Data[configKey], mode, p)
	if err != nil {
		return derived{}, fmt.Errorf("ConfigMap %s: %w", config.Name, err)
	}
	data := maps.Clone(config.Data)
	data[configKey] = conf
	labels := map[string]string{podLabel: name}
	d := derived{
		config: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: config.Namespace, Labels: labels}, Data: data},
		daemonSet: &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: original.Namespace, Labels: labels},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: *original.Spec.Template.DeepCopy(),
			},
		},
	}
	asked, err = json.Marshal(p)
	if err != nil {
		return derived{}, err
	}
	return d, d.adapt(labName, string(asked), config.Name)
}

// adapt gives the pods their place and their marks.
func (d derived) adapt(labName, spec, originalConfig string) error {
	t := &d.daemonSet.Spec.Template
	t.Labels = map[string]string{podLabel: d.config.Name}
	t.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux", nodeLabel: d.config.Name}
	replaced := false
	for i := range t.Spec.Volumes {
		if m := t.Spec.Volumes[i].ConfigMap; m != nil && m.Name == originalConfig {
			m.Name, replaced = d.config.Name, true
		}
	}
	if !replaced || len(t.Spec.Containers) != 1 || t.Spec.Containers[0].Name != kubeProxy {
		return fmt.Errorf("DaemonSet %s is not as kubeadm makes it: it has no volume of ConfigMap %s, or other containers", kubeProxy, originalConfig)
	}
	c := &t.Spec.Containers[0]
	// A reference resolves to what comes before it in the list.
	c.Env = append(c.Env, corev1.EnvVar{Name: "PROXYLAB_NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}})
	for _, kv := range append(procs.Mark(labName, proxierPart("$(PROXYLAB_NODE)")), specVar+"="+spec) {
		key, value, _ := strings.Cut(kv, "=")
		c.Env = append(c.Env, corev1.EnvVar{Name: key, Value: value})
	}
	return nil
}

// changeConfig changes the mode in a configuration of kube-proxy, and the terms.
func changeConfig(text, mode string, p lab.ProxierSpec) (string, error) {
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return "", err
	}
	if config["kind"] != "KubeProxyConfiguration" {
		return "", fmt.Errorf("%s is no KubeProxyConfiguration", configKey)
	}
	config["mode"] = mode
	periods := map[string]any{"syncPeriod": p.SyncPeriod.String(), "minSyncPeriod": p.MinSyncPeriod.String()}
	if p.MinSyncPeriod == 0 { // "0s" is no limit in mode iptables, and an error in none
		periods["minSyncPeriod"] = time.Second.String()
	}
	for _, section := range []string{"iptables", "ipvs", "nftables"} {
		set(config, section, periods)
	}
	if p.Scheduler != "" {
		set(config, "ipvs", map[string]any{"scheduler": p.Scheduler})
	}
	// 0 leaves each setting as it is: all proxiers find the same.
	set(config, "conntrack", map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s", "tcpBeLiberal": false})
	data, err := yaml.Marshal(config)
	return string(data), err
}

func set(config map[string]any, section string, values map[string]any) {
	inner, ok := config[section].(map[string]any)
	if !ok {
		inner = map[string]any{}
	}
	maps.Copy(inner, values)
	config[section] = inner
}

// modeOf is the mode that a configuration of kube-proxy asks for.
func modeOf(text string) (string, error) {
	var config struct {
		Mode string `json:"mode"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return "", err
	}
	if config.Mode == "" { // kube-proxy's default on Linux
		return "iptables", nil
	}
	return config.Mode, nil
}
