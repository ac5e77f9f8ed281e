package hist

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

var (
	_ encoding.BinaryMarshaler   = (*Histogram)(nil)
	_ encoding.BinaryUnmarshaler = (*Histogram)(nil)
	_ encoding.BinaryAppender    = (*Histogram)(nil)
	_ json.Marshaler             = (*Histogram)(nil)
	_ json.Unmarshaler           = (*Histogram)(nil)
)

func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := of(rapid.SliceOfN(value(), 0, 60).Draw(t, "values")...)
		b := must.Get(h.AppendBinary([]byte("x")))(t)
		must.Need(t, b[0] == 'x', "append: %q", b)
		var fromBinary, fromJSON Histogram
		err := fromBinary.UnmarshalBinary(b[1:])
		must.Need(t, err == nil && fromBinary == *h, "binary: %v, equal %v", err, fromBinary == *h)
		text := must.Get(json.Marshal(h))(t)
		if err := json.Unmarshal(text, &fromJSON); err != nil || fromJSON != *h {
			t.Fatalf("json %s: %v, equal %v", text, err, fromJSON == *h)
		}
	})
}

// The bytes of version 1 never change.
func TestGoldenForms(t *testing.T) {
	h := of(90, 300, 300, -1, 2*time.Hour)
	text := must.Get(json.Marshal(h))(t)
	const want = `{"version":1,"below":1,"above":1,"min_ns":-1,"max_ns":7200000000000,` +
		`"sum_ns":7200000000689,"buckets":[[90,1],[300,2]]}`
	must.Equal(t, string(text), want, "json\n%s, want\n%s", text, want)
	b := must.Get(h.MarshalBinary())(t)
	wantBytes := []byte{1, 1, 1, 1,
		0x80, 0x80, 0x8a, 0x97, 0x8c, 0xa3, 0x03, // 7200000000000, zigzag
		0, 0xb1, 0x85, 0xc5, 0x8b, 0xc6, 0xd1, 0x01, // 7200000000689
		90, 1, 112, 2} // buckets 90 and 203: 2 × 64 + 300/4
	must.True(t, bytes.Equal(b, wantBytes), "binary\n%x, want\n%x", b, wantBytes)
	b, _ = new(Histogram).MarshalBinary()
	must.True(t, bytes.Equal(b, []byte{1}), "empty: %x, want 01", b)
}

func TestFullHistogramFitsTheBounds(t *testing.T) {
	var r Recorder
	for i := 1; i < buckets; i++ {
		low, _ := edges(i)
		r.Add(time.Duration(low), uint64(MaxCount/buckets))
	}
	h := r.Histogram()
	b := must.Get(h.MarshalBinary())(t)
	var back Histogram
	err := back.UnmarshalBinary(b)
	must.True(t, err == nil && back == *h, "binary of %d bytes: %v", len(b), err)
	text := must.Get(json.MarshalIndent(h, "                ", "    "))(t)
	err = json.Unmarshal(text, &back)
	must.True(t, err == nil && back == *h, "json of %d bytes: %v", len(text), err)
}

func TestDecodersRefuse(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":           {},
		"version 2":         {2},
		"cut":               {1, 0, 0},
		"empty, spelled":    {1, 0, 0, 0, 0, 0, 0},
		"padded varint":     {1, 0x80, 0, 0, 10, 10, 0, 5, 5, 1},
		"bucket 0":          {1, 0, 0, 0, 0, 0, 0, 0, 1},
		"bucket of nothing": {1, 0, 0, 10, 10, 0, 5, 5, 1, 0, 0},
		"bucket past end":   {1, 0, 0, 10, 10, 0, 5, 0xff, 0x7f, 1},
		"huge gap":          {1, 0, 0, 10, 10, 0, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1},
		"least too small":   {1, 0, 0, 8, 10, 0, 5, 5, 1},
		"greatest too big":  {1, 0, 0, 10, 12, 0, 5, 5, 1},
		"sum too big":       {1, 0, 0, 10, 10, 0, 6, 5, 1},
		"sum too small":     {1, 0, 0, 10, 10, 0, 4, 5, 1},
		"below unseen":      {1, 1, 0, 10, 10, 0, 5, 5, 1},
		"too long":          make([]byte, MaxBinary+1),
	} {
		h := of(42)
		err := h.UnmarshalBinary(b)
		must.True(t, errors.Is(err, ErrFormat) && *h == *of(42), "%s: error %v, changed %v", name, err, *h != *of(42))
	}
	for name, text := range map[string]string{
		"version 2":    `{"version":2,"sum_ns":0}`,
		"null":         `null`,
		"no sum":       `{"version":1}`,
		"not an edge":  `{"version":1,"min_ns":301,"max_ns":301,"sum_ns":301,"buckets":[[301,1]]}`,
		"above 1 h":    `{"version":1,"min_ns":1,"max_ns":1,"sum_ns":1,"buckets":[[3600000000001,1]]}`,
		"not upwards":  `{"version":1,"min_ns":3,"max_ns":5,"sum_ns":8,"buckets":[[5,1],[3,1]]}`,
		"twice":        `{"version":1,"min_ns":5,"max_ns":5,"sum_ns":10,"buckets":[[5,1],[5,1]]}`,
		"empty sum":    `{"version":1,"min_ns":0,"max_ns":0,"sum_ns":1,"buckets":[]}`,
		"wide sum":     `{"version":1,"min_ns":5,"max_ns":5,"sum_ns":1` + strings.Repeat("0", 60) + `,"buckets":[[5,1]]}`,
		"one, spread":  `{"version":1,"min_ns":300,"max_ns":301,"sum_ns":300,"buckets":[[300,1]]}`,
		"two, no ends": `{"version":1,"min_ns":300,"max_ns":303,"sum_ns":602,"buckets":[[300,2]]}`,
		"too long":     `{"version":1,"sum_ns":0` + strings.Repeat(" ", MaxJSON) + `}`,
	} {
		h := of(42)
		err := h.UnmarshalJSON([]byte(text))
		must.True(t, errors.Is(err, ErrFormat) && *h == *of(42), "%s: error %v, changed %v", name, err, *h != *of(42))
	}
	must.Fail(t, new(Histogram).UnmarshalJSON([]byte(`{"version":`)), "half a document was read")
}

func TestDecodersRefuseTooMany(t *testing.T) {
	for _, text := range []string{
		`{"version":1,"below":9007199254740993,"sum_ns":0}`,
		`{"version":1,"min_ns":1,"max_ns":2,"sum_ns":3,"buckets":[[1,9007199254740992],[2,1]]}`,
		`{"version":1,"min_ns":1,"max_ns":2,"sum_ns":3,"buckets":[[1,18446744073709551615],[2,1]]}`,
		`{"version":1,"below":9007199254740992,"above":1,"min_ns":0,"max_ns":7200000000000,"sum_ns":7200000000000}`,
	} {
		must.Is(t, new(Histogram).UnmarshalJSON([]byte(text)), ErrTooMany, "%s", text)
	}
}

// Accepted input is canonical and safe to read and to merge.
func FuzzUnmarshalBinary(f *testing.F) {
	for _, h := range []*Histogram{of(), of(90, 300), of(-1, 0, 5, 2*time.Hour), of(math.MaxInt64, math.MinInt64)} {
		f.Add(must.Get(h.MarshalBinary())(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Histogram
		if h.UnmarshalBinary(b) != nil {
			return
		}
		again := must.Get(h.MarshalBinary())(t)
		must.Need(t, bytes.Equal(again, b), "%x was read, %x is written:", b, again)
		exercise(t, &h)
	})
}

func FuzzUnmarshalJSON(f *testing.F) {
	for _, h := range []*Histogram{of(), of(90, 300), of(-1, 0, 5, 2*time.Hour), of(math.MaxInt64, math.MinInt64)} {
		f.Add(must.Get(h.MarshalJSON())(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again Histogram
		if h.UnmarshalJSON(b) != nil {
			return
		}
		text := must.Get(h.MarshalJSON())(t)
		err := again.UnmarshalJSON(text)
		must.Need(t, err == nil && again == h, "%s became %s: %v", b, text, err)
		exercise(t, &h)
	})
}

func exercise(t *testing.T, h *Histogram) {
	t.Helper()
	least, greatest := h.Min().Or(0), h.Max().Or(0)
	mean := h.Mean().Or(0)
	must.Need(t, mean >= least && mean <= greatest, "mean %v outside %v…%v", mean, least, greatest)
	for _, q := range []float64{0, 0.01, 0.5, 0.99, 0.999, 1} {
		v, ok := h.Quantile(q).Get()
		must.Need(t, !ok || v >= least && v <= greatest, "quantile %v = %v outside %v…%v", q, v, least, greatest)
	}
	n := h.Count()
	must.Need(t, h.Merge(of(1)) != nil || h.Count() == n+1, "%d values after merging one into %d", h.Count(), n)
}

func TestWideSumsAgreeWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, n := rapid.Int64().Draw(t, "v"), rapid.Uint64Range(1, MaxCount).Draw(t, "n")
		w := rapid.Int64().Draw(t, "w")
		sum := product(v, n).add(product(w, 1))
		want := new(big.Int).Mul(big.NewInt(v), new(big.Int).SetUint64(n))
		want.Add(want, big.NewInt(w))
		must.Need(t, sum.number().Cmp(want) == 0, "%d × %d + %d = %v, want %v", v, n, w, sum.number(), want)
		back, ok := fromNumber(want)
		must.Need(t, ok && back == sum, "%v read as %v, %v", want, back, ok)
		must.Need(t, sum.compare(product(v, n)) == big.NewInt(w).Sign(), "comparing %v with %d × %d", sum.number(), v, n)
		must.Need(t, product(v, n).divide(n) == v, "%d × %d / %d is not the start", v, n, n)
	})
}
