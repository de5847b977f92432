package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/lab"
	"proxylab/lab/labdir"
	"proxylab/lab/procs"
	"proxylab/lab/proxierproc"
)

// upstream starts the cluster's kube-proxy on a node, by the node's label, and whoever reads what it measures of itself.
func (s *starting) upstream(ctx context.Context) error {
	if b := s.spec.Backend; b != "" && b != "auto" {
		return fmt.Errorf("iptables back end %s: in kube-proxy's own image that choice is the image's; --iptables auto leaves it so", b)
	}
	c, err := s.api()
	if err != nil {
		return err
	}
	name, err := c.ensureUpstream(ctx, s.Lab.Name(), s.name, s.spec)
	if err != nil {
		return err
	}
	if p, err := procs.Root(s.Lab.Name(), proxierPart(s.node.Name)); err != nil {
		return err
	} else if p == nil { // one that has died would be started again only after the kubelet's back-off
		if err := c.deletePods(ctx, s.node.Name, name); err != nil {
			return err
		}
	}
	if err := c.label(ctx, s.node.Name, nodeLabel, &name); err != nil {
		return err
	}
	pid, err := s.awaitKubeProxy(ctx, c, name)
	if err != nil {
		return err
	}
	if err := s.follow(pid); err != nil {
		return err
	}
	return s.awaitSync(ctx, pid, func() string { return proxierproc.Tail(containerLog(s.node)) })
}

// awaitKubeProxy returns kube-proxy's process on the node once it runs.
func (s *starting) awaitKubeProxy(ctx context.Context, c *api, name string) (pid int, err error) {
	var looked time.Time
	for {
		p, err := procs.Root(s.Lab.Name(), proxierPart(s.node.Name))
		if err != nil {
			return 0, err
		}
		// What its image runs first, to choose an iptables, has the mark as well.
		if p != nil && runsKubeProxy(p.PID) {
			stays, err := c.ofPresentPod(ctx, p.PID, s.node.Name, name)
			if stays || err != nil {
				return p.PID, err
			}
		}
		if time.Since(looked) > 500*time.Millisecond {
			looked = time.Now()
			if err := c.failed(ctx, s.node, name); err != nil {
				return 0, err
			}
		}
		if err := procs.Sleep(ctx, 50*time.Millisecond); err != nil {
			return 0, fmt.Errorf("kube-proxy does not run: %w", err)
		}
	}
}

// ofPresentPod says whether a kube-proxy is that of a pod which the API has: one that was killed is started again by the
// kubelet for as long as that has not heard of the end of its pod.
func (c *api) ofPresentPod(ctx context.Context, pid int, node, name string) (bool, error) {
	pods, err := c.upstreamPods(ctx, node, name)
	if err != nil {
		return false, err
	}
	for _, p := range pods {
		if p.DeletionTimestamp == nil && inCgroup(filepath.Join("/proc", strconv.Itoa(pid)), string(p.UID)) {
			return true, nil
		}
	}
	return false, nil
}

// hopeless are reasons of a container to wait that do not pass by themselves.
var hopeless = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError"}

// failed says why the pod of a node does not come up, if it is known that it does not.
func (c *api) failed(ctx context.Context, n container, name string) error {
	pods, err := c.upstreamPods(ctx, n.Name, name)
	if err != nil {
		return nil //nolint:nilerr // the next look may tell
	}
	for _, p := range pods {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated != nil && p.DeletionTimestamp == nil || s.RestartCount > 0 {
				return fmt.Errorf("kube-proxy ended, its log says:\n%s", proxierproc.Tail(containerLog(n)))
			}
			if w := s.State.Waiting; w != nil && slices.Contains(hopeless, w.Reason) {
				return fmt.Errorf("pod %s: %s: %s", p.Name, w.Reason, w.Message)
			}
		}
	}
	return nil
}

// follow starts whoever turns the metrics of a kube-proxy into reports like those of a native proxier. It runs in the node's
// network, where those are served, and outside its control groups.
func (s *starting) follow(pid int) error {
	reports, err := os.OpenFile(s.node.root(nodeReports), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { _ = reports.Close() }()
	log, err := labdir.OpenLog(labdir.Log(s.Lab.Name(), "reports-"+s.node.Name))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(s.opts.Executable, "kube-proxy-reports", "--pid", strconv.Itoa(pid), "--mode", strings.TrimPrefix(s.name, upstreamPrefix))
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", reports, log
	err = procs.Start(procs.Spec{Lab: s.Lab.Name(), Part: reportsPart(s.node.Name), Cmd: cmd, NetNS: s.node.ns("net"), Detached: true})
	if err == nil {
		go func() { _ = cmd.Wait() }() // it ends with kube-proxy
	}
	return err
}

// stopUpstream has no kube-proxy on a node any more.
func (l *Lab) stopUpstream(ctx context.Context, n container) error {
	c, err := l.api()
	if err != nil {
		return err
	}
	node, err := c.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if _, labelled := node.Labels[nodeLabel]; !labelled {
		return nil
	}
	if err := c.label(ctx, n.Name, nodeLabel, nil); err != nil {
		return err
	}
	for {
		pods, err := c.upstreamPods(ctx, n.Name, "")
		if err == nil && len(pods) == 0 {
			p, findErr := procs.Root(l.Name(), proxierPart(n.Name))
			if findErr != nil || p == nil || !runsKubeProxy(p.PID) {
				return findErr
			}
		}
		if cause := procs.Sleep(ctx, 20*time.Millisecond); cause != nil {
			return errors.Join(fmt.Errorf("%d pods of kube-proxy are left: %w", len(pods), cause), err)
		}
	}
}

// upstreamPods are those of a node that run kube-proxy for a lab; by the DaemonSet of that name, or by any.
func (c *api) upstreamPods(ctx context.Context, node, name string) ([]corev1.Pod, error) {
	selector := podLabel
	if name != "" {
		selector += "=" + name
	}
	list, err := c.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
		LabelSelector: selector, FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (c *api) deletePods(ctx context.Context, node, name string) error {
	pods, err := c.upstreamPods(ctx, node, name)
	if err != nil {
		return err
	}
	now := int64(0)
	for _, p := range pods {
		err := c.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// runsKubeProxy says whether a process is the real kube-proxy and not this program.
func runsKubeProxy(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	name, _, _ := strings.Cut(string(b), "\x00")
	return err == nil && filepath.Base(name) == "kube-proxy"
}

// containerLog is the newest log of kube-proxy on a node; empty: there is none.
func containerLog(n container) string {
	paths, _ := filepath.Glob(n.root("/var/log/pods/kube-system_" + upstreamName + "-*/" + kubeProxy + "/*.log")) // the pattern is well formed
	newest, when := "", time.Time{}
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && info.ModTime().After(when) {
			newest, when = p, info.ModTime()
		}
	}
	return newest
}

// ensureUpstream has the configuration and the DaemonSet of a mode in the cluster, and returns their name.
func (c *api) ensureUpstream(ctx context.Context, labName, proxier string, spec lab.ProxierSpec) (string, error) {
	daemonSet, err := c.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, kubeProxy, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("the cluster has no kube-proxy (kubeProxyMode: none in its configuration?)")
	} else if err != nil {
		return "", err
	}
	config, err := c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, kubeProxy, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	u, err := deriveUpstream(labName, proxier, spec, daemonSet, config)
	if err != nil {
		return "", err
	}
	if _, err := c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, u.config, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	if _, err := c.AppsV1().DaemonSets(metav1.NamespaceSystem).Create(ctx, u.daemonSet, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	return u.daemonSet.Name, nil
}

// derived is what a mode of kube-proxy runs by.
type derived struct {
	config    *corev1.ConfigMap
	daemonSet *appsv1.DaemonSet
}
