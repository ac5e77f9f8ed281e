// Package packed writes the samples of a run as a few bytes each, and reads them back exactly:
// order, times and every bit of every value.
//
// Samples repeat themselves. The same series (host, direction, metric, part) follow each other
// every second, most of them over the same interval, and nearly every value is a whole number
// that was divided: by 1e6 for microseconds, by the length of its interval for a rate. The
// format is therefore:
//
//  1. the series, once each;
//  2. which series follows which, unless as before;
//  3. the intervals, once each, as differences to the end of the last one;
//  4. for each series a formula (formula.go) and its whole numbers; a value that the
//     formula does not reproduce exactly is stored as its eight bytes.
//
// Pack compresses all of it with DEFLATE (RFC 1951), Quick does not; the first byte says which.
// The formulas apply one operation of IEEE 754 after another and no fused multiply-add, so that
// every processor computes the same bits.
package packed

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"linerate/internal/core/model"
)

// The first byte of the format.
const (
	plain   = 0 // by Quick
	version = 1 // by Pack, compressed
)

// MaxSamples is the most samples of one Pack or Unpack: a quarter of an hour at 70 per second,
// and 7 MB of memory.
const MaxSamples = 1 << 16

// sampleBytes limits how much Unpack decompresses per sample. A sample takes at most 40 bytes:
// one each for its series, its interval and its warm-up, and up to 20 and 9 for new ones; the
// rest is for names.
const sampleBytes = 64

// ErrDamaged reports input that Pack did not write.
var ErrDamaged = errors.New("packed samples are damaged")

// series identifies the samples of one line.
type series struct {
	host      model.Host
	direction model.Direction
	metric    model.Metric
	of        string
}

// span is the interval of a sample.
type span struct{ start, length time.Duration }

// Pack encodes at most MaxSamples samples for Unpack; nil for none.
func Pack(samples []model.Sample) []byte {
	if len(samples) == 0 {
		return nil
	}
	var out bytes.Buffer
	out.WriteByte(version)
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(write(samples).bytes)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // the level is a constant, and a buffer accepts every write
	}
	return out.Bytes()
}

// Quick encodes samples like Pack but without compression, in a fraction of the time: for
// blocks of a few samples, up to a hundred per second.
func Quick(samples []model.Sample) []byte {
	if len(samples) == 0 {
		return nil
	}
	return append([]byte{plain}, write(samples).bytes...)
}

// write returns the body of samples.
func write(samples []model.Sample) body {
	var b body
	ids := b.series(samples)
	b.order(ids)
	b.spans(samples, ids)
	b.omitted(samples)
	b.values(samples, ids)
	return b
}

// body is the uncompressed format.
type body struct {
	bytes []byte
	names []series // in the order of their first sample
}

func (b *body) uint(v uint64) { b.bytes = binary.AppendUvarint(b.bytes, v) }
func (b *body) int(v int64)   { b.bytes = binary.AppendVarint(b.bytes, v) }

func (b *body) text(s string) {
	b.uint(uint64(len(s)))
	b.bytes = append(b.bytes, s...)
}

// series writes the number of samples, and the series. It returns the series number of each
// sample.
func (b *body) series(samples []model.Sample) []int {
	known := map[series]int{}
	ids := make([]int, len(samples))
	for i := range samples {
		x := &samples[i]
		name := series{x.Host, x.Direction, x.Metric, x.Of}
		id, ok := known[name]
		if !ok {
			id = len(b.names)
			known[name] = id
			b.names = append(b.names, name)
		}
		ids[i] = id
	}
	b.uint(uint64(len(samples)))
	b.uint(uint64(len(b.names)))
	for _, n := range b.names {
		b.text(string(n.host))
		b.text(string(n.direction))
		b.text(string(n.metric))
		b.text(n.of)
	}
	return ids
}

// order writes which series follows which: 0 for the one that followed last time, else its
// number plus one.
func (b *body) order(ids []int) {
	next := make([]int, len(b.names))
	last := 0
	for _, id := range ids {
		if next[last] == id {
			b.uint(0)
		} else {
			b.uint(uint64(id) + 1)
		}
		next[last], last = id, id
	}
}

// spans writes the interval of each sample: 0 for that of the sample before, 1 for a new one,
// else one more than how many new ones ago it was. The new ones follow, as differences to the
// end and the length of the last interval of the series that has it first.
func (b *body) spans(samples []model.Sample, ids []int) {
	known := map[span]int{}
	last := make([]span, len(b.names))
	var before span
	var fresh body
	for i := range samples {
		s := span{samples[i].Start, samples[i].Length}
		n, ok := known[s]
		switch {
		case i > 0 && s == before:
			b.uint(0)
		case ok:
			b.uint(uint64(len(known)-n) + 1)
		default:
			b.uint(1)
			known[s] = len(known)
			l := last[ids[i]]
			fresh.int(int64(s.start - (l.start + l.length)))
			fresh.int(int64(s.length - l.length))
		}
		last[ids[i]], before = s, s
	}
	b.bytes = append(b.bytes, fresh.bytes...)
}

// omitted writes run lengths, alternating between samples outside and inside the warm-up.
func (b *body) omitted(samples []model.Sample) {
	now, n := false, uint64(0)
	for i := range samples {
		if samples[i].Omitted != now {
			b.uint(n)
			now, n = !now, 0
		}
		n++
	}
	b.uint(n)
}

// values writes the values of each series.
func (b *body) values(samples []model.Sample, ids []int) {
	lines := make([][]int32, len(b.names)) // the samples of each
	for i, id := range ids {
		lines[id] = append(lines[id], int32(i))
	}
	for _, line := range lines {
		f, differences := choose(samples, line)
		b.bytes = append(b.bytes, f.code(differences))
		before := int64(0)
		for _, i := range line {
			k, ok := f.number(samples[i].Value, samples[i].Length)
			if !ok {
				b.uint(0)
				b.bytes = binary.LittleEndian.AppendUint64(b.bytes, bits(samples[i].Value))
				continue
			}
			if differences {
				k, before = k-before, k
			}
			b.uint(zigzag(k) + 1)
		}
	}
}

// Unpack decodes the output of Pack, at most most samples. Samples of one series share their
// texts. The error wraps ErrDamaged.
func Unpack(packed []byte, most int) ([]model.Sample, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	text, err := packed[1:], error(nil)
	switch packed[0] {
	case plain:
	case version:
		text, err = inflate(text, sampleBytes*most)
	default:
		err = fmt.Errorf("they are of version %d, this linerate knows %d", packed[0], version)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	p := parser{rest: text}
	samples := p.samples(most)
	if p.bad || len(p.rest) > 0 {
		return nil, ErrDamaged
	}
	return samples, nil
}

// inflate decompresses b to at most most bytes.
func inflate(b []byte, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return text, err
}
