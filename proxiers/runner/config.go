package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Defaults of Config, which are kube-proxy's.
const (
	DefaultMinSyncPeriod  = time.Second
	DefaultSyncPeriod     = 30 * time.Second
	DefaultFullSyncPeriod = time.Hour
	DefaultMetrics        = "127.0.0.1:10249"
	DefaultHealthz        = "0.0.0.0:10256"
)

// None as an address of Config turns that server off.
const None = "none"

// Config is what Run needs. Proxier, Node and Client are required.
type Config struct {
	Proxier Proxier
	// Name is the proxier's, for the reports: "iptables", "ipvs", ...
	Name string
	// Mode is the rule family, for /proxyMode: "iptables", "userspace", ...
	Mode   string
	Node   string // name of this node's Node object
	Client kubernetes.Interface

	// MinSyncPeriod is the least time between the end of a pass and the start of the next; a change that comes after
	// a longer pause is synced at once. 0: DefaultMinSyncPeriod; negative: no limit.
	MinSyncPeriod time.Duration
	// SyncPeriod is how often the node is looked at without a reason (see Checker), and the longest pause before a
	// failed pass is repeated. 0: DefaultSyncPeriod.
	SyncPeriod time.Duration
	// FullSyncPeriod is the most time between two full passes, for proxiers that are Checkers. 0: DefaultFullSyncPeriod.
	FullSyncPeriod time.Duration
	// NoPodCIDRs: do not wait for the Node object to have pod CIDRs, for clusters where it never does.
	NoPodCIDRs bool
	// FirstSynced, if not nil, is called once, after the first full pass that succeeded and before the next.
	FirstSynced func(ctx context.Context)

	Clock   clock.Clock // nil: the real one
	Reports io.Writer   // one Report as a JSON line per pass; nil: nobody reads them
	// Metrics and Healthz are the addresses of kube-proxy's two servers, "" for the defaults.
	Metrics, Healthz string
	Log              *slog.Logger // nil: slog.Default
}

// complete fills in the defaults. The error tells all mistakes.
func (c *Config) complete() error {
	var errs []error
	if c.Proxier == nil {
		errs = append(errs, errors.New("there is no proxier to run"))
	}
	if c.Node == "" {
		errs = append(errs, errors.New("the name of the node is missing"))
	}
	if c.Client == nil {
		errs = append(errs, errors.New("there is no client of the API"))
	}
	defaultTo(&c.MinSyncPeriod, DefaultMinSyncPeriod)
	defaultTo(&c.SyncPeriod, DefaultSyncPeriod)
	defaultTo(&c.FullSyncPeriod, DefaultFullSyncPeriod)
	c.MinSyncPeriod = max(c.MinSyncPeriod, 0)
	if c.SyncPeriod < 0 || c.FullSyncPeriod < 0 {
		errs = append(errs, fmt.Errorf("a sync period is negative: %v, %v", c.SyncPeriod, c.FullSyncPeriod))
	} else if c.MinSyncPeriod > c.SyncPeriod {
		errs = append(errs, fmt.Errorf("the minimum sync period %v is longer than the sync period %v", c.MinSyncPeriod, c.SyncPeriod))
	}
	defaultTo(&c.Metrics, DefaultMetrics)
	defaultTo(&c.Healthz, DefaultHealthz)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Reports == nil {
		c.Reports = io.Discard
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return errors.Join(errs...)
}

func defaultTo[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
