// Package manifests writes what runs a native proxier on a cluster that is not one of ours.
package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// DefaultImage is what an image with the proxiers and their tools is called when nobody says otherwise.
const DefaultImage = "docker.io/proxylab/proxier:latest"

// Options say what to run, and how.
type Options struct {
	Proxier       string // of ours
	Image         string // empty: DefaultImage
	Server        string // address of the API that needs no Service; empty: as kube-proxy has it, in kubeadm's ConfigMap
	MinSyncPeriod time.Duration
	SyncPeriod    time.Duration
	Backend       string // of iptables
	Scheduler     string // of IPVS
}

const (
	objectName = "proxylab-proxier"
	configDir  = "/var/lib/kube-proxy"
	configKey  = "kubeconfig.conf" // as in kubeadm's ConfigMap
)

// Proxier is the YAML that runs a native proxier on every node of a cluster: a service account with kube-proxy's rights, and a
// DaemonSet. Its head says how to use it.
func Proxier(o Options) ([]byte, error) {
	if o.Image == "" {
		o.Image = DefaultImage
	}
	objects := []any{account(), binding()}
	config := "kube-proxy"
	if o.Server != "" {
		u, err := url.Parse(o.Server)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("API server %q: want an address such as https://10.0.0.1:6443", o.Server)
		}
		config = objectName
		kubeconfig, err := kubeconfig(o.Server)
		if err != nil {
			return nil, err
		}
		objects = append(objects, kubeconfig)
	}
	var out bytes.Buffer
	out.WriteString(head(o))
	for _, object := range append(objects, daemonSet(o, config)) {
		data, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(withoutStatus(data))
	}
	return out.Bytes(), nil
}

func head(o Options) string {
	text := fmt.Sprintf(`The native proxier %[1]s of proxylab on every node, in kube-proxy's place.

1. The image %[2]s has this program, and the iptables, nft, ipset and conntrack of the machine it was made on. Make it and
   put it where your nodes find it:
     proxylab manifests image proxier.tar --tag %[2]s
     kind load image-archive proxier.tar --name CLUSTER       (or: docker load -i proxier.tar, docker push %[2]s)
2. Take kube-proxy off the nodes; its rules stay and carry traffic until step 3 has taken over:
     kubectl -n kube-system patch daemonset kube-proxy --type merge -p '{"spec":{"template":{"spec":{"nodeSelector":{"proxylab.io/parked":"true"}}}}}'
     kubectl -n kube-system wait --for=delete pod -l k8s-app=kube-proxy
3. Apply this. On each node it removes kube-proxy's rules, of any mode, when its own are there:
     proxylab manifests proxier %[1]s | kubectl apply -f -
4. Back: kubectl delete -f this, and the same patch with null in place of "true". What the proxier's mode left on a node
   goes away with "proxylab proxier %[1]s --cleanup" there, or when the node is started anew.
`, o.Proxier, o.Image)
	if o.Server == "" {
		text += `
The API server's address is read from kube-proxy's ConfigMap, as kubeadm makes it (kind, too). On other clusters give it:
--server https://ADDRESS:6443. It must not be a Service: there is none before the proxier runs.
`
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("# "+strings.TrimSuffix(line, "\n"), " ") + "\n")
	}
	return b.String()
}

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: objectName, Namespace: metav1.NamespaceSystem}
}

func account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta()}
}

// binding gives it the rights that Kubernetes itself defines for kube-proxy
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#core-component-roles).
func binding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: objectName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-proxier"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: objectName, Namespace: metav1.NamespaceSystem}},
	}
}

// kubeconfig is as kubeadm makes it for kube-proxy: with the service account's own token.
func kubeconfig(server string) (*corev1.ConfigMap, error) {
	const secrets = "/var/run/secrets/kubernetes.io/serviceaccount/"
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "default",
		"clusters": []any{map[string]any{"name": "default", "cluster": map[string]any{"server": server, "certificate-authority": secrets + "ca.crt"}}},
		"contexts": []any{map[string]any{"name": "default", "context": map[string]any{"cluster": "default", "user": "default"}}},
		"users":    []any{map[string]any{"name": "default", "user": map[string]any{"tokenFile": secrets + "token"}}},
	})
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta(),
		Data: map[string]string{configKey: string(text)}}, nil
}

func daemonSet(o Options, config string) *appsv1.DaemonSet {
	labels := map[string]string{"app.kubernetes.io/name": objectName, "proxylab.io/native": o.Proxier}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: objectName, Namespace: metav1.NamespaceSystem, Labels: labels},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: objectName,
					HostNetwork:        true, // it is the node's network that it programs
					PriorityClassName:  "system-node-critical",
					NodeSelector:       map[string]string{corev1.LabelOSStable: "linux"},
					Tolerations:        []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers:         []corev1.Container{proxierContainer(o)},
					Volumes: []corev1.Volume{
						{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}}}},
						hostPath("xtables-lock", "/run/xtables.lock", corev1.HostPathFileOrCreate),
						hostPath("modules", "/lib/modules", corev1.HostPathUnset),
						{Name: "run", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					},
				},
			},
		},
	}
}

func hostPath(name, path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

func proxierContainer(o Options) corev1.Container {
	args := []string{"proxier", o.Proxier, "--take-over", "--node=$(NODE_NAME)", "--kubeconfig=" + configDir + "/" + configKey,
		"--min-sync-period=" + o.MinSyncPeriod.String(), "--sync-period=" + o.SyncPeriod.String()}
	if o.Backend != "" {
		args = append(args, "--iptables="+o.Backend)
	}
	if o.Scheduler != "" {
		args = append(args, "--ipvs-scheduler="+o.Scheduler)
	}
	return corev1.Container{
		Name: "proxier", Image: o.Image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args,
		Env:             []corev1.EnvVar{{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
		SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}, // sysctls, and modules where there are any
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: configDir, ReadOnly: true},
			{Name: "run", MountPath: "/run"},
			{Name: "xtables-lock", MountPath: "/run/xtables.lock"}, // one lock for all who write rules on the node
			{Name: "modules", MountPath: "/lib/modules", ReadOnly: true},
		},
	}
}

// withoutStatus drops what only the API server writes.
func withoutStatus(data []byte) []byte {
	i := bytes.Index(data, []byte("\nstatus:"))
	if i < 0 {
		return data
	}
	return data[:i+1] // it is the last field
}

// ErrNotNative refuses a proxier that has a DaemonSet of its own.
var ErrNotNative = errors.New("kube-proxy comes with the cluster, and its mode is in ConfigMap kube-proxy of kube-system")
