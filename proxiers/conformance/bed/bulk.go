package bed

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"proxylab/proxiers/runner"
	"proxylab/proxiers/services"
	"proxylab/proxiers/services/servicestest"
)

// Bulk is a proxier for benchmarks that is told only that it shall go on: the snapshots are its own, so that none of many
// Services has to travel to the node's process. Its reports' objects have what a pass took of its process tree: "microseconds"
// of the clock, microseconds of "cpu" and, of these, in the "kernel"; and its peak memory, "rss", in KiB.
type Bulk struct {
	runner.Proxier
	// Distrust, if not nil, has the proxier write everything at the next pass. It is called where a full pass has changes.
	Distrust func()
	want     services.Snapshot
	n        int
}

// NewBulk is a proxier with a number of Services and endpoints of each.
func NewBulk(p runner.Proxier, count, endpoints int, distrust func()) *Bulk {
	return &Bulk{Proxier: p, Distrust: distrust, want: servicestest.Many(count, endpoints)}
}

// Sync takes of a snapshot only whether it is full. A partial pass is one endpoint that is replaced.
func (p *Bulk) Sync(ctx context.Context, ask services.Snapshot) (runner.SyncReport, error) {
	if !ask.Full {
		p.want = servicestest.ReplaceEndpoint(p.want, p.n)
		p.n++
	} else {
		p.want.Full = true
		if len(ask.Changed) > 0 && p.Distrust != nil {
			p.Distrust()
		}
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
