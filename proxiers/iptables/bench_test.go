package iptables

import (
	"context"
	"log/slog"
	"os/exec"
	"testing"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
)

const bulkServices, bulkEndpoints = 10_000, 4

// sink takes restores and does nothing: what is measured is this proxier's own work.
type sink struct{ bytes int }

func (s *sink) Restore(_ context.Context, input []byte) error         { s.bytes = len(input); return nil }
func (s *sink) Save(context.Context, string, func([]byte) bool) error { return nil }
func (s *sink) EnsureJump(table, chain string, spec ...string) error  { return nil }
func (s *sink) EnsureChain(table, chain string) error                 { return nil }
func sinkFamily() (*family, *sink) {
	s := &sink{}
	return &family{name: services.IPv4, tool: s, log: slog.New(slog.DiscardHandler), now: time.Now, threshold: LargeThreshold,
		base: env{randomFully: true}, sys: sysctls{"/nowhere"}}, s
}

// BenchmarkSyncGenerate is the rule generation alone, 10,000 Services with 4 endpoints each.
func BenchmarkSyncGenerate(b *testing.B) {
	ctx := context.Background()
	b.Run("whole", func(b *testing.B) {
		f, s := sinkFamily()
		want := servicestest.Many(bulkServices, bulkEndpoints)
		b.ReportAllocs()
		for b.Loop() {
			f.mirror.valid = false
			if _, err := f.sync(ctx, want); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(s.bytes), "input-bytes")
	})
	b.Run("one-change", func(b *testing.B) {
		f, s := sinkFamily()
		want := servicestest.Many(bulkServices, bulkEndpoints)
		if _, err := f.sync(ctx, want); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			want = servicestest.ReplaceEndpoint(want, i%bulkServices)
			if _, err := f.sync(ctx, want); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(s.bytes), "input-bytes")
	})
}

func newBulk(backend string, threshold int) bed.Factory {
	return func(log *slog.Logger) (runner.Proxier, error) {
		p, err := New(Options{Backend: backend, Log: log})
		if err != nil {
			return nil, err
		}
		for _, f := range p.families {
			f.threshold = threshold
		}
		return bed.NewBulk(p, bulkServices, bulkEndpoints, nil), nil
	}
}

// BenchmarkSync is one endpoint change among 10,000 Services with 4 endpoints each, in a real kernel. "first" is the
// first pass, "verify" a periodic full pass that finds nothing wrong. CPU is that of the process tree.
func BenchmarkSync(b *testing.B) {
	for _, name := range []string{"legacy", "legacy-kube-proxy-layout", "nft"} {
		b.Run(name, func(b *testing.B) {
			if _, err := exec.LookPath("iptables-nft-restore"); err != nil {
				b.Skip("needs the tools of Debian's package iptables")
			}
			ctx := context.Background()
			p := bed.New(b, bed.Pods(0, 0)).Proxier("bulk/" + name)
			first, err := p.Sync(ctx, services.Snapshot{Full: true})
			if err != nil {
				b.Fatal(err)
			}
			verify, err := p.Sync(ctx, services.Snapshot{Full: true})
			if err != nil {
				b.Fatal(err)
			}
			var cpu, kernel int
			for b.Loop() {
				r, err := p.Sync(ctx, services.Snapshot{})
				if err != nil {
					b.Fatal(err)
				}
				cpu, kernel = cpu+r.Objects["cpu"], kernel+r.Objects["kernel"]
			}
			ms := func(us int, n int) float64 { return float64(us) / 1000 / float64(n) }
			b.ReportMetric(ms(cpu, b.N), "cpu-ms/op")
			b.ReportMetric(ms(kernel, b.N), "kernel-ms/op")
			b.ReportMetric(ms(first.Objects["microseconds"], 1), "first-ms")
			b.ReportMetric(ms(first.Objects["cpu"], 1), "first-cpu-ms")
			b.ReportMetric(ms(verify.Objects["microseconds"], 1), "verify-ms")
			b.ReportMetric(ms(verify.Objects["cpu"], 1), "verify-cpu-ms")
			b.ReportMetric(float64(first.Objects["rules"]), "rules")
			b.ReportMetric(float64(first.Objects["chains"]), "chains")
		})
	}
}
