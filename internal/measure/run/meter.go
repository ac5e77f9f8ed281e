// Package run is the chassis of the engines: the clock of a run, its intervals, the
// measured window of each direction, the samples of both, the processor time that the
// window took, and what ends it. An engine is what it sends and what it counts.
package run

import (
	"fmt"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/quiet"
)

// Meter is the clock of one end of one run: it makes the samples of its intervals, and
// takes the processor time of its window. It belongs to one goroutine.
type Meter struct {
	Host     model.Host
	Spec     model.Flow // with its Interval
	Emit     func([]model.Sample)
	Hold     *quiet.Hold // may be nil
	Warnings []string

	Start            time.Time
	end              time.Duration // of the last interval
	prev, open, shut Processor     // ends of the last interval and edges of the window
	samples          []model.Sample
}

// StartClock starts the clock.
func (m *Meter) StartClock() {
	m.Start = time.Now()
	m.prev = ReadEdge(0)
	m.open = m.prev
}

// Now is the time since the start.
func (m *Meter) Now() time.Duration { return time.Since(m.Start) }

// Open is the beginning of the measured window.
func (m *Meter) Open() { m.open = ReadEdge(m.Now()) }

// Shut is its end, at the time that it returns.
func (m *Meter) Shut() time.Duration {
	m.shut = ReadEdge(m.Now())
	return m.shut.At
}

// Shortest is the length below which an interval says nothing about rates; what it
// counts is part of the window all the same.
func Shortest(interval time.Duration) time.Duration { return interval / 10 }

// Whole is the next multiple of interval after t, or the one after that where a
// sampler that woke up late would leave a very short one.
func Whole(t, interval time.Duration) time.Duration {
	return ((t+Shortest(interval))/interval + 1) * interval
}

// Flush emits the samples of an interval, with that of the processor where working.
func (m *Meter) Flush(working bool) {
	cpu := Read(m.Now())
	if working && cpu.At-m.prev.At >= max(1, Shortest(m.Spec.Interval)) {
		m.samples = append(m.samples, cpu.Sample(m.prev, m.Host, m.Spec.Omit))
		m.prev = cpu
	}
	if len(m.samples) > 0 {
		m.Emit(append([]model.Sample(nil), m.samples...))
	}
	m.samples = m.samples[:0]
}

// Next is when the interval that has begun is over.
func (m *Meter) Next() time.Duration { return m.end + m.Spec.Interval }

// Interval ends the present interval at time at and emits its samples, with that of
// the processor where busy. Those that tell adds are left out where it was too short.
func (m *Meter) Interval(at time.Duration, omitted, busy bool, tell func(length time.Duration, add func(model.Direction, model.Metric, float64))) {
	start, length := m.end, at-m.end
	m.end = at
	tell(length, func(d model.Direction, metric model.Metric, v float64) {
		m.samples = append(m.samples, model.Sample{
			Host: m.Host, Direction: d, Metric: metric, Value: v, Start: start, Length: length, Omitted: omitted,
		})
	})
	if length < Shortest(m.Spec.Interval) {
		m.samples = m.samples[:0]
	}
	m.Flush(busy)
}

// LookAtHeap warns, once, where garbage was collected.
func (m *Meter) LookAtHeap() {
	if m.Hold != nil && m.Hold.Check() {
		m.Warnings = append(m.Warnings,
			fmt.Sprintf("garbage was collected during the run: the heap grew by %d MiB", quiet.MaxGrowth>>20))
	}
}

// Report is what this end says of itself.
func (m *Meter) Report(waiting string) model.EndReport {
	out := model.EndReport{Host: m.Host, Waiting: waiting, Warnings: m.Warnings}
	Fill(&out, m.open, m.shut)
	return out
}
