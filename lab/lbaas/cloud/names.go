package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Names and tags are those of the community's provider, so that tools and people that know it find their way.
const (
	namePrefix    = "kube_service_"
	clusterPrefix = "kube_cluster_"
	floatingFor   = "Floating IP for Kubernetes external service "
	// longest leaves room for "listener_NNNNN_" before a balancer's name: Octavia takes 255 characters.
	longest = 240
)

// balancerName is the name of a Service's balancer, and the tag by which a Service owns a part of one. Names that are too
// long keep their beginning and stay different.
func balancerName(cluster string, svc *corev1.Service) string {
	name := clusterNames(cluster) + svc.Namespace + "_" + svc.Name
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "_" + hex.EncodeToString(sum[:8])
	return name[:longest-len(hash)] + hash
}

// clusterNames is how the names of all balancers of a cluster begin, if its own name is not too long.
func clusterNames(cluster string) string { return namePrefix + cluster + "_" }

func description(cluster string, svc *corev1.Service) string {
	return fmt.Sprintf("Kubernetes external service %s/%s from cluster %s", svc.Namespace, svc.Name, cluster)
}

func floatingDescription(cluster string, svc *corev1.Service) string {
	return fmt.Sprintf("%s%s/%s from cluster %s", floatingFor, svc.Namespace, svc.Name, cluster)
}

// partName is the name of the i-th listener, pool or monitor of a Service.
func partName(kind string, i int, base string) string { return fmt.Sprintf("%s_%d_%s", kind, i, base) }

// isPartOf tells whether a name was made by partName for this Service. A number that has changed since, because a port
// went before, does not matter.
func isPartOf(name, kind, base string) bool {
	rest, ok := strings.CutPrefix(name, kind+"_")
	if !ok {
		return false
	}
	number, rest, ok := strings.Cut(rest, "_")
	return ok && rest == base && number != "" && strings.Trim(number, "0123456789") == ""
}

// sharers are the Services, as tags, that a balancer serves.
func sharers(tags []string) []string {
	var all []string
	for _, t := range tags {
		if strings.HasPrefix(t, namePrefix) {
			all = append(all, t)
		}
	}
	return all
}

// foreignCluster is the other cluster that a balancer belongs to; "": none that is known.
func foreignCluster(tags []string, clusterID string) string {
	for _, t := range tags {
		if id, ok := strings.CutPrefix(t, clusterPrefix); ok && id != clusterID {
			return id
		}
	}
	return ""
}
