package netpipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/plane"
)

// Options are a transmitter's options beyond the settings that both ends share.
type Options struct {
	Settings
	// Window is -b of this end, in bytes; 0 is the system default. The dial function sets it;
	// here it counts for the bound of -2.
	Window units.Bytes
	// Repeats is -n: a constant number of repeats; 0 calibrates them.
	Repeats int
}

// Validate reports every fault of o at once, joined.
func (o Options) Validate() error {
	var fault error
	if o.Repeats < 0 || o.Repeats > MaxRepeats {
		fault = fmt.Errorf("-n %d: not between 1 and %d", o.Repeats, MaxRepeats)
	}
	if o.Window < 0 || o.Window > 1<<30 {
		fault = errors.Join(fault, fmt.Errorf("-b %d: not between 1 and %d", o.Window, 1<<30))
	}
	return errors.Join(o.Settings.Validate(), fault)
}

// Transmit runs a test with the NPtcp receiver that dial connects to, over IPv4 and with
// TCP_NODELAY, and calls emit with each point as it ends. It returns the points in the order
// measured and with repeated sizes, even with an error. ErrEnded reports that the receiver had
// a shorter schedule.
//
// A point's trials are one-way times by this end's clock; a stream has one, the fastest by the
// receiver's clock; an integrity check has none.
func (p *Peer) Transmit(ctx context.Context, dial func(ctx context.Context) (*net.TCPConn, error), o Options, emit func(model.Point)) ([]model.Point, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if o.Bidirectional {
		send, receive, err := buffers(ctx, int(o.Window))
		if err != nil {
			return nil, err
		}
		if o.Settings, err = o.Bounded(send, receive); err != nil {
			return nil, err
		}
	}
	if o.Repeats == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.bounds.wholeOf(o.Settings), errWhole)
		defer cancel()
	}
	t := &transmitter{talk: talk{settings: o.Settings, bounds: p.bounds}, options: o, emit: emit, met: p.met}
	t.next = func(ctx context.Context) (*plane.Link, error) { return t.redial(ctx, dial) }
	c, err := dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to receiver: %w", err)
	}
	if t.link, err = adopt(c); err != nil {
		return nil, err
	}
	defer plane.Thread(t.link)()
	err = t.run(ctx)
	if t.link != nil {
		err = errors.Join(err, t.link.Close())
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return t.points, err
}

// transmitter is a talk that leads.
type transmitter struct {
	talk
	options Options
	emit    func(model.Point)
	met     func()
	points  []model.Point
	fresh   bool // the connection follows a reset, and nothing has arrived on it
}

// guarded calls f, which uses the current connection, and interrupts it when ctx ends.
func (t *talk) guarded(ctx context.Context, f func() error) error {
	stop := context.AfterFunc(ctx, t.link.Interrupt)
	err := f()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// run runs the whole test.
func (t *transmitter) run(ctx context.Context) error {
	var last float64
	err := t.guarded(ctx, func() error {
		if err := t.sync(); err != nil {
			return err
		}
		if t.met != nil {
			t.met()
		}
		var err error
		if last, err = t.opening(true); err != nil {
			return err
		}
		return t.sync()
	})
	if err == nil {
		err = t.reset(ctx)
	}
	if err != nil {
		return err
	}
	schedule, err := NewSchedule(t.settings)
	if err != nil {
		return err
	}
	for {
		point, more := schedule.Next(last)
		if !more {
			return t.answered(ctx, t.quit)
		}
		if last, err = t.point(ctx, point, last); err != nil {
			return err
		}
	}
}

// point measures one size and returns its one-way time in seconds.
func (t *transmitter) point(ctx context.Context, at Point, last float64) (float64, error) {
	repeats := t.options.Repeats
	if repeats == 0 {
		repeats = t.settings.Repeats(at, last)
	}
	t.prepare(at.Bytes)
	err := t.answered(ctx, func() error {
		if err := t.sync(); err != nil {
			return err
		}
		b, err := AppendRepeats(nil, repeats)
		if err != nil {
			return err
		}
		return t.link.Send(b)
	})
	if err != nil {
		return 0, err
	}
	var times []float64
	for range t.settings.Trials() {
		err := t.answered(ctx, func() error {
			if err := t.sync(); err != nil {
				return err
			}
			seconds, err := t.messages(repeats, true)
			times = append(times, seconds)
			return err
		})
		if err == nil {
			err = t.reset(ctx)
		}
		if err != nil {
			return 0, err
		}
	}
	if t.settings.Streaming {
		var b [NumberBytes]byte
		err := t.answered(ctx, func() error {
			t.limit()
			return t.link.Receive(b[:])
		})
		if err != nil {
			return 0, fmt.Errorf("wait for the receiver's time: %w", err)
		}
		seconds, err := DecodeTime(b[:])
		if err != nil {
			return 0, err
		}
		times = []float64{seconds}
	}
	t.keep(at, repeats, times)
	return Fastest(times...), nil
}

// keep stores the result of a size.
func (t *transmitter) keep(at Point, repeats int, times []float64) {
	p := model.Point{Size: units.Bytes(at.Bytes), Rounds: int64(repeats)}
	if !t.settings.Integrity {
		for _, seconds := range times {
			p.Trials = append(p.Trials, time.Duration(seconds*float64(time.Second)))
		}
	}
	t.points = append(t.points, p)
	t.emit(p)
}

// sync writes, then reads, as NPtcp does at both ends.
func (t *transmitter) sync() error {
	t.limit()
	if err := t.link.Send(Sync.Append(nil)); err != nil {
		return fmt.Errorf("send sync: %w", err)
	}
	c, err := t.control()
	var outOfStep *OutOfStepError
	switch {
	case errors.Is(err, plane.ErrStalled), errors.Is(err, plane.ErrInterrupted), errors.As(err, &outOfStep):
		return err
	case err != nil:
		// A receiver that has finished takes five bytes for a quit, answers with five and
		// closes.
		return fmt.Errorf("%w: %w", ErrEnded, err)
	case c != Sync:
		return fmt.Errorf("got %s where sync is due: %w", c, ErrEnded)
	}
	return nil
}

// quit ends the current connection: it returns when the receiver has closed it, because until
// then it may still be closing its listener too.
func (t *transmitter) quit() error {
	t.link.Limit(t.bounds.quiet, t.bounds.quiet)
	if err := t.link.Send(Quit.Append(nil)); err != nil {
		return fmt.Errorf("send quit: %w", err)
	}
	var answer [QuitAnswerBytes]byte
	if err := t.link.Receive(answer[:]); err != nil {
		return fmt.Errorf("wait for the answer to quit: %w", err)
	}
	t.link.Limit(t.bounds.ending, t.bounds.ending)
	// In any case the connection is of no more use.
	_ = t.link.Receive(answer[:1])
	return nil
}

// reset opens a new connection, if the settings have resets.
func (t *transmitter) reset(ctx context.Context) error {
	if !t.settings.Resets() {
		return nil
	}
	if err := t.guarded(ctx, t.quit); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	if err := t.take(ctx); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	t.fresh = true
	return nil
}

// answered is guarded for an f that begins with the receiver's answer. A connection after a
// reset may have reached the listener that the receiver was about to close: if it breaks before
// anything arrived, answered tries the next one.
func (t *transmitter) answered(ctx context.Context, f func() error) error {
	for until := time.Now().Add(t.bounds.connect); ; {
		before := t.link.Received()
		err := t.guarded(ctx, f)
		nothing := t.link.Received() == before
		if !t.fresh || !nothing || err == nil || errors.Is(err, plane.ErrStalled) || ctx.Err() != nil || time.Now().After(until) {
			t.fresh = false
			return err
		}
		if err := t.take(ctx); err != nil {
			return err
		}
	}
}

// redial retries to connect until it succeeds: the receiver refuses until it listens again.
func (t *transmitter) redial(ctx context.Context, dial func(ctx context.Context) (*net.TCPConn, error)) (*plane.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, t.bounds.connect)
	defer cancel()
	for {
		c, err := dial(ctx)
		if err == nil {
			return adopt(c)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connect again: %w", err)
		}
		pause := time.NewTimer(t.bounds.retry)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}
