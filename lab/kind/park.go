package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"proxylab/lab"
	"proxylab/lab/procs"
)

// original is the kube-proxy that the cluster came with.
type original struct {
	Mode string `json:"mode,omitempty"` // empty: it came without one
}

// parkedOn is a label that no node has.
const parkedOn = "proxylab.io/parked"

// park takes the cluster's own kube-proxy off the nodes, which are the lab's from then on, and removes its rules.
func (m *making) park(ctx context.Context) error {
	c, err := m.api()
	if err != nil {
		return err
	}
	if m.state.Parked == nil {
		mode, err := c.originalMode(ctx)
		if err != nil {
			return err
		}
		m.state.Parked = &original{Mode: mode}
		if err := m.state.save(); err != nil { // before: whoever is killed in between still brings it back
			return err
		}
	}
	if m.state.Parked.Mode == "" {
		return nil
	}
	was, err := c.selectParked(ctx, "true")
	if err != nil || was {
		return err
	}
	return m.onEach(ctx, func(ctx context.Context, n container) error {
		left, err := m.CleanupProxier(ctx, n.Name, lab.ProxierSpec{Name: upstreamPrefix + m.state.Parked.Mode})
		for _, line := range left {
			m.log.Warn("left behind by the cluster's kube-proxy", "node", n.Name, "what", line)
		}
		return err
	})
}

// originalMode is the mode of the cluster's own kube-proxy; empty: there is none.
func (c *api) originalMode(ctx context.Context) (string, error) {
	config, err := c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, kubeProxy, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return modeOf(config.Data[configKey])
}

// selectParked parks the DaemonSet ("true") or lets it go (""), and returns when its pods are gone or there; was says that
// it was so before.
func (c *api) selectParked(ctx context.Context, value string) (was bool, err error) {
	sets := c.AppsV1().DaemonSets(metav1.NamespaceSystem)
	set, err := sets.Get(ctx, kubeProxy, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	if set.Spec.Template.Spec.NodeSelector[parkedOn] == value {
		was = true
	}
	var wanted any
	if value != "" {
		wanted = value
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"nodeSelector": map[string]any{parkedOn: wanted}}}}})
	if err != nil {
		return was, err
	}
	if _, err := sets.Patch(ctx, kubeProxy, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: lab.Manager}); err != nil {
		return was, fmt.Errorf("park kube-proxy: %w", err)
	}
	for {
		pods, err := c.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
			LabelSelector: labels.SelectorFromSet(set.Spec.Selector.MatchLabels).String()})
		if err == nil && (value == "") == (len(pods.Items) > 0) {
			return was, nil
		}
		if cause := procs.Sleep(ctx, 100*time.Millisecond); cause != nil {
			return was, errors.Join(cause, err)
		}
	}
}

// restore leaves an adopted cluster as it was found.
func (l *Lab) restore(ctx context.Context, s state) error {
	if _, err := os.Stat(l.Kubeconfig()); err != nil {
		return nil //nolint:nilerr // it was never touched
	}
	nodes, err := l.nodes(ctx)
	if err != nil {
		if all, listErr := l.docker.nodes(ctx, l.Name()); listErr == nil && len(all) == 0 {
			return nil // somebody deleted the cluster
		}
		return fmt.Errorf("the cluster was there before the lab, and is to be left as it was: %w", err)
	}
	c, err := l.api()
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes {
		errs = append(errs, l.leave(ctx, n), c.label(ctx, n.Name, lab.NodeLabel, nil))
	}
	errs = append(errs, c.removeObjects(ctx), c.removeMade(ctx))
	if s.Parked != nil && s.Parked.Mode != "" {
		_, err := c.selectParked(ctx, "")
		errs = append(errs, err)
	}
	for _, name := range s.Untaint {
		node, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			err = c.setTaints(ctx, name, append(node.Spec.Taints, corev1.Taint{Key: controlPlaneTaint, Effect: corev1.TaintEffectNoSchedule}))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// leave removes the lab from a node.
func (l *Lab) leave(ctx context.Context, n container) error {
	if _, err := os.Stat(n.root(nodeBinary)); err != nil {
		return nil //nolint:nilerr // it was never equipped
	}
	is, err := l.Proxier(ctx, n.Name)
	if err != nil {
		return err
	}
	if err := l.StopProxier(ctx, n.Name); err != nil {
		return err
	}
	if is != nil {
		if _, err := l.CleanupProxier(ctx, n.Name, is.ProxierSpec); err != nil {
			return err
		}
	}
	if err := l.command(ctx, n.Name, "nft", "delete", "table", "inet", fenceTable); err != nil {
		l.log.Warn("a table stays on the node", "node", n.Name, "table", fenceTable, "error", err)
	}
	own := slices.Sorted(maps.Keys(podImages))
	if err := l.command(ctx, n.Name, append([]string{"sh", "-c", forgetImages, "sh"}, own...)...); err != nil {
		l.log.Warn("images stay on the node", "node", n.Name, "error", err)
	}
	return os.RemoveAll(n.root(nodeDir))
}

// removeObjects removes what the lab made in the cluster.
func (c *api) removeObjects(ctx context.Context) error {
	ours := metav1.ListOptions{LabelSelector: podLabel}
	background := metav1.DeletePropagationBackground
	errs := []error{
		c.AppsV1().DaemonSets(metav1.NamespaceSystem).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, ours),
		c.CoreV1().ConfigMaps(metav1.NamespaceSystem).DeleteCollection(ctx, metav1.DeleteOptions{}, ours),
	}
	admission := c.AdmissionregistrationV1()
	for _, err := range []error{
		admission.MutatingAdmissionPolicyBindings().Delete(ctx, policyName, metav1.DeleteOptions{}),
		admission.MutatingAdmissionPolicies().Delete(ctx, policyName, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// forgetImages is a script that removes the images of its arguments by all the names that containerd knows them by:
// importing gives each some more than its own.
const forgetImages = `for image; do
	digest=$(ctr -n k8s.io images ls name=="$image" | awk 'NR == 2 {print $3}')
	[ -z "$digest" ] || ctr -n k8s.io images rm $(ctr -n k8s.io images ls -q target.digest=="$digest") || exit
done`
