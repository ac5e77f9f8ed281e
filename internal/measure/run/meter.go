// Package run is the common part of the engines: the clock of a run, its intervals, the
// measured window of each direction, the samples of both, the CPU time in the window, and the
// end. An engine adds what it sends and what it counts.
package run

import (
	"fmt"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/goruntime"
)

// Meter is the clock of one end of one run: it makes the samples of its intervals, and measures
// the CPU time of its window. It belongs to one goroutine.
type Meter struct {
	Host     model.Host
	Spec     model.Flow // with its Interval
	Emit     func([]model.Sample)
	Hold     *goruntime.Hold // may be nil
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

// Now returns the time since the start.
func (m *Meter) Now() time.Duration { return time.Since(m.Start) }

// Open marks the beginning of the measured window.
func (m *Meter) Open() { m.open = ReadEdge(m.Now()) }

// Shut marks its end and returns the time.
func (m *Meter) Shut() time.Duration {
	m.shut = ReadEdge(m.Now())
	return m.shut.At
}

// Shortest returns the length below which an interval is too short for a rate; its counts still
// belong to the window.
func Shortest(interval time.Duration) time.Duration { return interval / 10 }

// Whole returns the next multiple of interval after t, or the one after that if the rest would
// be very short, since the sampler woke up late.
func Whole(t, interval time.Duration) time.Duration {
	return ((t+Shortest(interval))/interval + 1) * interval
}

// Flush emits the samples of an interval, with CPU time if working is true.
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

// Next returns when the current interval is over.
func (m *Meter) Next() time.Duration { return m.end + m.Spec.Interval }

// Interval ends the current interval at time at and emits its samples, with CPU time if busy is
// true. If the interval was too short it leaves out the samples that tell adds.
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

// LookAtHeap adds a warning, once, if garbage was collected.
func (m *Meter) LookAtHeap() {
	if m.Hold != nil && m.Hold.Check() {
		m.Warnings = append(m.Warnings,
			fmt.Sprintf("garbage was collected during the run: the heap grew by %d MiB", goruntime.MaxGrowth>>20))
	}
}

// Report returns this end's report of itself.
func (m *Meter) Report(waiting string) model.EndReport {
	out := model.EndReport{Host: m.Host, Waiting: waiting, Warnings: m.Warnings}
	Fill(&out, m.open, m.shut)
	return out
}
