// Package fabric makes the network of an embedded lab out of network namespaces of this machine: a fabric that joins
// the nodes and holds the outside client, nodes, and pods behind them, dual stack from the start.
//
//	proxylab-<lab>-fabric   bridge br0, 10.10.0.1/24 and fd00:10:10::1/64
//	proxylab-<lab>-<node>   eth0, 10.10.0.<10+i>/24; routes pods, no bridge of its own
//	proxylab-<lab>-lb1      eth0, 10.10.0.251/24; an instance of the load balancers, whose VIPs are of 10.10.1.0/24
//	proxylab-<lab>-pod-...  eth0, one address of each family out of the node's ranges
//
// The host's own namespace gets no link, address, route or rule at any moment: both ends of every veth pair are born
// in the namespaces they belong to. Everything here can be repeated, and removed by the lab's name alone.
package fabric

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	namesDir   = "/run/netns" // where iproute2 looks for named namespaces
	namePrefix = "proxylab-"
	podInfix   = "-pod-"

	maxLabName = 40
	maxPodName = 120 // of the namespace of a pod, in all
)

var (
	labName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	rest    = regexp.MustCompile(`^(fabric|node[1-9][0-9]*|lb[1-9])$`)
)

// ValidName says what is wrong with a lab's name: it must be a DNS label of at most 40 characters, and none whose
// namespaces could be taken for those of another lab's pods.
func ValidName(lab string) error {
	switch {
	case !labName.MatchString(lab):
		return fmt.Errorf("lab name %q: want lower-case letters, digits and dashes, a letter or digit at both ends", lab)
	case len(lab) > maxLabName:
		return fmt.Errorf("lab name %q: longer than %d characters", lab, maxLabName)
	case strings.Contains("-"+lab+"-", podInfix):
		return fmt.Errorf(`lab name %q: "pod" may not be one of its words`, lab)
	}
	return nil
}

// Path is the file of the fabric's network namespace, where the outside client lives.
func Path(lab string) string { return filepath.Join(namesDir, namePrefix+lab+"-fabric") }

// NodePath is the file of a node's network namespace.
func NodePath(lab, node string) string { return filepath.Join(namesDir, namePrefix+lab+"-"+node) }

// PodPath is the file of a pod's network namespace. Names that are too long or could mean two pods end in a hash.
func PodPath(lab, namespace, pod string) string {
	prefix := namePrefix + lab + podInfix
	name := prefix + namespace + "-" + pod
	if len(name) > maxPodName || strings.Contains(namespace, "-") {
		sum := sha256.Sum256([]byte(namespace + "/" + pod))
		hash := "-" + hex.EncodeToString(sum[:5])
		name = name[:min(len(name), maxPodName-len(hash))] + hash
	}
	return filepath.Join(namesDir, name)
}

// owner is the lab that a named namespace belongs to, "" where it is none of ours, and whether it is a pod's.
func owner(name string) (lab string, pod bool) {
	after, ours := strings.CutPrefix(name, namePrefix)
	if !ours {
		return "", false
	}
	if lab, _, pod = strings.Cut(after, podInfix); pod && ValidName(lab) == nil {
		return lab, true
	}
	i := strings.LastIndexByte(after, '-')
	if i < 0 || !rest.MatchString(after[i+1:]) || ValidName(after[:i]) != nil {
		return "", false
	}
	return after[:i], false
}

// errNotOurs keeps a mistake in a caller from removing what another program made.
var errNotOurs = errors.New("not a namespace of a lab")
