package watch

import (
	"testing"
	"time"

	"linerate/internal/core/model"
)

// BenchmarkRead is the cost of one reading of everything. At one reading per
// second, 1 ms would be 0.1 % of one core.
func BenchmarkRead(b *testing.B) {
	for _, device := range []string{"", "lo", "eth0"} {
		b.Run("interface="+device, func(b *testing.B) {
			w, err := Open(device)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			for _, m := range w.Missing() {
				b.Log(m)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Read(time.Time{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSamples is the cost of what follows a reading.
func BenchmarkSamples(b *testing.B) {
	w, err := Open("lo")
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	first, err := w.Read(time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	second, err := w.Read(time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Samples(model.Near, first, second, 0, time.Second)
	}
}
