package netpipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/plane"
	"linerate/internal/panics"
)

// Limits bound what foreign transmitters may request of a receiver. A zero field is the
// default.
type Limits struct {
	Largest int           // message in bytes; default 64 MiB, at most MaxBytes
	Time    time.Duration // transmitters that wait for their turn; default 8
	Waiting int           // connections that have sent nothing yet; default, and most, 128
	Unknown int           // connections that have said nothing yet; default, and most, 128

	// Budget, if not nil, is the ledger from which every turn takes a session, its buffers, its
	// time and the bytes it sends, as an anonymous client; no turn lasts longer than an
	// anonymous session may.
	Budget *budget.Budget
	// Begun, if not nil, is called at the start of each transmitter's turn. It must not block.
	Begun func(from netip.Addr)
}

// Event is the outcome of one transmitter or, with Note, only a line about the server itself.
type Event struct {
	From  netip.Addr
	Began bool // it had its turn
	Sizes int  // completed sizes
	// Points are these sizes with the one-way times by the receiver's clock; an integrity check
	// has none.
	Points []model.Point
	Sent   units.Bytes   // by the receiver
	Took   time.Duration // of its turn
	Err    error         // why it was refused or ended early; nil for a whole schedule
	Note   string
}

// String returns the event as a sentence.
func (e Event) String() string {
	switch {
	case e.Note != "":
		return "netpipe: " + e.Note
	case e.Err == nil:
		return fmt.Sprintf("netpipe from %s: %d sizes, complete", e.From, e.Sizes)
	}
	return fmt.Sprintf("netpipe from %s: %d sizes, then: %v", e.From, e.Sizes, e.Err)
}

// The defaults of Limits. A test with NPtcp's own defaults takes about 1 min on a fast path,
// and its largest message is 8 MiB.
const (
	defaultLargest = 64 << 20
	defaultTime    = 15 * time.Minute
	defaultWaiting = 8
)

// complete replaces zero fields of l by their defaults.
func (l Limits) complete() Limits {
	if l.Largest <= 0 {
		l.Largest = defaultLargest
	}
	l.Largest = min(l.Largest, MaxBytes)
	if l.Time <= 0 {
		l.Time = defaultTime
	}
	if l.Begun == nil {
		l.Begun = func(netip.Addr) {}
	}
	if l.Waiting <= 0 {
		l.Waiting = defaultWaiting
	}
	if l.Unknown <= 0 || l.Unknown > mostSilent {
		l.Unknown = mostSilent
	}
	return l
}

// Serve answers the NPtcp transmitters that connect to listener, one after the other, until ctx
// ends, and then closes listener. They must have been started with the options of s, except -u:
// the receiver's schedule is unbounded, and the transmitter's quit ends it. With -b, the caller
// sets s and the listener's socket options.
//
// Simultaneous tests would disturb each other, so further transmitters wait. During the turn of
// one with -r or -s, only connections from its address count as its reconnections; those that
// waited before keep waiting. (Another transmitter at the same address that connects at just
// that moment spoils both: nothing on the wire distinguishes them.) A transmitter that falls
// silent or goes away loses its turn after 15 s at most, or 2 s while another one waits, and
// its turn then ends after 2 min. One that sends nothing gets no turn, and is disconnected
// after 2 s: a real one syncs as soon as it is connected, even while it waits.
//
// tell is called for each transmitter, and when Accept fails or works again, by one goroutine
// at a time. Serve retries a failed Accept. It returns nil if ctx ended it.
func (p *Peer) Serve(ctx context.Context, listener net.Listener, s Settings, l Limits, tell func(Event)) error {
	if err := s.Validate(); err != nil {
		return errors.Join(fmt.Errorf("settings: %w", err), listener.Close())
	}
	l = l.complete()
	tell = inTurn(tell)
	note := func(line string) { tell(Event{Note: line}) }
	// -u is not needed: the largest message bounds the schedule. Perturbed sizes above it are
	// refused on arrival.
	s.Upper = min(l.Largest, MaxBytes/2-s.Perturbation)
	if s.Start > s.Upper {
		return errors.Join(fmt.Errorf("-l %d is above the largest message, %d bytes", s.Start, l.Largest), listener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := &queue{most: l.Waiting, arrived: make(chan struct{}, 1), unknown: accept.NewCrowd(l.Unknown), tell: tell, resets: s.Resets()}
	var accepting sync.WaitGroup
	var failed error
	accepting.Go(func() {
		failed = panics.Call(func() error { return q.accept(ctx, listener, p.bounds.first) })
		cancel()
	})
	closing := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer closing()
	for {
		c, err := q.first(ctx)
		if err != nil {
			break
		}
		accept.Guard(note, "transmitter "+c.from.String(), func() { tell(p.turn(ctx, q, c, s, l)) })
	}
	_ = listener.Close()
	accepting.Wait()
	q.close()
	q.greeting.Wait()
	if errors.Is(failed, net.ErrClosed) {
		return nil
	}
	return failed
}

// inTurn returns a tell that only one goroutine calls at a time.
func inTurn(tell func(Event)) func(Event) {
	var mu sync.Mutex
	return func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		tell(e)
	}
}

// contendedTurn is how long a turn may last while another transmitter waits.
const contendedTurn = 2 * time.Minute

// turn serves one transmitter and returns the outcome.
func (p *Peer) turn(ctx context.Context, q *queue, c caller, s Settings, l Limits) (e Event) {
	e.From = c.from
	share, err := l.Budget.Open(c.from, "")
	if err != nil {
		_ = c.conn.Close()
		e.Err = err
		return e
	}
	defer share.Close()
	first, err := adopt(c.conn)
	if err != nil {
		e.Err = err
		return e
	}
	e.Began = true
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, l.Time, fmt.Errorf("took longer than %v", l.Time))
	defer cancel()
	if ends := share.Ends(); !ends.IsZero() {
		ctx, cancel = context.WithDeadlineCause(ctx, ends, budget.ErrOver)
		defer cancel()
	}
	l.Begun(c.from)
	defer plane.Thread(first)()
	q.serving(c.from)
	defer q.serving(netip.Addr{})
	r := &receiver{talk: talk{settings: s, bounds: p.bounds, link: first}, largest: l.Largest, said: c.said, share: share, charged: began}
	r.patience = func() (quiet, total time.Duration) {
		quiet, total = p.bounds.quiet, p.bounds.trial
		if !r.opened {
			quiet = p.bounds.first
		}
		if q.contended() {
			quiet, total = min(quiet, p.bounds.first), min(total, max(contendedTurn-time.Since(began), 0))
		}
		return quiet, total
	}
	r.next = func(ctx context.Context) (*plane.Link, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, p.bounds.connect, errors.New("the transmitter did not connect again"))
		defer cancel()
		again, err := q.again(ctx, c.from, r.quitAt)
		if err != nil {
			return nil, err
		}
		r.said = again.said
		return adopt(again.conn)
	}
	defer func() {
		if r.link != nil {
			// The test is over, whatever Close returns.
			_ = r.link.Close()
		}
	}()
	err = r.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	e.Sizes, e.Points, e.Sent, e.Took, e.Err = r.done, r.points, r.sent, time.Since(began), err
	return e
}

// receiver is a talk that follows.
type receiver struct {
	talk
	largest int
	said    Control // arrived while the connection waited; 0 if none
	opened  bool    // the opening exchanges are done
	done    int     // sizes
	points  []model.Point
	quitAt  time.Time // arrival of the last quit

	share   *budget.Share
	give    func() // gives the buffers back
	charged time.Time
	sent    units.Bytes
}

// errQuit reports that the transmitter ended the test.
var errQuit = errors.New("quit")

// errNoSize reports that it did so before its first size. At this point a transmitter with -r
// or -s reconnects.
var errNoSize = errors.New("the transmitter quit before its first size: if it has -r or -s, give them to serve too, with --" + optionsFlag)

// run runs the whole test of one transmitter; it returns nil if the transmitter ended it.
func (r *receiver) run(ctx context.Context) error {
	err := r.guarded(ctx, func() error {
		if err := r.sync(); err != nil {
			return err
		}
		if _, err := r.opening(false); err != nil {
			return err
		}
		return r.sync()
	})
	r.opened = true
	if err == nil {
		err = r.reset(ctx)
	}
	if err != nil {
		return err
	}
	schedule, err := NewSchedule(r.settings)
	if err != nil {
		return err
	}
	for {
		// Only the transmitter's clock decides whether the schedule continues: it sends a sync
		// or a quit.
		at, more := schedule.Next(0)
		if !more {
			return r.guarded(ctx, r.quit)
		}
		if err := r.point(ctx, at); err != nil {
			if errors.Is(err, errQuit) && r.done == 0 {
				return errNoSize
			}
			if errors.Is(err, errQuit) {
				return nil
			}
			return err
		}
		r.done++
	}
}

// point follows the transmitter through one size.
func (r *receiver) point(ctx context.Context, at Point) error {
	var repeats int
	err := r.guarded(ctx, func() error {
		if err := r.sync(); err != nil {
			return err
		}
		var b [NumberBytes]byte
		if err := r.link.Receive(b[:]); err != nil {
			return fmt.Errorf("wait for the repeat count: %w", err)
		}
		var err error
		repeats, err = DecodeRepeats(b[:])
		return err
	})
	if err != nil {
		return err
	}
	if at.Bytes > r.largest {
		return fmt.Errorf("messages of %d bytes: the largest allowed has %d", at.Bytes, r.largest)
	}
	if err := r.room(at.Bytes); err != nil {
		return err
	}
	r.prepare(at.Bytes)
	var times []float64
	for range r.settings.Trials() {
		err := r.guarded(ctx, func() error {
			if err := r.sync(); err != nil {
				return err
			}
			seconds, err := r.messages(repeats, false)
			times = append(times, seconds)
			return err
		})
		if err == nil {
			err = r.charge(at.Bytes, repeats)
		}
		if err == nil {
			err = r.reset(ctx)
		}
		if err != nil {
			if errors.Is(err, errQuit) {
				return errors.New("quit in the middle of a size: do -r, -s, -i and the number of trials agree?")
			}
			return err
		}
	}
	if !r.settings.Integrity {
		p := model.Point{Size: units.Bytes(at.Bytes), Rounds: int64(repeats)}
		for _, seconds := range times {
			p.Trials = append(p.Trials, time.Duration(seconds*float64(time.Second)))
		}
		r.points = append(r.points, p)
	}
	if !r.settings.Streaming {
		return nil
	}
	b, err := AppendTime(nil, Fastest(times...))
	if err != nil {
		return err
	}
	return r.guarded(ctx, func() error { return r.link.Send(b) })
}

// room takes two buffers of n bytes from the budget if they must grow.
func (r *receiver) room(n int) error {
	if n <= cap(r.out) {
		return nil
	}
	if r.give != nil {
		r.give()
	}
	var err error
	r.give, err = r.share.Take(budget.Amounts{Memory: 2 * units.Bytes(n)})
	return err
}

// charge charges a trial of messages messages of n bytes.
func (r *receiver) charge(n, messages int) error {
	sent := units.Bytes(0)
	if !r.settings.Streaming {
		sent = units.Bytes(n) * units.Bytes(messages)
	}
	r.sent += sent
	now := time.Now()
	took := now.Sub(r.charged)
	r.charged = now
	return errors.Join(r.share.Spend(sent), r.share.Use(took))
}

// sync reads before it writes, so that a transmitter that quits gets no other answer. It then
// returns errQuit, after the answer.
func (r *receiver) sync() error {
	r.limit()
	c := r.said
	if r.said = 0; c == 0 {
		var err error
		if c, err = r.control(); err != nil {
			return err
		}
	}
	if c == Quit {
		r.quitAt = time.Now() // a reconnection comes after the answer
		if err := r.link.Send(Quit.Append(nil)); err != nil {
			return fmt.Errorf("answer quit: %w", err)
		}
		return errQuit
	}
	if err := r.link.Send(Sync.Append(nil)); err != nil {
		return fmt.Errorf("send sync: %w", err)
	}
	return nil
}

// quit waits for a quit and answers it.
func (r *receiver) quit() error {
	err := r.sync()
	switch {
	case errors.Is(err, errQuit):
		return nil
	case err == nil:
		return errors.New("the transmitter went on beyond the largest message allowed")
	}
	return err
}

// reset takes the transmitter's next connection, if the settings have resets.
func (r *receiver) reset(ctx context.Context) error {
	if !r.settings.Resets() {
		return nil
	}
	if err := r.guarded(ctx, r.quit); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	if err := r.take(ctx); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return nil
}
