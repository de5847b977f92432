package units

import "testing"

func TestFiguresForPeople(t *testing.T) {
	for want, got := range map[string]string{
		"0s": Seconds(0), "12µs": Seconds(12e-6), "1.23ms": Seconds(0.00123), "45.6s": Seconds(45.6), "99.9s": Seconds(99.94),
		"1m40s": Seconds(99.96), "2m10s": Seconds(130), "1h0m0s": Seconds(3600), "-3ms": Seconds(-0.003), "1ms": Seconds(0.0009996),
		"104MB": Bytes(104e6), "999B": Bytes(999), "1kB": Bytes(999.6), "1500TB": Bytes(1.5e15), "1.2GB/s": Throughput(1.2e9),
		"150/s": Rate(150), "33.3%": Share(1.0 / 3), "12346": Number(12345.6), "0.00012": Number(0.00012), "NaN": Number(nan()),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}
