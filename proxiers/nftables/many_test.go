package nftables

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
)

const bulkServices, bulkEndpoints = 10_000, 4

// manyServices is a snapshot of n cluster IP Services in IPv4 with as many endpoints each, one in ten on this node.
func manyServices(n, endpoints int) services.Snapshot {
	want := services.Snapshot{Node: testNode, Full: true, Ports: make(map[services.Key]*services.ServicePort, n),
		Changed: map[services.Key]struct{}{}}
	for i := range n {
		sp := &services.ServicePort{Key: bulkKey(i), Port: 80, HasAnyEndpoints: true,
			ClusterIP: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}
		for e := range endpoints {
			sp.ClusterEndpoints = append(sp.ClusterEndpoints, bulkEndpoint(i*endpoints+e))
		}
		want.Ports[sp.Key] = sp
	}
	return want
}

func bulkKey(i int) services.Key {
	return services.Key{Namespace: "bulk", Service: fmt.Sprintf("svc-%05d", i), Port: "http", Protocol: corev1.ProtocolTCP,
		Family: services.IPv4}
}

func bulkEndpoint(n int) services.Endpoint {
	e := services.Endpoint{Ready: true, Serving: true, Node: "node2",
		Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 200 + byte(n>>16), byte(n >> 8), byte(n)}), 8080)}
	if n%10 == 0 {
		e.Node, e.Local = "node1", true
	}
	return e
}

// replaceEndpoint gives Service number i another last endpoint, as a partial change.
func replaceEndpoint(prev services.Snapshot, i int) services.Snapshot {
	k := bulkKey(i)
	sp := *prev.Ports[k]
	last := len(sp.ClusterEndpoints) - 1
	sp.ClusterEndpoints = append([]services.Endpoint{}, sp.ClusterEndpoints...)
	a := sp.ClusterEndpoints[last].Addr
	sp.ClusterEndpoints[last].Addr = netip.AddrPortFrom(a.Addr(), 8080+8081-a.Port())
	next := prev
	next.Full = false
	next.Changed = map[services.Key]struct{}{k: {}}
	next.Ports[k] = &sp // shared with prev: nobody looks at that again
	return next
}

// bulk is a proxier that is told only that it shall go on: the snapshots are its own, so that none of 10,000 Services
// has to travel to the node's process. Its report has the CPU time of its process tree.
type bulk struct {
	*Proxier
	want services.Snapshot
	n    int
}

func newBulk(log *slog.Logger) (runner.Proxier, error) {
	p, err := New(Options{Log: log})
	if err != nil {
		return nil, err
	}
	return &bulk{Proxier: p, want: manyServices(bulkServices, bulkEndpoints)}, nil
}

func (p *bulk) Sync(ctx context.Context, ask services.Snapshot) (runner.SyncReport, error) {
	switch {
	case !ask.Full:
		p.want = replaceEndpoint(p.want, p.n)
		p.n++
	case len(ask.Changed) > 0: // the rewriting of a table that is not trusted
		p.want.Full = true
		for _, f := range p.families {
			f.valid = false
		}
	default:
		p.want.Full = true
	}
	user, sys := cpuTime()
	start := time.Now()
	r, err := p.Proxier.Sync(ctx, p.want)
	if err != nil {
		return r, err
	}
	u, s := cpuTime()
	r.Objects["microseconds"] = int(time.Since(start).Microseconds())
	r.Objects["cpu"], r.Objects["kernel"] = int((u + s - user - sys).Microseconds()), int((s - sys).Microseconds())
	r.Objects["rss"] = peakMemory()
	return r, nil
}

func cpuTime() (user, sys time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			user += time.Duration(r.Utime.Nano())
			sys += time.Duration(r.Stime.Nano())
		}
	}
	return user, sys
}

// peakMemory in KiB of this process.
func peakMemory() int {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
			return n
		}
	}
	return 0
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
