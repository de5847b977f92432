package nftables

import (
	"context"
	"log/slog"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

func newBulk(log *slog.Logger) (runner.Proxier, error) {
	p, err := New(Options{Log: log})
	if err != nil {
		return nil, err
	}
	return bed.NewBulk(p, 10_000, 4, func() {
		for _, f := range p.families {
			f.valid = false
		}
	}), nil
}

// BenchmarkSync is one endpoint change among 10,000 Services with 4 endpoints each, in a real kernel. "first" is the
// first pass, "rewrite" one that does not trust the table, "verify" a periodic full pass that finds nothing wrong. CPU is that
// of the process tree.
func BenchmarkSync(b *testing.B) {
	ctx := context.Background()
	p := bed.New(b, bed.Pods(0, 0)).Proxier("bulk")
	sync := func(s services.Snapshot) runner.SyncReport {
		r, err := p.Sync(ctx, s)
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	first := sync(services.Snapshot{Full: true})
	rewrite := sync(services.Snapshot{Full: true, Changed: map[services.Key]struct{}{{}: {}}})
	verify := sync(services.Snapshot{Full: true})
	var cpu, kernel int
	for b.Loop() {
		r := sync(services.Snapshot{})
		cpu, kernel = cpu+r.Objects["cpu"], kernel+r.Objects["kernel"]
	}
	ms := func(us, n int) float64 { return float64(us) / 1000 / float64(n) }
	b.ReportMetric(ms(cpu, b.N), "cpu-ms/op")
	b.ReportMetric(ms(kernel, b.N), "kernel-ms/op")
	for name, r := range map[string]runner.SyncReport{"first": first, "rewrite": rewrite, "verify": verify} {
		b.ReportMetric(ms(r.Objects["microseconds"], 1), name+"-ms")
		b.ReportMetric(ms(r.Objects["cpu"], 1), name+"-cpu-ms")
	}
	b.ReportMetric(float64(first.Objects["rules"]), "rules")
	b.ReportMetric(float64(first.Objects["chains"]), "chains")
	b.ReportMetric(float64(first.Objects["elements"]), "elements")
	b.ReportMetric(float64(rewrite.Objects["rss"])/1024, "peak-MiB")
}
