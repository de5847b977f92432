package usage

import (
	"os"
	"testing"
)

// What one reading costs: it is made several times a second beside what it measures.
func BenchmarkTree(b *testing.B) {
	for b.Loop() {
		if _, err := Tree(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}
