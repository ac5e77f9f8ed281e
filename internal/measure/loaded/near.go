package loaded

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/panics"
)

// step is the near end's position in its run.
type step int

const (
	quietly    step = iota // probing without load
	announced              // the far end was asked to begin the load
	warm                   // the load warms up
	window                 // the measured window
	collecting             // no more probes, but answers may arrive
	done
)

// collectStep is how often the end checks whether all answers have arrived.
const collectStep = 10 * time.Millisecond

// nearRun is the run of the end that probes.
type nearRun struct {
	*course
	probes *prober
	step   step
	opened time.Duration // edges of the measured window
	shut   time.Duration
	rate   units.BitRate // the path's latest rate, 0 if unknown
	cut    string        // the reason for an early end of probing
}

// near runs the end that probes.
func (r *course) near(ctx context.Context) (model.EndReport, error) {
	if err := r.awaitReady(ctx); err != nil {
		return model.EndReport{}, fmt.Errorf("wait for the far end: %w", err)
	}
	n := &nearRun{course: r, probes: newProber(r.test)}
	if r.spec.Lead == 0 {
		n.probes.enter(aside) // what is sent before the load begins is no probe of the idle path
	}
	n.probes.begin()
	r.Start = n.probes.start
	r.trace = r.startTrace(ctx)
	if r.spec.Lead == 0 {
		n.announce(ctx)
	}
	n.follow(ctx)
	n.drain()
	n.probes.end()
	out, err := n.report()
	out.Trace = r.trace.report(ctx)
	return out, err
}

// awaitReady waits until the far end returns probes.
func (r *course) awaitReady(ctx context.Context) error {
	if err := r.tcp.SetReadDeadline(time.Now().Add(r.engine.grace)); err != nil {
		return err
	}
	read := make(chan error, 1)
	var b [1]byte
	go func() {
		read <- panics.Call(func() error {
			_, err := io.ReadFull(r.tcp, b[:])
			return err
		})
	}()
	var why error
	select {
	case err := <-read:
		if err == nil && b[0] != letterReady {
			err = fmt.Errorf("it says %q instead", b[0])
		}
		if err != nil {
			return err
		}
		return r.tcp.SetReadDeadline(time.Time{})
	case <-r.Stopping():
		why = errStopped
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	r.wake()
	<-read
	return why
}

// receives reports whether this end receives load.
func (n *nearRun) receives() bool {
	return slices.ContainsFunc(n.spec.Direction.Parts(), func(d model.Direction) bool { return d.Receiver() == n.host })
}

// announce asks the far end to begin the load. The receiver begins first: this end at once, or
// the far end before its answer.
func (n *nearRun) announce(ctx context.Context) {
	n.step = announced
	n.probes.enter(aside)
	if n.receives() {
		n.enterLoad(ctx)
	}
	if err := n.probes.say(letterLoad); err != nil {
		n.abort("tell the far end to begin the load: " + err.Error())
	}
}

// enterLoad begins the load at this end, and the window's clock.
func (n *nearRun) enterLoad(ctx context.Context) {
	n.probes.hold()
	n.begin(ctx)
	n.probes.began.Store(int64(n.began))
	n.step = warm
	n.opened = n.began + n.spec.Omit
}

// next returns when something is due, besides events of the load.
func (n *nearRun) next() time.Duration {
	next := n.Next()
	switch n.step {
	case quietly:
		next = min(next, n.spec.Lead)
	case announced:
		next = min(next, n.spec.Lead+n.engine.grace)
	case warm:
		next = min(next, n.opened)
	case window:
		if n.spec.Duration > 0 {
			next = min(next, n.opened+n.spec.Duration)
		}
	case collecting:
		next = min(next, n.probes.now()+collectStep)
	case done:
	}
	return next
}

// follow goes through the steps until the load is over too.
func (n *nearRun) follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ack, gone, stop := n.probes.loadAck, n.probes.gone, n.Stopping()
	var measured bool
	for n.step != done || n.outcome != nil && !n.finished {
		timer.Reset(n.next() - n.probes.now())
		if measured && n.probed {
			n.Complete()
		}
		loadMeasured := n.loadMeasured()
		if measured {
			loadMeasured = nil
		}
		select {
		case <-timer.C:
			n.tick(ctx)
		case <-ack:
			ack = nil
			if n.step == announced {
				n.enterLoad(ctx)
			}
		case s, more := <-n.samples:
			if n.pass(s, more); n.finished {
				n.loadEnded()
			} else if len(s) > 0 {
				n.carried(s)
			}
		case <-n.probes.heard:
			n.carried(nil)
		case <-loadMeasured:
			measured = true
		case <-gone:
			gone = nil
			n.lose()
		case <-stop:
			stop = nil
			n.abort(errStopped.Error())
		case <-ctx.Done():
			n.abort(context.Cause(ctx).Error())
			n.drain()
		}
	}
}

// carried sets the pace of the probes from the path's rate since the load began; with two
// directions, from the slower one. Until the far end has reported what arrived, the rate is
// half of what left this end in an interval: at most a window per round trip, which is twice
// what arrives if a queue drops much.
func (n *nearRun) carried(samples []model.Sample) {
	var rates []float64
	took := (n.probes.now() - n.began).Seconds()
	if n.receives() {
		rates = append(rates, float64(n.arrived.Load())/took)
	}
	if n.spec.Direction != model.From {
		rates = append(rates, cmp.Or(float64(n.probes.reported.Load())/took, n.left(samples)/2))
	}
	if least := slices.Min(rates); least > 0 {
		n.rate = units.BitRate(least)
		keeps := falling * n.rate
		if n.probes.now()-n.began < n.spec.Interval {
			keeps /= 2
		}
		n.probes.slow(keeps)
	}
}

// falling is the factor from the rate so far to the expected rate: data that fills a queue or a
// bucket at the start is not carried again, and counts double before the first interval is
// over.
const falling = 0.8

// left returns the bit/s that left this end in an interval; 0 if samples do not show it.
func (n *nearRun) left(samples []model.Sample) float64 {
	seen := map[model.Metric]float64{}
	for _, s := range samples {
		if s.Host == n.host && s.Direction != model.From {
			seen[s.Metric] = s.Value
		}
	}
	rate := seen[model.Sent]
	if window := 8 * seen[model.Cwnd]; window > 0 && seen[model.RTT] > 0 && (rate == 0 || window < rate*seen[model.RTT]) {
		rate = window / seen[model.RTT]
	}
	return rate
}

// tick does whatever is due.
func (n *nearRun) tick(ctx context.Context) {
	at := n.probes.now()
	if at >= n.Next() {
		n.sample(at)
	}
	switch {
	case n.step == quietly && at >= n.spec.Lead:
		n.sample(at)
		n.announce(ctx)
	case n.step == announced && at >= n.spec.Lead+n.engine.grace:
		n.abort("the far end did not begin the load")
	case n.step == warm && at >= n.opened:
		n.sample(at)
		n.probes.enter(loading)
		n.probes.open()
		n.step = window
	case n.step == window && n.spec.Duration > 0 && at >= n.opened+n.spec.Duration:
		n.close(at)
	case n.step == collecting && !n.probes.waiting():
		n.finishProbing()
	}
}

// close ends the measured window.
func (n *nearRun) close(at time.Duration) {
	n.sample(at)
	n.shut = at
	n.probes.silence()
	n.step = collecting
}

// loadEnded closes the window of a load that ends by itself: after its bytes, or too early.
func (n *nearRun) loadEnded() {
	switch {
	case n.step == window:
		n.close(n.probes.now())
	case n.step < window:
		n.abort("the load ended early")
	}
}

// finishProbing tells the far end that all probes are sent.
func (n *nearRun) finishProbing() {
	// If it fails the far end is gone, and needs no message.
	_ = n.probes.say(letterEnd)
	n.step, n.probed = done, true
}

// lose handles the end of the far end's connection.
func (n *nearRun) lose() {
	if n.step == done {
		return
	}
	n.abort(fmt.Sprintf("%v: %v", errGone, n.probes.reason))
}

// abort stops the probes and the load, with the reason why.
func (n *nearRun) abort(why string) {
	if n.step < collecting {
		n.cut = why
		if n.step == window {
			n.shut = n.probes.now()
		}
		n.sample(n.probes.now())
	}
	n.probes.silence()
	if n.step != done {
		n.finishProbing()
	}
	if n.outcome != nil {
		n.load.Stop()
	}
}

// direction returns that of the load, or "" if it goes both ways.
func (n *nearRun) direction() model.Direction {
	if n.spec.Direction == model.Both {
		return ""
	}
	return n.spec.Direction
}

// sample ends the current interval and emits its samples: of datagrams if they are answered,
// else of TCP.
func (n *nearRun) sample(at time.Duration) {
	metrics := [2]model.Metric{model.LatencyP50, model.LatencyP99}
	if n.step < warm {
		metrics = [2]model.Metric{model.IdleP50, model.IdleP99}
	}
	n.Interval(at, n.step == warm, false, func(_ time.Duration, add func(model.Direction, model.Metric, float64)) {
		udp, tcp := n.probes.udps.turn(), n.probes.tcps.turn()
		h := tcp
		if udp.Count() > 0 {
			h = udp
		}
		for i, v := range []fact.Of[time.Duration]{h.Quantile(0.5), h.Percentile(0.99, 0)} {
			if v.IsKnown() {
				add(n.direction(), metrics[i], v.Or(0).Seconds())
			}
		}
	})
}
