package hist

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Version is the version of the binary and of the JSON form. It covers the bucket layout too:
// histograms of one version can be merged.
const Version = 1

// Limits of the decoders' input, in bytes: the longest valid histogram. Longer input is
// rejected before it is parsed.
const (
	MaxBinary = 1 + 6*binary.MaxVarintLen64 + buckets*(2+8) // gap < 2^14, count ≤ 2^53
	MaxJSON   = 512 + buckets*256                           // indented, too
)

// ErrFormat reports input that is not a histogram of this version.
var ErrFormat = errors.New("not a histogram of version 1")

// AppendBinary appends the binary form to b; its error is always nil. The form
// is the version as one byte, then integers as varints of encoding/binary, those
// marked ± in zigzag form:
//
//	below, above, ±min, ±max, ±high and low 64 bits of the sum, all times in ns,
//	then for each occupied bucket, upwards, the number of empty buckets before it
//	and its count.
//
// An empty histogram is the version alone. Each histogram has one such form.
func (h *Histogram) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, Version)
	if h.total == 0 {
		return b, nil
	}
	b = binary.AppendUvarint(b, h.below)
	b = binary.AppendUvarint(b, h.above)
	b = binary.AppendVarint(b, h.min)
	b = binary.AppendVarint(b, h.max)
	b = binary.AppendVarint(b, h.sum.hi)
	b = binary.AppendUvarint(b, h.sum.lo)
	return append(b, h.counts...), nil
}

// writer writes buckets, upwards.
type writer struct {
	b    []byte
	next int
}

func (w *writer) put(bucket int, n uint64) {
	w.b = binary.AppendUvarint(w.b, uint64(bucket-w.next))
	w.b = binary.AppendUvarint(w.b, n)
	w.next = bucket + 1
}

// MarshalBinary returns the form of AppendBinary; its error is always nil.
func (h *Histogram) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary replaces h by the histogram in b, which may come from an untrusted peer: it
// limits memory, and rejects a form that no recording can produce. Its error wraps ErrFormat or
// ErrTooMany, and leaves h unchanged.
func (h *Histogram) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || len(b) > MaxBinary || b[0] != Version {
		return fmt.Errorf("read histogram of %d bytes: %w", len(b), ErrFormat)
	}
	var got Histogram
	r := reader{rest: string(b[1:])}
	if len(r.rest) > 0 {
		got.below, got.above = r.unsigned(), r.unsigned()
		got.min, got.max = r.signed(), r.signed()
		got.sum = int128{hi: r.signed(), lo: r.unsigned()}
	}
	got.counts = strings.Clone(r.rest)
	for next := 0; len(r.rest) > 0; next++ {
		gap, n := r.unsigned(), r.unsigned()
		if gap >= uint64(buckets-next) || n == 0 {
			r.bad = true
			break
		}
		next += int(gap)
	}
	if r.bad {
		return fmt.Errorf("read histogram of %d bytes: %w", len(b), ErrFormat)
	}
	if err := got.check(); err != nil {
		return fmt.Errorf("read histogram of %d bytes: %w", len(b), err)
	}
	if len(b) > 1 && got.total == 0 {
		return fmt.Errorf("read histogram of %d bytes: %w", len(b), ErrFormat)
	}
	*h = got
	return nil
}

// reader consumes varints from a text and remembers an invalid one.
type reader struct {
	rest string
	bad  bool
}

func (r *reader) unsigned() uint64 {
	var v uint64
	for i := range min(len(r.rest), binary.MaxVarintLen64) {
		c := r.rest[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if i > 0 && c == 0 || i == binary.MaxVarintLen64-1 && c > 1 { // padded, or above 64 bits
				break
			}
			r.rest = r.rest[i+1:]
			return v
		}
	}
	r.rest, r.bad = "", true
	return 0
}

func (r *reader) signed() int64 {
	v := r.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

// document is the JSON form. The sum has up to 128 bits.
type document struct {
	Version int         `json:"version"`
	Below   uint64      `json:"below,omitempty"`
	Above   uint64      `json:"above,omitempty"`
	Min     int64       `json:"min_ns"`
	Max     int64       `json:"max_ns"`
	Sum     *big.Int    `json:"sum_ns"`
	Buckets [][2]uint64 `json:"buckets"` // least value in ns, count; upwards, none empty
}

// MarshalJSON returns the histogram with its version, the times in ns, and each
// occupied bucket as its least value and its count:
//
//	{"version":1,"min_ns":90,"max_ns":300,"sum_ns":390,"buckets":[[90,1],[300,1]]}
func (h *Histogram) MarshalJSON() ([]byte, error) {
	d := document{Version: Version, Below: h.below, Above: h.above, Min: h.min, Max: h.max,
		Sum: h.sum.number(), Buckets: [][2]uint64{}}
	for i, n := range h.occupied() {
		low, _ := edges(i)
		d.Buckets = append(d.Buckets, [2]uint64{uint64(low), n})
	}
	return json.Marshal(d)
}

// UnmarshalJSON replaces h by the histogram in b, with the checks, errors and guarantees of
// UnmarshalBinary. A JSON syntax error is that of encoding/json.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var d document
	if len(b) > MaxJSON {
		return fmt.Errorf("read histogram of %d bytes: %w", len(b), ErrFormat)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("read histogram: %w", err)
	}
	if d.Version != Version || d.Sum == nil {
		return fmt.Errorf("read histogram of version %d: %w", d.Version, ErrFormat)
	}
	got := Histogram{totals: totals{below: d.Below, above: d.Above, min: d.Min, max: d.Max}}
	sum, fits := fromNumber(d.Sum)
	if !fits {
		return fmt.Errorf("read histogram with a sum of %d bits: %w", d.Sum.BitLen(), ErrFormat)
	}
	got.sum = sum
	var w writer
	for _, bucket := range d.Buckets {
		i, ok := bucketFrom(bucket[0])
		if !ok || i < w.next || bucket[1] == 0 {
			return fmt.Errorf("read histogram bucket [%d,%d]: %w", bucket[0], bucket[1], ErrFormat)
		}
		w.put(i, bucket[1])
	}
	got.counts = string(w.b)
	if err := got.check(); err != nil {
		return fmt.Errorf("read histogram: %w", err)
	}
	*h = got
	return nil
}

// bucketFrom returns the bucket whose least value is low, false if there is none.
func bucketFrom(low uint64) (int, bool) {
	if low < uint64(Lowest) || low > uint64(Highest) {
		return 0, false
	}
	i := bucketOf(low)
	first, _ := edges(i)
	return i, uint64(first) == low
}

// check sets the total of a decoded histogram and validates the rest: the least and the
// greatest value must lie in the outermost buckets with values, and the sum between the sums of
// all lower and of all upper edges.
func (h *Histogram) check() error {
	if h.below > MaxCount || h.above > MaxCount {
		return ErrTooMany
	}
	h.total = h.below + h.above
	first, last := -1, -1
	for i, n := range h.occupied() {
		if n > MaxCount || h.total+n > MaxCount {
			return ErrTooMany
		}
		if first < 0 {
			first = i
		}
		h.total, last = h.total+n, i
	}
	if h.total > MaxCount {
		return ErrTooMany
	}
	if h.total == 0 {
		if *h != (Histogram{}) {
			return fmt.Errorf("empty, but with a sum: %w", ErrFormat)
		}
		return nil
	}
	if h.total == 1 && h.min != h.max || first == 0 || !h.holds(h.min, first, false) || !h.holds(h.max, last, true) {
		return fmt.Errorf("least or greatest value outside its bucket: %w", ErrFormat)
	}
	if low, high := h.sumBounds(); h.sum.compare(low) < 0 || h.sum.compare(high) > 0 {
		return fmt.Errorf("sum does not fit the counts: %w", ErrFormat)
	}
	return nil
}

// holds reports whether v may be the least value (or the greatest, if top), given the first
// (last) occupied bucket, −1 if there is none.
func (h *Histogram) holds(v int64, bucket int, top bool) bool {
	if v < int64(Lowest) {
		return h.below > 0 && (!top || h.above == 0 && bucket < 0)
	}
	if v > int64(Highest) {
		return h.above > 0 && (top || h.below == 0 && bucket < 0)
	}
	outside := h.below > 0
	if top {
		outside = h.above > 0
	}
	return !outside && bucketOf(uint64(v)) == bucket
}

// sumBounds returns the least and the greatest sum that the counts allow, with each value
// between its edges, one of them min and another one max.
func (h *Histogram) sumBounds() (low, high int128) {
	firstHigh, lastLow, seen := int64(0), int64(0), false
	add := func(n uint64, least, greatest int64) {
		if n == 0 {
			return
		}
		least, greatest = max(least, h.min), min(greatest, h.max)
		low, high = low.add(product(least, n)), high.add(product(greatest, n))
		if !seen {
			firstHigh, seen = greatest, true
		}
		lastLow = least
	}
	add(h.below, h.min, int64(Lowest)-1)
	for i, n := range h.occupied() {
		least, greatest := edges(i)
		add(n, least, greatest)
	}
	add(h.above, int64(Highest)+1, h.max)
	if h.total > 1 {
		low = low.add(product(h.max, 1)).add(product(lastLow, 1).negate())
		high = high.add(product(h.min, 1)).add(product(firstHigh, 1).negate())
	}
	return low, high
}
