package load

import (
	"testing"
	"time"
)

// What a tick costs the generator, which has better things to do.
func BenchmarkTick(b *testing.B) {
	rec := newRecorder("x", time.Now())
	for b.Loop() {
		for i := range 2500 {
			rec.success("pod-a", time.Duration(200+i*7%5000)*time.Microsecond, 100)
			rec.connected(time.Duration(50+i*3%500) * time.Microsecond)
		}
		rec.tick(time.Now())
	}
}
