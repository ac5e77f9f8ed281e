package watch

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// BenchmarkRead is the cost of one reading of everything. At one reading per
// second, 1 ms would be 0.1 % of one core.
func BenchmarkRead(b *testing.B) {
	for _, device := range []string{"", "lo", "eth0"} {
		b.Run("interface="+device, func(b *testing.B) {
			w := must.Get(Open(device))(b)
			defer w.Close()
			for _, m := range w.Missing() {
				b.Log(m)
			}
			b.ReportAllocs()
			for b.Loop() {
				must.Get(w.Read(time.Time{}))(b)
			}
		})
	}
}

// BenchmarkSamples is the cost of what follows a reading.
func BenchmarkSamples(b *testing.B) {
	w := must.Get(Open("lo"))(b)
	defer w.Close()
	first := must.Get(w.Read(time.Time{}))(b)
	second := must.Get(w.Read(time.Time{}))(b)
	b.ReportAllocs()
	for b.Loop() {
		Samples(model.Near, first, second, 0, time.Second)
	}
}
