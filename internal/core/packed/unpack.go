package packed

import (
	"encoding/binary"
	"math"
	"time"

	"linerate/internal/core/model"
)

// parser reads a body. After the first fault it returns only zeros.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) fail() {
	p.bad, p.rest = true, nil
}

func (p *parser) uint() uint64 { return varint(p, binary.Uvarint) }

func (p *parser) int() int64 { return varint(p, binary.Varint) }

func varint[T int64 | uint64](p *parser, read func([]byte) (T, int)) T {
	v, n := read(p.rest)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

// count reads a count of elements of at least one byte each.
func (p *parser) count() int {
	n := p.uint()
	if n > uint64(len(p.rest)) {
		p.fail()
		return 0
	}
	return int(n)
}

func (p *parser) take(n int) []byte {
	if n > len(p.rest) {
		p.fail()
		return make([]byte, n)
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) text() string {
	return string(p.take(p.count()))
}

// samples reads the whole body.
func (p *parser) samples(most int) []model.Sample {
	n := p.count()
	if n > most {
		p.fail()
		return nil
	}
	named := p.count()
	if named > n { // each series has a sample
		p.fail()
		return nil
	}
	samples := make([]model.Sample, n)
	names := make([]series, named)
	for i := range names {
		names[i] = series{model.Host(p.text()), model.Direction(p.text()), model.Metric(p.text()), p.text()}
	}
	if p.bad || len(names) == 0 {
		p.fail()
		return nil
	}
	ids := p.order(len(samples), len(names))
	for i := range samples {
		n := &names[ids[i]]
		samples[i] = model.Sample{Host: n.host, Direction: n.direction, Metric: n.metric, Of: n.of}
	}
	p.spans(samples, ids, len(names))
	p.omitted(samples)
	p.values(samples, ids, len(names))
	return samples
}

func (p *parser) order(samples, names int) []int32 {
	ids := make([]int32, samples)
	next := make([]int32, names)
	last := int32(0)
	for i := range ids {
		id := next[last]
		if v := p.uint(); v > uint64(names) {
			p.fail()
		} else if v > 0 {
			id = int32(v - 1)
		}
		ids[i] = id
		next[last], last = id, id
	}
	return ids
}

func (p *parser) spans(samples []model.Sample, ids []int32, names int) {
	which := make([]int32, len(samples)) // index into the new intervals
	fresh, now := 0, int32(0)
	for i := range samples {
		switch v := p.uint(); {
		case v == 1:
			now = int32(fresh)
			fresh++
		case v > uint64(fresh)+1 || v == 0 && i == 0:
			p.fail()
			return
		case v > 1:
			now = int32(fresh) - int32(v-1)
		}
		which[i] = now
	}
	known := make([]span, 0, fresh)
	last := make([]span, names)
	for i := range samples {
		if int(which[i]) == len(known) {
			l := last[ids[i]]
			start := l.start + l.length + time.Duration(p.int())
			known = append(known, span{start, l.length + time.Duration(p.int())})
		}
		s := known[which[i]]
		samples[i].Start, samples[i].Length = s.start, s.length
		last[ids[i]] = s
	}
}

func (p *parser) omitted(samples []model.Sample) {
	now := false
	for i := 0; i < len(samples); now = !now {
		n := p.uint()
		if n > uint64(len(samples)-i) || p.bad || n == 0 && i > 0 {
			p.fail()
			return
		}
		for range n {
			samples[i].Omitted = now
			i++
		}
	}
}

func (p *parser) values(samples []model.Sample, ids []int32, names int) {
	lines := make([][]int32, names)
	for i, id := range ids {
		lines[id] = append(lines[id], int32(i))
	}
	for _, line := range lines {
		f, differences, ok := byCode(p.take(1)[0])
		if !ok {
			p.fail()
			return
		}
		before := int64(0)
		for _, i := range line {
			v := p.uint()
			if v == 0 {
				samples[i].Value = math.Float64frombits(binary.LittleEndian.Uint64(p.take(8)))
				continue
			}
			k := unzigzag(v - 1)
			if differences {
				k += before
				before = k
			}
			samples[i].Value = f.value(k, samples[i].Length)
		}
	}
}
