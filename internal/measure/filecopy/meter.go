package filecopy

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/sockio"
)

// meter counts what moves between its start and its end, and emits samples
// meanwhile.
type meter struct {
	_     [128]byte    // the counter has its cache lines for itself
	moved atomic.Int64 // bytes
	_     [128]byte

	run      *run
	metric   model.Metric
	start    time.Time
	length   time.Duration // once it has ended
	flushing atomic.Bool   // no byte moves, and that is right
	from, to cpuReading
	quit     chan struct{}
	ended    sync.WaitGroup
	prev     time.Duration // the present interval's start
	before   int64         // bytes until then
	used     time.Duration // CPU until then
}

type cpuReading struct {
	process sockio.CPUTime
	busy    fact.Of[time.Duration] // of the whole machine
}

func readCPU() cpuReading {
	var c cpuReading
	// Unsupported nowhere that linerate runs; zero elsewhere.
	c.process, _ = sockio.ProcessCPU()
	busy, err := sockio.SystemCPU()
	if err != nil {
		c.busy = fact.Unknown[time.Duration](err.Error())
	} else {
		c.busy = fact.Known(busy, "/proc/stat")
	}
	return c
}

// startMeter starts the clock.
func (r *run) startMeter() *meter {
	m := &meter{run: r, metric: model.Goodput, quit: make(chan struct{}), from: readCPU()}
	if !r.measures() {
		m.metric = model.Sent
	}
	m.used = m.from.process.Total()
	m.start = time.Now()
	r.meter = m
	m.ended.Go(m.sample)
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
	length := at - m.prev
	if length <= 0 {
		return
	}
	n := m.moved.Load()
	cpu, _ := sockio.ProcessCPU()
	m.run.emit([]model.Sample{
		{Host: m.run.host, Direction: m.run.spec.Direction, Metric: m.metric, Start: m.prev, Length: length,
			Value: float64(n-m.before) * 8 / length.Seconds()},
		{Host: m.run.host, Metric: model.CPU, Start: m.prev, Length: length,
			Value: (cpu.Total() - m.used).Seconds() / length.Seconds()},
	})
	m.prev, m.before, m.used = at, n, cpu.Total()
}

// end stops the clock. It is idempotent.
func (m *meter) end() {
	if m.length != 0 {
		return
	}
	m.length = max(1, time.Since(m.start))
	m.to = readCPU()
	close(m.quit)
	m.ended.Wait()
	// A sliver says nothing of rates.
	if m.length-m.prev >= m.run.spec.Interval/10 || m.prev == 0 {
		m.step(m.length)
	}
}

// flow is what the meter says of the direction.
func (m *meter) flow(role model.Role) model.FlowReport {
	n := units.Bytes(m.moved.Load())
	return model.FlowReport{Direction: m.run.spec.Direction, Role: role, Bytes: n, Window: m.length, Streams: []units.Bytes{n}}
}

// fill adds the processor times to out.
func (m *meter) fill(out *model.EndReport) {
	used := m.to.process.Sub(m.from.process)
	out.CPUUser, out.CPUSystem, out.CPUWindow = used.User, used.System, m.length
	before, known := m.from.busy.Get()
	after, also := m.to.busy.Get()
	if known && also && m.length > 0 {
		out.SystemBusy = fact.Known((after-before).Seconds()/m.length.Seconds(), m.to.busy.Source())
		return
	}
	out.SystemBusy = fact.Unknown[float64](m.from.busy.Reason())
}

// idle is the busy time of an end that only waited.
func idle() fact.Of[float64] { return fact.Unknown[float64]("this end had nothing to do") }

// joinHow makes one text of what was done.
func joinHow(parts []string) string { return strings.Join(parts, "; ") }
