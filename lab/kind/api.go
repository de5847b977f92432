package kind

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"proxylab/lab"
)

// api is the cluster's, with all rights.
type api struct {
	kubernetes.Interface
	dynamic dynamic.Interface
}

func (l *Lab) api() (*api, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		return l.client, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of lab %s: %w", l.Name(), err)
	}
	config.QPS, config.Burst = 100, 200
	config.UserAgent = "proxylab-kind"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	l.client = &api{client, objects}
	return l.client, nil
}

func (c *api) setTaints(ctx context.Context, node string, taints []corev1.Taint) error {
	return c.patchNode(ctx, node, map[string]any{"spec": map[string]any{"taints": taints}})
}

// label sets a label of a node; nil removes it.
func (c *api) label(ctx context.Context, node, key string, value *string) error {
	return c.patchNode(ctx, node, map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
}

func (c *api) patchNode(ctx context.Context, node string, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, data, metav1.PatchOptions{FieldManager: lab.Manager})
	if err != nil {
		return fmt.Errorf("patch node %s: %w", node, err)
	}
	return nil
}
