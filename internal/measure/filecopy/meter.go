package filecopy

import (
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/run"
	"linerate/internal/panics"
)

// meter counts the bytes moved between its start and its end, and emits samples meanwhile.
type meter struct {
	_     [128]byte    // the counter has a cache line of its own
	moved atomic.Int64 // bytes
	_     [128]byte

	run.Meter
	course   *course
	metric   model.Metric
	length   time.Duration // set at the end
	flushing atomic.Bool   // no byte moves, which is expected
	quit     chan struct{}
	ended    sync.WaitGroup
	before   int64 // bytes before the present interval
}

// startMeter starts the clock.
func (r *course) startMeter() *meter {
	m := &meter{
		course: r, metric: model.Goodput, quit: make(chan struct{}),
		Meter: run.Meter{Host: r.host, Spec: r.spec, Emit: r.emit},
	}
	if !r.measures() {
		m.metric = model.Sent
	}
	m.StartClock()
	r.meter = m
	m.ended.Go(panics.From(r.fail, m.sample))
	return m
}

// sample emits the samples of each interval, and ends a run that makes no progress.
func (m *meter) sample() {
	tick := time.NewTicker(m.Spec.Interval)
	defer tick.Stop()
	var last int64
	progress, stall := time.Now(), m.course.engine.stall
	for {
		select {
		case <-m.quit:
			return
		case <-tick.C:
			m.step()
		}
		if n := m.moved.Load(); n != last || m.flushing.Load() {
			last, progress = n, time.Now()
		} else if time.Since(progress) > stall {
			m.course.interrupt("no byte moved for " + stall.String())
		}
	}
}

// step ends the current interval.
func (m *meter) step() {
	m.Interval(m.Now(), false, true, func(length time.Duration, add func(model.Direction, model.Metric, float64)) {
		n := m.moved.Load()
		add(m.Spec.Direction, m.metric, float64(n-m.before)*8/max(1, length).Seconds())
		m.before = n
	})
}

// end stops the clock. It is idempotent.
func (m *meter) end() {
	if m.length != 0 {
		return
	}
	m.length = max(1, m.Shut())
	close(m.quit)
	m.ended.Wait()
	m.Spec.Interval = min(m.Spec.Interval, m.length) // a short run has only this one
	m.step()
}

// flow returns the meter's report of the direction.
func (m *meter) flow(role model.Role) model.FlowReport {
	n := units.Bytes(m.moved.Load())
	return model.FlowReport{Direction: m.Spec.Direction, Role: role, Bytes: n, Window: m.length, Streams: []units.Bytes{n}}
}

// idle is the busy time of an end that only waited.
func idle() fact.Of[float64] { return fact.Unknown[float64]("this end had nothing to do") }
