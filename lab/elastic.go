package lab

import "context"

// Elastic is a lab whose nodes can be made to come and go, as those of a cloud do.
type Elastic interface {
	// AddNode adds the next node and returns once it is ready. No proxier runs there.
	AddNode(ctx context.Context) (Node, error)
	// RemoveNode takes the last node out of the cluster and off the machine, with its pods and its proxier.
	RemoveNode(ctx context.Context) error
	// KillNode takes a node's power away: its link is down, its agent gives no sign of life, its proxier is killed. The
	// cluster is not told.
	KillNode(ctx context.Context, node string) error
	// ReviveNode gives it back, and returns once the node is ready. No proxier runs there.
	ReviveNode(ctx context.Context, node string) error
}
