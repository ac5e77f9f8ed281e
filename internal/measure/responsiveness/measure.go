package responsiveness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// course is one run of a client: without load for Flow.Lead, then under load.
type course struct {
	peer  *peer
	spec  model.Flow
	emit  func([]model.Sample)
	fail  func(error) // ends the run
	start time.Time
	loads []*load
	each  time.Duration // interval of the draft

	mu     sync.Mutex
	probes []probe // answered
	sent   [2]struct{ foreign, self int64 }
	lost   [2]struct{ foreign, self int64 }
	other  bool // self probes are impossible
	fault  error
}

// phases of a course, for the counts.
const (
	alone = iota
	loaded
)

// mark is how much had been carried at a time.
type mark struct {
	at      time.Duration
	carried []int64 // of each load
}

func (c *course) now() time.Duration { return time.Since(c.start) }

// run measures, and returns the report of the near end.
func (c *course) run(ctx context.Context) (model.EndReport, error) {
	f := c.spec
	c.each = interval
	if f.Omit+f.Duration >= 2*averaged*longInterval {
		c.each = longInterval
	}
	for _, d := range f.Direction.Parts() {
		c.loads = append(c.loads, &load{peer: c.peer, direction: d})
	}
	ctx, c.fail = context.WithCancelCause(ctx)
	defer c.fail(nil)
	cpu, cpuErr := sockio.ProcessCPU()
	c.start = time.Now()
	if f.Lead > 0 {
		idle, cancel := context.WithTimeout(ctx, f.Lead)
		c.probe(idle, alone, func() units.BitRate { return 0 })
		cancel()
	}
	if ctx.Err() != nil {
		return model.EndReport{}, context.Cause(ctx)
	}
	began := c.now()
	marks, err := c.fill(ctx, began)
	if err != nil {
		return model.EndReport{}, err
	}
	out := c.report(began, marks)
	if after, err := sockio.ProcessCPU(); err == nil && cpuErr == nil {
		spent := after.Sub(cpu)
		out.CPUUser, out.CPUSystem, out.CPUWindow = spent.User, spent.System, c.now()
	}
	return out, nil
}

// fill loads the path from time began, probes meanwhile, and returns what was carried by the
// end of each interval: those of samples, those of the draft, and the edges of the window.
func (c *course) fill(ctx context.Context, began time.Duration) ([]mark, error) {
	ctx, cancel := context.WithCancel(ctx)
	var probing sync.WaitGroup
	defer func() {
		cancel()
		probing.Wait()
		for _, l := range c.loads {
			l.running.Wait()
		}
	}()
	for _, l := range c.loads {
		l.add(ctx)
	}
	marks := []mark{c.mark()}
	var rate struct {
		sync.Mutex
		of units.BitRate
	}
	probing.Go(panics.From(c.fail, func() {
		c.probe(ctx, loaded, func() units.BitRate {
			rate.Lock()
			defer rate.Unlock()
			return rate.of
		})
	}))
	end := began + c.spec.Omit + c.spec.Duration
	nextConn, nextSample := began+c.each, began+c.spec.Interval
	for c.now() < end {
		due := min(nextConn, nextSample, end)
		if opens := began + c.spec.Omit; c.now() < opens {
			due = min(due, opens)
		}
		t := time.NewTimer(due - c.now())
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
		last := marks[len(marks)-1]
		marks = append(marks, c.mark())
		now := marks[len(marks)-1]
		rate.Lock()
		rate.of = c.rate(last, now)
		rate.Unlock()
		if now.at >= nextSample || now.at >= end {
			c.sample(began, marks, nextSample-c.spec.Interval)
			nextSample += c.spec.Interval
		}
		if now.at >= nextConn {
			nextConn += c.each
			for _, l := range c.loads {
				if len(l.lines) < mostConns {
					l.add(ctx)
				}
			}
		}
		for _, l := range c.loads {
			if err := l.failed(); err != nil {
				return nil, err
			}
		}
	}
	return marks, nil
}

func (c *course) mark() mark {
	m := mark{at: c.now()}
	for _, l := range c.loads {
		m.carried = append(m.carried, l.carried())
	}
	return m
}

// rate returns what all loads carried between two marks.
func (c *course) rate(a, b mark) units.BitRate {
	var n int64
	for i := range c.loads {
		n += b.carried[i] - a.carried[i]
	}
	if b.at <= a.at {
		return 0
	}
	return units.BitRate(float64(max(n, 0)) * 8 / (b.at - a.at).Seconds())
}

// sample emits the interval that began at from and ends with the last mark.
func (c *course) sample(began time.Duration, marks []mark, from time.Duration) {
	first, last := at(marks, from), marks[len(marks)-1]
	length := last.at - first.at
	if length <= 0 {
		return
	}
	var out []model.Sample
	for i, l := range c.loads {
		out = append(out, model.Sample{
			Host: model.Near, Direction: l.direction, Metric: model.Goodput, Start: first.at, Length: length,
			Value: float64(last.carried[i]-first.carried[i]) * 8 / length.Seconds(), Omitted: first.at < began+c.spec.Omit,
		})
	}
	c.emit(out)
}

// at returns the first mark at t or later.
func at(marks []mark, t time.Duration) mark {
	i := slices.IndexFunc(marks, func(m mark) bool { return m.at >= t })
	if i < 0 {
		return marks[len(marks)-1]
	}
	return marks[i]
}

// mostWaiting bounds the probes that wait for answers: a path that answers none gets no more.
const mostWaiting = 32

// probe sends foreign and self probes in turn until ctx ends, as fast as rate allows.
func (c *course) probe(ctx context.Context, phase int, rate func() units.BitRate) {
	own := c.peer.newLine() // for requests without load
	defer own.close()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	slots := make(chan struct{}, mostWaiting)
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		waiting.Go(panics.From(c.fail, func() {
			defer func() { <-slots }()
			c.one(ctx, phase, i, own)
		}))
		t := time.NewTimer(pace(rate()) / 2)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// pace returns the time between two probes of a kind: 100 a second, or fewer if a foreign and a
// self one would take more than 5 % of rate. With an unknown rate it is 10 a second.
func pace(rate units.BitRate) time.Duration {
	if rate <= 0 {
		return time.Second / 10
	}
	seconds := (foreignBytes + selfBytes) * 8 / (probeShare * float64(rate))
	return max(time.Second/mostProbes, time.Duration(min(seconds, 1)*float64(time.Second)))
}

// one sends probe number i.
func (c *course) one(ctx context.Context, phase, i int, own *line) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at, self := c.now(), i%2 == 1
	over := own
	if self && phase == loaded {
		if over = c.loads[i/2%len(c.loads)].one(i / 2 / len(c.loads)); over == nil || c.alone() {
			return
		}
	}
	var p probe
	var err error
	if self {
		p, err = c.peer.self(limited, over)
		if errors.Is(err, errBusy) {
			return
		}
		if phase == alone && errors.Is(err, errOther) {
			err = nil // there is no transfer beside it
		}
	} else {
		p, err = c.peer.foreign(limited)
	}
	if err != nil && ctx.Err() != nil {
		return // the phase ended first
	}
	p.at = at
	c.mu.Lock()
	defer c.mu.Unlock()
	sent, lost := &c.sent[phase].foreign, &c.lost[phase].foreign
	if self {
		sent, lost = &c.sent[phase].self, &c.lost[phase].self
	}
	switch {
	case errors.Is(err, errOther):
		c.other = true // makes this run's results invalid
	case err != nil:
		*sent++
		*lost++
		c.fault = err
	default:
		*sent++
		c.probes = append(c.probes, p)
	}
}

// alone reports whether self probes are known to be impossible.
func (c *course) alone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.other
}

// Names of the distributions in model.Latency.
const (
	overTCP  = "tcp"  // the handshake of a new connection
	overHTTP = "http" // a request beside a transfer, on its connection
)

// report returns the result of a run whose load began at began.
func (c *course) report(began time.Duration, marks []mark) model.EndReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	opened := began + c.spec.Omit
	first, last := at(marks, opened), marks[len(marks)-1]
	out := model.EndReport{Host: model.Near}
	for i, l := range c.loads {
		role := model.Sender
		if l.direction == model.From {
			role = model.Receiver
		}
		f := model.FlowReport{Direction: l.direction, Role: role, Window: last.at - first.at, Bytes: units.Bytes(max(0, last.carried[i]-first.carried[i]))}
		out.Flows = append(out.Flows, f)
		out.Values = append(out.Values, model.Value{Direction: l.direction, Metric: model.Goodput, Value: float64(f.Bytes) * 8 / f.Window.Seconds()})
	}
	var values []model.Value
	out.Latencies, values = c.latencies(opened)
	out.Values = append(out.Values, values...)
	var goodputs, rpms []float64
	for t := began; t+c.each <= last.at; t += c.each {
		goodputs = append(goodputs, float64(c.rate(at(marks, t), at(marks, t+c.each))))
		rpms = append(rpms, rpm(c.within(t, t+c.each)))
	}
	direction := c.direction()
	if v := rpm(c.within(max(began, last.at-averaged*c.each), last.at)); !math.IsNaN(v) && !c.other {
		out.Values = append(out.Values, model.Value{Direction: direction, Metric: model.Responsiveness, Value: v})
		if low := confidence(goodputs, rpms); low != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("confidence in the responsiveness is %s: rate and times had not settled over intervals of %s, which takes %d at the least; a longer test (-t) helps", low, units.FormatDuration(c.each), 2*averaged-1))
		}
	} else {
		why := "no probe of one kind was answered"
		if c.other {
			why = errOther.Error()
		}
		out.Warnings = append(out.Warnings, "no responsiveness: "+why)
	}
	if n := c.lost[loaded].foreign + c.lost[loaded].self; n > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d of %d probes under load failed, the last one: %v", n, c.sent[loaded].foreign+c.sent[loaded].self, c.fault))
	}
	return out
}

// direction returns the direction of values: empty if both are loaded at once.
func (c *course) direction() model.Direction {
	if c.spec.Direction == model.Both {
		return ""
	}
	return c.spec.Direction
}

// within returns the probes that were sent from a until b, under load.
func (c *course) within(a, b time.Duration) []probe {
	var out []probe
	for _, p := range c.probes {
		if p.at >= a && p.at < b {
			out = append(out, p)
		}
	}
	return out
}

// latencies returns the distributions of the probes before the load, and since opened.
func (c *course) latencies(opened time.Duration) ([]model.Latency, []model.Value) {
	var times [2][2]hist.Recorder // by phase, then TCP and HTTP
	for _, p := range c.probes {
		phase := loaded
		if p.at < c.spec.Lead {
			phase = alone
		} else if p.at < opened {
			continue
		}
		if p.self {
			times[phase][1].Record(p.http)
		} else {
			times[phase][0].Record(p.tcp)
		}
	}
	var out []model.Latency
	var values []model.Value
	for phase, name := range []string{"idle ", "loaded "} {
		for kind, over := range []string{overTCP, overHTTP} {
			h := times[phase][kind].Histogram()
			lost := c.lost[phase].foreign
			if kind == 1 {
				lost = c.lost[phase].self
			}
			if h.Count() == 0 && lost == 0 {
				continue
			}
			out = append(out, model.Latency{Name: name + over, Direction: c.spec.Direction, Times: h, Sent: int64(h.Count()) + lost, Lost: lost})
		}
		metrics := [2][2]model.Metric{{model.IdleP50, model.IdleP99}, {model.LatencyP50, model.LatencyP99}}[phase]
		for i, q := range []float64{0.5, 0.99} {
			if t, known := times[phase][0].Histogram().Quantile(q).Get(); known {
				values = append(values, model.Value{Direction: c.direction(), Metric: metrics[i], Value: t.Seconds()})
			}
		}
	}
	return out, values
}
