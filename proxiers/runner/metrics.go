package runner

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"proxylab/proxiers/services"
)

// bothFamilies is the value of ip_family of what one pass does for both families together; kube-proxy has a loop for each.
const bothFamilies = "dual"

// metrics are kube-proxy's, by its names, as far as they apply.
type metrics struct {
	mode     string
	registry *prometheus.Registry

	seconds, fullSeconds, partialSeconds, programming *prometheus.HistogramVec
	lastSynced, lastQueued                            prometheus.Gauge
	rules                                             *prometheus.GaugeVec
	objects                                           *prometheus.GaugeVec
	failures, lost, staleFlows                        prometheus.Counter
	healthz, livez                                    *prometheus.CounterVec
}

func newMetrics(mode string, tracker *services.Tracker) *metrics {
	m := &metrics{mode: mode, registry: prometheus.NewRegistry()}
	byFamily := []string{"ip_family"}
	passes := prometheus.ExponentialBuckets(0.001, 2, 15)
	m.seconds = m.histogram("sync_proxy_rules_duration_seconds", "Duration of a pass, full or partial", passes)
	m.fullSeconds = m.histogram("sync_full_proxy_rules_duration_seconds", "Duration of a full pass", passes)
	m.partialSeconds = m.histogram("sync_partial_proxy_rules_duration_seconds", "Duration of a partial pass", passes)
	m.programming = m.histogram("network_programming_duration_seconds",
		"From the cause of an endpoint change, as the EndpointSlice controller noted it, to its rules", programmingBuckets())
	m.lastSynced = m.gauge("sync_proxy_rules_last_timestamp_seconds", "When a pass last succeeded", byFamily).WithLabelValues(bothFamilies)
	m.lastQueued = m.gauge("sync_proxy_rules_last_queued_timestamp_seconds", "When a pass was last asked for", byFamily).WithLabelValues(bothFamilies)
	m.rules = m.gauge("sync_proxy_rules_iptables_total", "iptables rules of this proxier", []string{"table", "ip_family"})
	m.healthz = m.counter("kubeproxy_proxy_healthz_total", "Answers of /healthz", "code")
	m.livez = m.counter("kubeproxy_proxy_livez_total", "Answers of /livez", "code")
	// What kube-proxy has no name for.
	m.objects = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "proxylab_proxier_objects", Help: "What the kernel holds for this proxier"}, []string{"kind"})
	m.failures = m.counter("proxylab_proxier_sync_failures_total", "Passes that failed").WithLabelValues()
	m.lost = m.counter("proxylab_proxier_rules_lost_total", "Times that rules were found removed by somebody else").WithLabelValues()
	m.staleFlows = m.counter("proxylab_proxier_stale_flows_total", "UDP flows removed because their endpoint was gone").WithLabelValues()
	m.registry.MustRegister(m.objects, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.trackerMetrics(tracker)
	return m
}

func (m *metrics) trackerMetrics(tracker *services.Tracker) {
	gauge := func(name, help string, read func(services.Stats) int) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Subsystem: "kubeproxy", Name: name, Help: help},
			func() float64 { return float64(read(tracker.Stats())) }))
	}
	counter := func(name, help string, read func(services.Stats) int) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Subsystem: "kubeproxy", Name: name, Help: help},
			func() float64 { return float64(read(tracker.Stats())) }))
	}
	gauge("sync_proxy_rules_endpoint_changes_pending", "Endpoint changes not yet synced",
		func(s services.Stats) int { return s.EndpointChangesPending })
	counter("sync_proxy_rules_endpoint_changes_total", "Endpoint changes seen",
		func(s services.Stats) int { return s.EndpointChangesTotal })
	gauge("sync_proxy_rules_service_changes_pending", "Service changes not yet synced",
		func(s services.Stats) int { return s.ServiceChangesPending })
	counter("sync_proxy_rules_service_changes_total", "Service changes seen",
		func(s services.Stats) int { return s.ServiceChangesTotal })
}

func (m *metrics) histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubeproxy", Name: name, Help: help, Buckets: buckets}, []string{"ip_family"})
	m.registry.MustRegister(h)
	return h
}

func (m *metrics) gauge(name, help string, labels []string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "kubeproxy", Name: name, Help: help}, labels)
	m.registry.MustRegister(g)
	return g
}

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

// programmingBuckets are kube-proxy's: a quarter of a second to five minutes, in seconds.
func programmingBuckets() []float64 {
	buckets := prometheus.LinearBuckets(0.25, 0.25, 2)
	buckets = append(buckets, prometheus.LinearBuckets(1, 1, 59)...)
	buckets = append(buckets, prometheus.LinearBuckets(60, 5, 12)...)
	return append(buckets, prometheus.LinearBuckets(120, 30, 7)...)
}

// pass records what one pass did.
func (m *metrics) pass(did SyncReport, took time.Duration, err error) {
	m.seconds.WithLabelValues(bothFamilies).Observe(took.Seconds())
	if did.Full {
		m.fullSeconds.WithLabelValues(bothFamilies).Observe(took.Seconds())
	} else {
		m.partialSeconds.WithLabelValues(bothFamilies).Observe(took.Seconds())
	}
	if err != nil {
		m.failures.Inc()
	}
	m.staleFlows.Add(float64(did.StaleFlows))
	for kind, n := range did.Objects {
		m.objects.WithLabelValues(kind).Set(float64(n))
	}
	if n, ok := did.Objects["rules"]; ok && m.mode == "iptables" {
		m.rules.WithLabelValues("all", bothFamilies).Set(float64(n))
	}
}

// programmed records how long an endpoint change took from its cause.
func (m *metrics) programmed(f services.Family, took time.Duration) {
	m.programming.WithLabelValues(string(f)).Observe(took.Seconds())
}

// answered counts the answers of the health server.
func (m *metrics) answered(endpoint string, code int) {
	vec := m.healthz
	if endpoint == "livez" {
		vec = m.livez
	}
	vec.WithLabelValues(strconv.Itoa(code)).Inc()
}

// handler serves /metrics, /proxyMode and a plain /healthz, as kube-proxy's metrics server does.
func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		fmt.Fprint(w, m.mode)
	})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	return mux
}
