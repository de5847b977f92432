package plane_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"proxylab/lab/lbaas/plane"
)

// BenchmarkManyBalancers: 200 balancers with five listeners, each with twenty members. How long the first apply takes,
// one that changes a single balancer, and a failover.
func BenchmarkManyBalancers(b *testing.B) {
	set := plane.NewSet(plane.Options{Names: []string{"lb1", "lb2"}, Start: startChild()})
	defer set.Close()
	go func() {
		for range set.Statuses() {
			continue
		}
	}()
	var all []plane.Balancer
	for i := range 200 {
		lb := plane.Balancer{ID: fmt.Sprint("lb", i), AdminUp: true, VIPs: []netip.Addr{newAddr()}}
		for j := range 5 {
			id := fmt.Sprint(lb.ID, "-", j)
			p := plane.Pool{ID: id, Protocol: "TCP", Algorithm: "ROUND_ROBIN", AdminUp: true}
			for k := range 20 {
				p.Members = append(p.Members, plane.Member{
					ID: fmt.Sprint(id, "-", k), Address: netip.AddrFrom4([4]byte{127, 220, 0, byte(k)}), Port: 9000, Weight: 1, AdminUp: true})
			}
			lb.Pools = append(lb.Pools, p)
			lb.Listeners = append(lb.Listeners, plane.Listener{ID: id, Protocol: "TCP", Port: uint16(8000 + j), AdminUp: true, DefaultPool: id})
		}
		all = append(all, lb)
	}
	apply := func() time.Duration {
		began := time.Now()
		if err := set.Apply(b.Context(), all); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	first := apply()
	var change, failover []float64
	for b.Loop() {
		all[7].Listeners[0].ConnectionLimit++
		change = append(change, apply().Seconds())
		for set.StandbyName() == "" {
			time.Sleep(10 * time.Millisecond)
		}
		if err := set.Failover(); err != nil {
			b.Fatal(err)
		}
		failover = append(failover, (<-set.Events())[0].Seconds)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(first.Seconds(), "s/first-apply")
	b.ReportMetric(median(change), "s/apply")
	b.ReportMetric(median(failover), "s/failover")
}
