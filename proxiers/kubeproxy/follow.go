package kubeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// FollowOptions say which kube-proxy to follow.
type FollowOptions struct {
	Mode    string
	PID     int       // of kube-proxy; its CPU time is read, and its end is the end
	URL     string    // of its metrics server; empty: kube-proxy's own on this host's loopback
	Reports io.Writer // gets one runner.Report as a JSON line for every sync
}

// How often a kube-proxy that is another process is asked. To gather all its metrics costs it a millisecond or two, which
// counts as its own: until its first sync, for which somebody waits, that is often, and then seldom.
const (
	followAtFirst = 50 * time.Millisecond
	followLater   = 500 * time.Millisecond
)

// Follow writes a report for every sync that a running kube-proxy's metrics show, like those that Run writes, until ctx is
// done or the process has ended.
func Follow(ctx context.Context, o FollowOptions) error {
	if !known(o.Mode) {
		return fmt.Errorf("mode %q: want one of %v", o.Mode, modes)
	}
	if o.URL == "" {
		o.URL = "http://" + metricsAddress
	}
	cpu := cpuOf(o.PID)
	if _, err := cpu(); err != nil {
		return err
	}
	f := &following{FollowOptions: o, cpu: cpu, out: json.NewEncoder(o.Reports), effect: &modeInEffect{url: o.URL + "/proxyMode"},
		client: &http.Client{Transport: &http.Transport{}, Timeout: askLimit}}
	defer f.client.CloseIdleConnections()
	for {
		pause := followLater
		if f.merger == nil || !f.merger.ready {
			pause = followAtFirst
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
			defer cancel()
			_, err := f.look(last)
			return errors.Join(err, f.flush(last))
		case <-time.After(pause):
		}
		alive, err := f.look(ctx)
		if err != nil {
			return err
		}
		if !alive {
			return f.flush(ctx)
		}
	}
}

type following struct {
	FollowOptions
	cpu    func() (float64, error)
	client *http.Client
	out    *json.Encoder
	effect *modeInEffect
	merger *merger // nil: it has not answered yet
}

func (f *following) flush(ctx context.Context) error {
	if f.merger == nil {
		return nil
	}
	return write(ctx, f.out, f.effect, f.merger.flush())
}

// look observes once. alive is false when the process has ended.
func (f *following) look(ctx context.Context) (alive bool, err error) {
	cpu, err := f.cpu()
	if err != nil {
		return false, nil //nolint:nilerr // it has ended
	}
	asked := time.Now() // a sync that ends from now on may be missing in the answer, however late that comes
	metrics, err := f.gather(ctx)
	if err != nil {
		return true, nil //nolint:nilerr // it does not serve yet, or is busy: the next look tells what this one would have
	}
	if f.merger == nil { // it may have synced before anybody looked
		began := unixTime(find(metrics["process_start_time_seconds"]).GetGauge().GetValue())
		f.merger = newMerger(began, 0, "", servedFamilies()...)
	}
	now := observeGathered(f.Mode, metrics)
	now.CPU, now.At = cpu, asked
	return true, write(ctx, f.out, f.effect, f.merger.observe(now))
}

// gather reads all metrics. A response in protobuf would be smaller, and kube-proxy has it not.
func (f *following) gather(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(resp.Body)
}

// observeGathered reads the same figures as observe, out of what was gathered.
func observeGathered(mode string, metrics map[string]*dto.MetricFamily) observation {
	now := observation{Families: map[string]reading{}}
	rules := 0.0
	for _, family := range families {
		get := func(name string, labels ...string) *dto.Metric {
			return find(metrics["kubeproxy_"+name], append(labels, "ip_family", family)...)
		}
		r := reading{}
		r.Syncs, r.Seconds = histogramOf(get("sync_proxy_rules_duration_seconds"))
		r.Full, _ = histogramOf(get("sync_full_proxy_rules_duration_seconds"))
		if mode == "ipvs" {
			r.Full = r.Syncs // it has no other kind
		}
		r.Failures = get("sync_proxy_rules_iptables_restore_failures_total").GetCounter().GetValue() +
			get("sync_proxy_rules_nftables_sync_failures_total").GetCounter().GetValue()
		r.LastOK = get("sync_proxy_rules_last_timestamp_seconds").GetGauge().GetValue()
		r.Queued = get("sync_proxy_rules_last_queued_timestamp_seconds").GetGauge().GetValue()
		now.Families[family] = r
		for _, table := range []string{"nat", "filter"} {
			rules += get("sync_proxy_rules_iptables_total", "table", table).GetGauge().GetValue()
		}
	}
	if mode == "iptables" {
		now.Objects = map[string]int{"rules": int(rules)}
	}
	return now
}

func histogramOf(m *dto.Metric) (count uint64, sum float64) {
	return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
}

// find is the metric of a family with those labels, given as names and values in turn; where there is none, one without a
// value.
func find(family *dto.MetricFamily, labels ...string) *dto.Metric {
	for _, m := range family.GetMetric() {
		matching := 0
		for _, l := range m.GetLabel() {
			for i := 0; i < len(labels); i += 2 {
				if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
					matching++
				}
			}
		}
		if matching == len(labels)/2 {
			return m
		}
	}
	return &dto.Metric{}
}
