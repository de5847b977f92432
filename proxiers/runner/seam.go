// Package runner holds the seam that every native proxier implements, and the loop they share: informers, change
// tracking, sync periods, retries, metrics and health.
package runner

import (
	"context"
	"time"

	"proxylab/proxiers/services"
)

// Proxier makes one node's kernel match a snapshot.
//
// Sync is called by one goroutine at a time. When it returns an error, the runner keeps the changes and calls again,
// with Full set, after a back-off; Sync must therefore be safe to repeat. Cleanup removes everything of this mode from
// the node, also what another version or a crash left, and nothing that is not its own.
type Proxier interface {
	Sync(ctx context.Context, want services.Snapshot) (SyncReport, error)
	Cleanup(ctx context.Context) error
}

// SyncReport says what one Sync did.
type SyncReport struct {
	Full    bool           // the kernel state was written whole
	Objects map[string]int // what the kernel now holds, by the field's names: "rules", "chains", "sets", "services", "destinations"
	// Stale are the UDP flows (conntrack entries) that this pass removed because their endpoint is gone.
	StaleFlows int
}

// Report is the JSON line that a proxier process writes on its standard output after each sync, native and upstream
// alike. It is the same for both so that they are measured alike.
type Report struct {
	Time       time.Time      `json:"time"`              // when the sync ended
	Full       bool           `json:"full"`              //
	Seconds    float64        `json:"seconds"`           // how long it took
	CPUSeconds float64        `json:"cpuSeconds"`        // user+system time of the process and its waited-for children since the previous Report (or start)
	Error      string         `json:"error,omitempty"`   //
	Objects    map[string]int `json:"objects,omitempty"` //
	Backend    string         `json:"backend,omitempty"` // "legacy" or "nft", for iptables
	// Proxier is the one in effect, by its own word: not what was asked for where a fallback runs in its place. Empty:
	// it did not say.
	Proxier string `json:"proxier,omitempty"`
}

// Checker is implemented by proxiers that can tell cheaply whether what they wrote is still there. The runner asks once
// per sync period, and calls Sync with Full set when somebody else has removed it. Proxiers without it get a full pass
// every sync period instead.
type Checker interface {
	Intact(ctx context.Context) (bool, error)
}

// Backender is implemented by proxiers whose rules go through one of several back ends; its name is part of each Report.
type Backender interface {
	Backend() string
}
