package reqresp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/plane"
	"linerate/internal/panics"
)

// The first byte of a request.
const (
	asideByte  = 'w' // warm-up: not counted
	windowByte = 'm' // of the measured window
)

// asker is the asking end of one direction.
type asker struct {
	direction model.Direction
	spec      spec
	waiter    waiter
	channel   *channel
	fresh     *fresh // set if each request has its own connection

	workers []*worker
	meters  []*meter
	epoch   atomic.Uint32
	stop    atomic.Bool
	expired atomic.Bool   // stopped because answers took too long
	start   time.Time     // set before release is closed
	release chan struct{} // closed to start
	running sync.WaitGroup
	fail    func(error) // ends the run because of a bug; set before begin
	closed  sync.Once
	failure error // error of close
}

// worker sends requests over one connection at a time.
type worker struct {
	*asker
	meter
	index   int
	line    *plane.Link // nil if each request has its own connection
	request []byte
	head    int // bytes before the request itself: the cookie of a fresh connection
	reply   []byte
	open    time.Duration // start of the window
	shut    time.Duration
	free    time.Duration // time of the last answer
	reason  error         // reason for an early end
	misses  misses
}

func newAsker(d model.Direction, spec spec, p waiter, c *channel) *asker {
	a := &asker{direction: d, spec: spec, waiter: p, channel: c, release: make(chan struct{})}
	if spec.Requests.Connect {
		a.fresh = &fresh{asker: a}
		for range spec.Streams {
			a.employ(nil)
		}
	}
	return a
}

// employ adds the worker for the next stream.
func (a *asker) employ(l *plane.Link) {
	w := &worker{
		asker: a, index: len(a.workers), line: l,
		request: plane.Payload(int(a.spec.Block)), reply: make([]byte, a.spec.Requests.Reply),
		open: a.spec.Omit, shut: a.spec.Omit + a.spec.Duration,
	}
	w.meter.epoch = &a.epoch
	a.workers = append(a.workers, w)
	a.meters = append(a.meters, &w.meter)
}

// meet reads the answering end's hello, and tries its port if it has one.
func (a *asker) meet(ctx context.Context, limit time.Duration) error {
	var b [helloSize]byte
	err := a.channel.bounded(ctx, limit, func() error {
		_, err := io.ReadFull(a.channel.conn, b[:])
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the answering end %s: %w", a.direction, err)
	}
	h, err := parseHello(b[:])
	if err != nil {
		return fmt.Errorf("%s: %w", a.direction, err)
	}
	if a.fresh == nil {
		return nil
	}
	return a.fresh.meet(ctx, h, limit)
}

// begin starts the workers; they wait for release.
func (a *asker) begin() {
	var ready sync.WaitGroup
	for _, w := range a.workers {
		ready.Add(1)
		a.running.Go(panics.From(a.fail, func() {
			a.waiter.work(func() {
				ready.Done()
				<-a.release
				w.reason = w.ask()
			})
		}))
	}
	ready.Wait()
}

// now returns the time since the start.
func (a *asker) now() time.Duration { return time.Since(a.start) }

// arrival returns when request i is due, since the start.
func arrival(i int64, rate float64) time.Duration {
	return time.Duration(math.Round(float64(i) / rate * float64(time.Second)))
}

// arrivals returns how many requests are due before t.
func arrivals(t time.Duration, rate float64) int64 {
	n := int64(math.Ceil(t.Seconds() * rate))
	// Rounding may make it one off, either way.
	for n > 0 && arrival(n-1, rate) >= t {
		n--
	}
	for arrival(n, rate) < t {
		n++
	}
	return n
}

// ask sends requests until the window has closed. Request n of this worker is request index + n
// × streams of the run.
func (w *worker) ask() error {
	rate, step := w.spec.Requests.Rate, int64(w.spec.Streams)
	for i := int64(w.index); ; i += step {
		now := w.now()
		due := now
		if rate > 0 {
			due = arrival(i, rate)
		}
		// A worker that got no CPU for all of the window sends one request after it.
		if due >= w.shut && (rate > 0 || w.issued > 0) {
			return nil
		}
		inWindow := due >= w.open
		if now < due {
			if !w.until(due) {
				return errStopped
			}
			now = w.now()
		}
		if inWindow && rate > 0 {
			w.slips.Record(max(1, now-max(due, w.free)))
		}
		if err := w.once(inWindow, now, due); err != nil {
			return err
		}
	}
}

// once sends one request, at time now, and records the result. An error ends the worker.
func (w *worker) once(inWindow bool, now, due time.Duration) error {
	w.request[w.head] = asideByte
	if inWindow {
		w.request[w.head] = windowByte
		w.issued++
	}
	done, err := w.exchange()
	if err != nil {
		if inWindow && errors.Is(err, errStopped) && !w.expired.Load() {
			w.issued-- // not lost: the worker did not wait for the answer
		}
		return w.missed(err)
	}
	w.misses.row = 0
	w.free = done
	w.answer(done - due)
	if inWindow {
		w.answered++
		w.latency.Record(done - due)
		if w.spec.Requests.Rate > 0 {
			w.service.Record(done - now)
		}
	}
	if done >= w.open && done < w.shut {
		w.completed++
	}
	return nil
}

// exchange sends the request and returns when the answer arrived.
func (w *worker) exchange() (time.Duration, error) {
	if w.line == nil {
		return w.fresh.exchange(w)
	}
	if err := w.line.Send(w.request); err != nil {
		return 0, err
	}
	w.sent.add(len(w.request))
	if err := w.line.Receive(w.reply); err != nil {
		return 0, err
	}
	return w.now(), nil
}

// until waits for the time due, and returns false if the worker was stopped before.
func (w *worker) until(due time.Duration) bool {
	margin := w.waiter.margin()
	for !w.stop.Load() {
		left := due - w.now()
		if left <= 0 {
			return true
		}
		if left > margin {
			w.waiter.nap(min(left-margin, longestNap))
		}
	}
	return false
}

// halt stops the workers.
func (a *asker) halt() {
	a.stop.Store(true)
	for _, w := range a.workers {
		if w.line != nil {
			w.line.Interrupt()
		}
	}
	if a.fresh != nil {
		a.fresh.interrupt()
	}
}

// ending returns why all workers ended early, or "" if one did not.
func (a *asker) ending() string {
	why := "the answering end went away"
	for _, w := range a.workers {
		switch {
		case w.reason == nil:
			return ""
		case !errors.Is(w.reason, io.EOF):
			why = w.reason.Error()
		}
	}
	return why
}

// tally is the sum of a direction's workers.
type tally struct {
	issued, answered, completed int64
	latency, service, slips     *hist.Histogram
}

// count sums up the meters. The workers must have ended.
func (a *asker) count() tally {
	t := tally{latency: new(hist.Histogram), service: new(hist.Histogram), slips: new(hist.Histogram)}
	for _, m := range a.meters {
		t.issued += m.issued
		t.answered += m.answered
		t.completed += m.completed
		// A histogram holds 2^53 values, and a run has fewer.
		_ = t.latency.Merge(m.latency.Histogram())
		_ = t.service.Merge(m.service.Histogram())
		_ = t.slips.Merge(m.slips.Histogram())
	}
	return t
}

// flow returns this end's report of the direction: the requests in the window.
func (a *asker) flow(window time.Duration) model.FlowReport {
	r := model.FlowReport{Direction: a.direction, Role: model.Sender, Window: window}
	for _, w := range a.workers {
		n := units.Bytes(w.issued) * a.spec.Block
		r.Streams = append(r.Streams, n)
		r.Bytes += n
	}
	return r
}

// close closes the connections; the workers must have ended.
func (a *asker) close() error {
	a.closed.Do(func() {
		errs := []error{a.channel.close()}
		if a.fresh != nil {
			a.fresh.interrupt()
		}
		for _, w := range a.workers {
			if w.line != nil {
				errs = append(errs, w.line.Close())
			}
		}
		a.failure = errors.Join(errs...)
	})
	return a.failure
}
