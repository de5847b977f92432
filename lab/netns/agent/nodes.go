package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"proxylab/lab"
	"proxylab/lab/netns/fabric"
)

const (
	leaseSeconds = 40
	renewEvery   = leaseSeconds / 4 * time.Second
	// maxPods is what a node takes on, a little less than it has addresses: pods that end keep theirs for a while.
	maxPods = 250
)

// Zone is the value of a node's label topology.kubernetes.io/zone: nodes are in two zones by turns.
func Zone(n fabric.Node) string { return fmt.Sprintf("zone%d", (n.Index-1)%2+1) }

// register makes the Node object what it should be.
func register(ctx context.Context, c kubernetes.Interface, n fabric.Node, version string) (*corev1.Node, error) {
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
			corev1.LabelHostname:       n.Name,
			lab.NodeLabel:              n.Name,
			corev1.LabelTopologyZone:   Zone(n),
			corev1.LabelTopologyRegion: "lab",
			corev1.LabelOSStable:       "linux",
			corev1.LabelArchStable:     runtime.GOARCH,
		}},
		Spec: corev1.NodeSpec{PodCIDR: n.Pods4.String(), PodCIDRs: []string{n.Pods4.String(), n.Pods6.String()}},
		// As a kubelet does: who hears of the node is to know its addresses at once.
		Status: nodeStatus(n, version, time.Now()),
	}
	_, err := c.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("register %s: %w", n.Name, err)
	}
	status, err := json.Marshal(map[string]any{"status": nodeStatus(n, version, time.Now())})
	if err != nil {
		return nil, err
	}
	// Lists are replaced: a strategic patch would add to the two addresses of one type the same two.
	have, err := c.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", n.Name, err)
	}
	return have, untaint(ctx, c, have)
}

// untaint takes from a new node the taint it was born with. The node lifecycle controller would do so as well, later.
func untaint(ctx context.Context, c kubernetes.Interface, n *corev1.Node) error {
	var keep []corev1.Taint
	for _, t := range n.Spec.Taints {
		if t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable {
			keep = append(keep, t)
		}
	}
	if len(keep) == len(n.Spec.Taints) {
		return nil
	}
	p, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"taints": keep},
	})
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, p, metav1.PatchOptions{})
	if apierrors.IsConflict(err) { // the controller was faster
		return nil
	}
	return err
}

func nodeStatus(n fabric.Node, version string, now time.Time) corev1.NodeStatus {
	capacity := corev1.ResourceList{ // as good as endless: nothing in the lab is limited by requests
		corev1.ResourceCPU:    resource.MustParse("1000"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	s := corev1.NodeStatus{
		Capacity:    capacity,
		Allocatable: capacity,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: n.Addr4.Addr().String()},
			{Type: corev1.NodeInternalIP, Address: n.Addr6.Addr().String()},
			{Type: corev1.NodeHostName, Address: n.Name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			KernelVersion: kernelRelease(), OSImage: "proxylab netns lab", ContainerRuntimeVersion: "proxylab://netns",
			KubeletVersion: version, OperatingSystem: "linux", Architecture: runtime.GOARCH,
		},
	}
	for kind, reason := range map[corev1.NodeConditionType]string{
		corev1.NodeReady: "AgentReady", corev1.NodeMemoryPressure: "AgentHasSufficientMemory", corev1.NodeDiskPressure: "AgentHasNoDiskPressure",
		corev1.NodePIDPressure: "AgentHasSufficientPID", corev1.NodeNetworkUnavailable: "FabricIsUp",
	} {
		c := corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: reason,
			LastHeartbeatTime: metav1.Time{Time: now}, LastTransitionTime: metav1.Time{Time: now},
		}
		if kind == corev1.NodeReady {
			c.Status = corev1.ConditionTrue
		}
		s.Conditions = append(s.Conditions, c)
	}
	return s
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	release, _, _ := bytes.Cut(u.Release[:], []byte{0})
	return string(release)
}

// renew renews a node's lease, which is the sign of life that the node lifecycle controller watches.
func renew(ctx context.Context, c kubernetes.Interface, n fabric.Node, uid types.UID) error {
	leases := c.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	seconds, now := int32(leaseSeconds), metav1.NewMicroTime(time.Now())
	spec := coordinationv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	lease, err := leases.Get(ctx, n.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: uid}
		lease = &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Namespace: corev1.NamespaceNodeLease, OwnerReferences: []metav1.OwnerReference{owner}},
			Spec:       spec,
		}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	case err == nil:
		lease.Spec = spec
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("lease of %s: %w", n.Name, err)
	}
	return nil
}
