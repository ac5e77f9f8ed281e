package peer

import (
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/sockio"
	"linerate/internal/rescue"
)

// reading is what a meter sums up.
type reading struct{ bytes, datagrams, lost int64 }

// meter makes the samples of one direction of a UDP test.
type meter struct {
	host      model.Host
	direction model.Direction
	role      model.Role
	interval  time.Duration
	omit      time.Duration
	read      func() reading
}

// start begins to emit samples; the function that it returns ends that with the
// last interval.
func (m meter) start(s *sink) (stop func()) {
	emit, end := s.begin()
	if m.interval == 0 {
		m.interval = time.Second
	}
	done := make(chan struct{})
	var running rescue.Group
	running.Go(func() { m.loop(done, emit) })
	return func() {
		close(done)
		running.Wait()
		end()
	}
}

func (m meter) loop(done <-chan struct{}, emit func([]model.Sample)) {
	start := time.Now()
	tick := time.NewTicker(m.interval)
	defer tick.Stop()
	var (
		prev reading
		at   time.Duration
	)
	busy, _ := sockio.ProcessCPU() // unsupported nowhere that linerate runs
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-done:
			ended = true
		}
		now, cur := time.Since(start), m.read()
		if now-at < m.interval/10 {
			continue
		}
		cpu, _ := sockio.ProcessCPU()
		emit(m.samples(at, now-at, prev, cur, cpu.Sub(busy).Total()))
		prev, at, busy = cur, now, cpu
	}
}

func (m meter) samples(at, length time.Duration, prev, cur reading, cpu time.Duration) []model.Sample {
	var out []model.Sample
	add := func(d model.Direction, metric model.Metric, v float64) {
		out = append(out, model.Sample{
			Host: m.host, Direction: d, Metric: metric, Start: at, Length: length, Value: v, Omitted: at < m.omit,
		})
	}
	rate := float64(cur.bytes-prev.bytes) * 8 / length.Seconds()
	if m.role == model.Sender {
		add(m.direction, model.Sent, rate)
	} else {
		add(m.direction, model.Goodput, rate)
		add(m.direction, model.Datagrams, float64(cur.datagrams-prev.datagrams))
		// What came late is not lost after all.
		add(m.direction, model.Lost, float64(max(0, cur.lost-prev.lost)))
	}
	add("", model.CPU, cpu.Seconds()/length.Seconds())
	return out
}
