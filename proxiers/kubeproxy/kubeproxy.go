// Package kubeproxy runs the real kube-proxy, linked in from its module, on the same terms as the native proxiers: it
// is what whatever they claim is compared with.
//
// kube-proxy keeps its metrics, its feature gates and its logging in package variables and never stops once it runs. A
// process can therefore run it once, and ends soon after Run has returned.
//
// # What differs from a native proxier, by kube-proxy's own design
//
// It syncs IPv4 and IPv6 in two independent loops; see the merge of their reports in report.go.
//
// When it starts, it removes what the other modes left before it has written anything of its own: mode nftables removes
// the rules of iptables mode (of the iptables that PATH names) and what ipvs mode left, the modes iptables and ipvs
// remove the tables of nftables mode. Services are unreachable from then on until its first sync is done. That is part
// of what an operator gets who changes the mode, so it is measured and not worked around.
//
// It exits by itself (status 255) when the addresses of its Node object change or, because the lab makes it find local
// traffic by the node's pod CIDR, when that changes.
package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/kubernetes/cmd/kube-proxy/app"
)

// Modes are the modes of kube-proxy that this package runs.
var modes = []string{"iptables", "ipvs", "nftables"}

// Options says what to run. All errors in it are reported together, by Run.
type Options struct {
	Mode       string // "iptables", "ipvs" or "nftables"
	Node       string // name of this node's Node object
	Kubeconfig string // path
	// MinSyncPeriod is the least time between the starts of two syncs, SyncPeriod the most; 0: kube-proxy's own
	// default (1 s and 30 s), because its configuration cannot say 0.
	MinSyncPeriod time.Duration
	SyncPeriod    time.Duration
	// Backend is the iptables that mode iptables and ipvs use: "legacy", "nft", or "" or "auto" for the one that PATH
	// names. Mode nftables has no use for it.
	Backend   string
	Scheduler string    // of mode ipvs; empty: kube-proxy's own
	Verbosity int       // of kube-proxy's log on standard error, 0 to 2
	Reports   io.Writer // gets one runner.Report as a JSON line for every sync; nil: none
	Log       *slog.Logger
	// RunDir is where files for the life of the process go; empty: /run.
	RunDir string
}

func (o *Options) complete() error {
	var errs []error
	if !known(o.Mode) {
		errs = append(errs, fmt.Errorf("mode %q: want one of %s", o.Mode, strings.Join(modes, ", ")))
	}
	if o.Node == "" {
		errs = append(errs, errors.New("the name of the node is missing"))
	}
	if o.Kubeconfig == "" {
		errs = append(errs, errors.New("the path of a kubeconfig is missing"))
	} else if _, err := os.Stat(o.Kubeconfig); err != nil {
		errs = append(errs, fmt.Errorf("kubeconfig: %w", err))
	}
	switch o.Backend {
	case "", "auto", "legacy", "nft":
	default:
		errs = append(errs, fmt.Errorf("iptables back end %q: want legacy, nft or auto", o.Backend))
	}
	if o.MinSyncPeriod < 0 || o.SyncPeriod < 0 {
		errs = append(errs, fmt.Errorf("a sync period is negative: %v, %v", o.MinSyncPeriod, o.SyncPeriod))
	}
	if o.Verbosity < 0 {
		errs = append(errs, fmt.Errorf("verbosity %d is negative", o.Verbosity))
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.RunDir == "" {
		o.RunDir = "/run"
	}
	return errors.Join(errs...)
}

func known(mode string) bool {
	for _, m := range modes {
		if m == mode {
			return true
		}
	}
	return false
}

// Run runs kube-proxy in this process until ctx is done (then it returns nil) or kube-proxy gives up. The goroutines of
// kube-proxy go on after it has returned, so the process must end; a program that kube-proxy is running at that moment
// is awaited first, for up to three seconds.
//
// Run changes PATH of this process when a back end was asked for.
func Run(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("kube-proxy: %w", err)
	}
	start := cpuSeconds()
	backend, removeTools, err := useBackend(ctx, o)
	if err != nil {
		return fmt.Errorf("kube-proxy/%s: %w", o.Mode, err)
	}
	defer removeTools()
	file, err := writeConfig(o)
	if err != nil {
		return fmt.Errorf("kube-proxy/%s: %w", o.Mode, err)
	}
	defer os.RemoveAll(filepath.Dir(file))
	if err := portsFree(healthzAddress, metricsAddress); err != nil {
		return fmt.Errorf("kube-proxy/%s: %w", o.Mode, err)
	}

	ended := make(chan error, 1)
	go func() { ended <- execute(file) }()

	watchCtx, stopWatch := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- watchSyncs(watchCtx, o, backend, start) }()
	err = waitFor(ctx, ended, watched)
	stopWatch()
	if ctx.Err() != nil {
		awaitChildren(3 * time.Second)
		o.Log.Info("kube-proxy stopped", "mode", o.Mode)
		return nil
	}
	return fmt.Errorf("kube-proxy/%s: %w", o.Mode, err)
}

func waitFor(ctx context.Context, ended, watched <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			if err == nil {
				err = errors.New("ended without an error")
			}
			return err
		case err := <-watched:
			if err != nil {
				return err
			}
			watched = nil
		}
	}
}

// execute runs kube-proxy's own command; it does not end before kube-proxy gives up.
func execute(configFile string) error {
	cmd := app.NewProxyCommand()
	cmd.SetArgs([]string{"--config", configFile})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	return cmd.Execute()
}

// portsFree fails when somebody listens on one of the addresses already: kube-proxy would go on without its health
// checks, and they would be answered by a proxier that was to be gone.
func portsFree(addresses ...string) error {
	var errs []error
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: does another proxier run on this node?", err))
			continue
		}
		l.Close()
	}
	return errors.Join(errs...)
}

// awaitChildren returns once this process has no child, so that no half-written batch of rules is cut off.
func awaitChildren(limit time.Duration) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		// WNOWAIT leaves an ended child to kube-proxy, which waits for it.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, unix.ECHILD) {
			return
		}
	}
}
