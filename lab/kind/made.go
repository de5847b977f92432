package kind

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"proxylab/lab"
)

// removeMade removes what runs that were killed left in the cluster: all objects with lab.MadeLabel, of whatever kind.
func (c *api) removeMade(ctx context.Context) error {
	lists, err := c.Discovery().ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return fmt.Errorf("kinds of objects in the cluster: %w", err)
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists)
	var errs []error
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, r := range list.APIResources {
			errs = append(errs, c.removeMadeOf(ctx, gv.WithResource(r.Name)))
		}
	}
	return errors.Join(errs...)
}

func (c *api) removeMadeOf(ctx context.Context, resource schema.GroupVersionResource) error {
	list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: lab.MadeLabel})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil // it has gone meanwhile
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	var errs []error
	background := metav1.DeletePropagationBackground
	for _, o := range list.Items {
		err := c.dynamic.Resource(resource).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete %s %s: %w", resource.Resource, o.GetName(), err))
		}
	}
	return errors.Join(errs...)
}
