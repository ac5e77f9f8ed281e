package packed_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/core/packed"
	"linerate/internal/must"
	"linerate/internal/store/storetest"
)

// same demands that unpacked samples equal the packed ones, to the bit.
func same(t must.TB, want, got []model.Sample) {
	must.Need(t, len(want) == len(got), "%d samples of %d came back", len(got), len(want))
	for i := range want {
		a, b := want[i], got[i]
		bits := math.Float64bits(a.Value) == math.Float64bits(b.Value)
		a.Value, b.Value = 0, 0
		must.Need(t, a == b && bits, "sample %d: packed %+v, unpacked %+v", i, want[i], got[i])
	}
}

// values generates results of formulas, and numbers that no formula gives.
func values() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64(), rapid.Map(rapid.Uint64(), math.Float64frombits),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1 << 53, -1 << 53, math.MaxFloat64, 5e-324}),
		rapid.Map(rapid.Int64Range(-1e12, 1e12), func(k int64) float64 { return float64(k) / 1e6 }),
		rapid.Map(rapid.Int64Range(0, 1e9), func(k int64) float64 { return float64(k) * 8 / 1.000123 }))
}

// TestExact packs arbitrary samples, and unpacks the same in the same order.
func TestExact(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "near", "far", "cpu0"}), rapid.String())
	duration := rapid.OneOf(rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.SampledFrom([]time.Duration{0, time.Second, math.MinInt64, math.MaxInt64}))
	one := rapid.Custom(func(t *rapid.T) model.Sample {
		return model.Sample{
			Host: model.Host(text.Draw(t, "host")), Direction: model.Direction(text.Draw(t, "direction")), Metric: model.Metric(text.Draw(t, "metric")),
			Of: text.Draw(t, "of"), Start: duration.Draw(t, "start"), Length: duration.Draw(t, "length"),
			Value: values().Draw(t, "value"), Omitted: rapid.Bool().Draw(t, "omitted"),
		}
	})
	rapid.Check(t, func(r *rapid.T) {
		want := rapid.SliceOfN(one, 0, 100).Draw(r, "samples")
		for _, p := range [][]byte{packed.Pack(want), packed.Quick(want)} {
			same(r, want, must.Get(packed.Unpack(p, packed.MaxSamples))(r))
		}
	})
}

// TestHour checks the size of an hour of a session with 62 samples a second, as a test between
// two hosts with two processors makes: below 1 MB, and exact.
func TestHour(t *testing.T) {
	hour := storetest.Seconds(rand.New(rand.NewPCG(12, 6)), 3600)
	bytes := 0
	for rest := hour; len(rest) > 0; {
		n := min(len(rest), packed.MaxSamples)
		p := packed.Pack(rest[:n])
		bytes += len(p)
		same(t, rest[:n], must.Get(packed.Unpack(p, packed.MaxSamples))(t))
		same(t, rest[:n], must.Get(packed.Unpack(packed.Quick(rest[:n]), packed.MaxSamples))(t))
		must.Is(t, must.Err(packed.Unpack(p, n-1)), packed.ErrDamaged, "one more than is allowed")
		rest = rest[n:]
	}
	t.Logf("%d samples are %d bytes, %.2f each", len(hour), bytes, float64(bytes)/float64(len(hour)))
	must.True(t, bytes <= 1_000_000, "an hour takes %d bytes", bytes)
}

// TestDamaged changes, cuts and lengthens the bytes: the result is an error or other samples,
// never a crash, and never too many samples.
func TestDamaged(t *testing.T) {
	whole := packed.Pack(storetest.Seconds(rand.New(rand.NewPCG(1, 2)), 5))
	for name, b := range map[string][]byte{
		"cut": whole[:len(whole)-3], "half": whole[:len(whole)/2], "version only": whole[:1], "version": append([]byte{9}, whole[1:]...),
	} {
		must.Is(t, must.Err(packed.Unpack(b, packed.MaxSamples)), packed.ErrDamaged, "%s", name)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(packed.Pack(storetest.Seconds(rand.New(rand.NewPCG(1, 2)), 2)))
	f.Add([]byte{1, 3, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		samples, err := packed.Unpack(b, packed.MaxSamples)
		must.Need(t, len(samples) <= packed.MaxSamples && (err == nil || errors.Is(err, packed.ErrDamaged)), "%d samples, %v", len(samples), err)
	})
}

func BenchmarkPack(b *testing.B) {
	samples := storetest.Seconds(rand.New(rand.NewPCG(1, 2)), 1000)
	for b.Loop() {
		must.Get(packed.Unpack(packed.Pack(samples), packed.MaxSamples))(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(samples)), "ns/sample")
}
