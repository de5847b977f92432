package kubeproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sys/unix"
	"k8s.io/kubernetes/pkg/proxy/metrics"

	"proxylab/proxiers/runner"
)

// pollInterval bounds how late a report can be written; its figures are kube-proxy's own. One look costs a few
// microseconds: nine metrics are read one by one, nothing is gathered.
const pollInterval = 50 * time.Millisecond

var families = []string{"IPv4", "IPv6"} // values of kube-proxy's label ip_family

// watchSyncs writes a report for every sync that the metrics of kube-proxy, in this process, show, until ctx is done.
func watchSyncs(ctx context.Context, o Options, backend string, cpuAtStart float64) error {
	if o.Reports == nil {
		return nil
	}
	m := newMerger(time.Now(), cpuAtStart, backend, servedFamilies()...)
	out := json.NewEncoder(o.Reports)
	effect := &modeInEffect{}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return write(ctx, out, effect, m.flush())
		case <-ticker.C:
		}
		if err := write(ctx, out, effect, m.observe(observe(o.Mode))); err != nil {
			return err
		}
	}
}

// servedFamilies are those that kube-proxy serves where it can: both, if the kernel has IPv6.
func servedFamilies() []string {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		return families[:1]
	}
	return families
}

func write(ctx context.Context, out *json.Encoder, effect *modeInEffect, reports []runner.Report) error {
	for _, r := range reports {
		r.Proxier = effect.proxier(ctx)
		if err := out.Encode(r); err != nil {
			return fmt.Errorf("write a report: %w", err)
		}
	}
	return nil
}

func observe(mode string) observation {
	now := observation{Families: map[string]reading{}}
	rules := 0.0
	for _, family := range families {
		now.Families[family] = readFamily(mode, family)
		for _, table := range []string{"nat", "filter"} {
			rules += gauge(metrics.IPTablesRulesTotal.WithLabelValues(table, family))
		}
	}
	if mode == "iptables" { // the one mode that counts what it has written
		now.Objects = map[string]int{"rules": int(rules)}
	}
	now.CPU = cpuSeconds()
	now.At = time.Now()
	return now
}

func readFamily(mode, family string) reading {
	r := reading{}
	// Counts are read before the time of the last success, which kube-proxy sets first.
	r.Syncs, r.Seconds = histogram(metrics.SyncProxyRulesLatency.WithLabelValues(family))
	r.Full, _ = histogram(metrics.SyncFullProxyRulesLatency.WithLabelValues(family))
	if mode == "ipvs" {
		r.Full = r.Syncs // it has no other kind
	}
	r.Failures = counter(metrics.IPTablesRestoreFailuresTotal.WithLabelValues(family)) +
		counter(metrics.NFTablesSyncFailuresTotal.WithLabelValues(family))
	r.LastOK = gauge(metrics.SyncProxyRulesLastTimestamp.WithLabelValues(family))
	r.Queued = gauge(metrics.SyncProxyRulesLastQueuedTimestamp.WithLabelValues(family))
	return r
}

// metric is what single metrics of the Prometheus library can do. Those that kube-proxy has not registered cannot.
type metric interface{ Write(*dto.Metric) error }

func value(m any) *dto.Metric {
	to := &dto.Metric{}
	if readable, ok := m.(metric); ok && readable.Write(to) == nil {
		return to
	}
	return &dto.Metric{}
}

func histogram(m any) (count uint64, sum float64) {
	h := value(m).GetHistogram()
	return h.GetSampleCount(), h.GetSampleSum()
}

func counter(m any) float64 { return value(m).GetCounter().GetValue() }

func gauge(m any) float64 { return value(m).GetGauge().GetValue() }

// cpuSeconds is the user and system time of this process and of its ended, waited-for children.
func cpuSeconds() float64 {
	total := 0.0
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		}
	}
	return total
}
