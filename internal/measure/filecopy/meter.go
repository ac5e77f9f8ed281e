package filecopy

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/run"
	"linerate/internal/rescue"
)

// meter counts what moves between its start and its end, and emits samples
// meanwhile.
type meter struct {
	_     [128]byte    // the counter has its cache lines for itself
	moved atomic.Int64 // bytes
	_     [128]byte

	run      *course
	metric   model.Metric
	start    time.Time
	length   time.Duration // once it has ended
	flushing atomic.Bool   // no byte moves, and that is right
	from, to run.Processor
	quit     chan struct{}
	ended    sync.WaitGroup
	prev     run.Processor // when the present interval began
	before   int64         // bytes until then
}

// startMeter starts the clock.
func (r *course) startMeter() *meter {
	m := &meter{run: r, metric: model.Goodput, quit: make(chan struct{}), from: run.ReadEdge(0)}
	if !r.measures() {
		m.metric = model.Sent
	}
	m.prev = m.from
	m.start = time.Now()
	r.meter = m
	m.ended.Go(rescue.From(r.fail, m.sample))
	return m
}

// sample emits the samples of each interval, and ends a run that stands still.
func (m *meter) sample() {
	tick := time.NewTicker(m.run.spec.Interval)
	defer tick.Stop()
	var last int64
	progress := time.Now()
	for {
		select {
		case <-m.quit:
			return
		case <-tick.C:
			m.step(time.Since(m.start))
		}
		if n := m.moved.Load(); n != last || m.flushing.Load() {
			last, progress = n, time.Now()
		} else if time.Since(progress) > m.run.engine.stall {
			m.run.interrupt("no byte moved for " + m.run.engine.stall.String())
		}
	}
}

// step ends the present interval at time at.
func (m *meter) step(at time.Duration) {
	length := at - m.prev.At
	if length <= 0 {
		return
	}
	n := m.moved.Load()
	cpu := run.Read(at)
	m.run.emit([]model.Sample{
		{Host: m.run.host, Direction: m.run.spec.Direction, Metric: m.metric, Start: m.prev.At, Length: length,
			Value: float64(n-m.before) * 8 / length.Seconds()},
		cpu.Sample(m.prev, m.run.host, 0),
	})
	m.prev, m.before = cpu, n
}

// end stops the clock. It is idempotent.
func (m *meter) end() {
	if m.length != 0 {
		return
	}
	m.length = max(1, time.Since(m.start))
	m.to = run.ReadEdge(m.length)
	close(m.quit)
	m.ended.Wait()
	// A very short interval says nothing of rates.
	if m.length-m.prev.At >= m.run.spec.Interval/10 || m.prev.At == 0 {
		m.step(m.length)
	}
}

// flow is what the meter says of the direction.
func (m *meter) flow(role model.Role) model.FlowReport {
	n := units.Bytes(m.moved.Load())
	return model.FlowReport{Direction: m.run.spec.Direction, Role: role, Bytes: n, Window: m.length, Streams: []units.Bytes{n}}
}

// fill adds the processor times to out.
func (m *meter) fill(out *model.EndReport) { run.Fill(out, m.from, m.to) }

// idle is the busy time of an end that only waited.
func idle() fact.Of[float64] { return fact.Unknown[float64]("this end had nothing to do") }

// joinHow makes one text of what was done.
func joinHow(parts []string) string { return strings.Join(parts, "; ") }
