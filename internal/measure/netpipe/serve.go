package netpipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/measure/accept"
	"linerate/internal/measure/pingpong/link"
)

// Limits bound what the transmitters of others may ask of a receiver. A zero
// field is the default.
type Limits struct {
	Largest int           // message in bytes; default 64 MiB, at most MaxBytes
	Time    time.Duration // of one transmitter's whole test; default 15 min
	Waiting int           // transmitters that wait for their turn; default 8
}

// The defaults of Limits. A test with NPtcp's own defaults takes about 1 min on
// a fast path, and its largest message has 8 MiB.
const (
	defaultLargest = 64 << 20
	defaultTime    = 15 * time.Minute
	defaultWaiting = 8
)

// complete returns l without zero fields.
func (l Limits) complete() Limits {
	if l.Largest <= 0 {
		l.Largest = defaultLargest
	}
	l.Largest = min(l.Largest, MaxBytes)
	if l.Time <= 0 {
		l.Time = defaultTime
	}
	if l.Waiting <= 0 {
		l.Waiting = defaultWaiting
	}
	return l
}

// Serve answers the NPtcp transmitters that connect to listener, one after the
// other, until ctx ends, and then closes listener. They must have been started
// with the options of s, but for -u: the receiver follows a schedule without
// end, and the transmitter's quit ends it. With -b, s and the listener's socket
// options are the caller's matter.
//
// Tests that run at the same time would measure each other, so further
// transmitters wait. While one with -r or -s has its turn, only its own address
// may connect again for it; who waited before that keeps waiting. (Another one
// at the same address that comes in just that moment spoils both: nothing on
// the wire tells them apart.) A transmitter that falls silent or goes away costs
// its own turn, after 15 s at most, and one that says nothing at all after 2 s: a
// real one syncs as soon as it is connected, also while it waits.
//
// log is called with a sentence on each test, and where accepting fails or works
// again, from one goroutine at a time. Accepting that fails is tried again. The
// error is nil when ctx ended it.
func (p *Peer) Serve(ctx context.Context, listener net.Listener, s Settings, l Limits, log func(string)) error {
	if err := s.Validate(); err != nil {
		return errors.Join(fmt.Errorf("settings: %w", err), listener.Close())
	}
	l = l.complete()
	log = inTurn(log)
	// -u is not asked for: the largest message bounds the schedule. What lies
	// above it by its perturbation is refused when it comes.
	s.Upper = min(l.Largest, MaxBytes/2-s.Perturbation)
	if s.Start > s.Upper {
		return errors.Join(fmt.Errorf("-l %d is above the largest message, %d bytes", s.Start, l.Largest), listener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := &queue{most: l.Waiting, arrived: make(chan struct{}, 1)}
	var accepting sync.WaitGroup
	var failed error
	accepting.Go(func() {
		failed = q.accept(ctx, listener, log)
		cancel()
	})
	closing := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer closing()
	for {
		c, err := q.first(ctx)
		if err != nil {
			break
		}
		accept.Guard(log, "netpipe from "+c.from.String(), func() { log(p.turn(ctx, q, c, s, l)) })
	}
	_ = listener.Close()
	accepting.Wait()
	q.close()
	if errors.Is(failed, net.ErrClosed) {
		return nil
	}
	return failed
}

// inTurn is log, called by one goroutine at a time.
func inTurn(log func(string)) func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		log(line)
	}
}

// turn serves one transmitter and returns what became of it.
func (p *Peer) turn(ctx context.Context, q *queue, c caller, s Settings, l Limits) string {
	from := c.from.String()
	first, err := adopt(c.conn)
	if err != nil {
		return fmt.Sprintf("netpipe from %s: %v", from, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.Time, fmt.Errorf("took longer than %v", l.Time))
	defer cancel()
	defer link.Thread(first)()
	q.serving(c.from)
	defer q.serving(netip.Addr{})
	r := &receiver{talk: talk{settings: s, bounds: p.bounds, link: first}, largest: l.Largest}
	r.next = func(ctx context.Context) (*link.Link, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, p.bounds.connect, errors.New("the transmitter did not connect again"))
		defer cancel()
		again, err := q.again(ctx, c.from, r.quitAt)
		if err != nil {
			return nil, err
		}
		return adopt(again.conn)
	}
	defer func() {
		if r.link != nil {
			// Whatever it says: the test is over.
			_ = r.link.Close()
		}
	}()
	err = r.run(ctx)
	switch {
	case err == nil:
		return fmt.Sprintf("netpipe from %s: %d sizes, complete", from, r.done)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Sprintf("netpipe from %s: %d sizes, then: %v", from, r.done, err)
}

// receiver is a talk that follows.
type receiver struct {
	talk
	largest int
	heard   bool      // the transmitter has said something
	done    int       // sizes
	quitAt  time.Time // when the last quit came
}

// errQuit says that the transmitter ended the test.
var errQuit = errors.New("quit")

// run is the whole test of one transmitter; nil when that has ended it.
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
		// Only the transmitter's clock decides whether the schedule goes on:
		// it says so, with a sync or a quit.
		at, more := schedule.Next(0)
		if !more {
			return r.guarded(ctx, r.quit)
		}
		if err := r.point(ctx, at); err != nil {
			if errors.Is(err, errQuit) {
				return nil
			}
			return err
		}
		r.done++
	}
}

// point follows through one size.
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
			err = r.reset(ctx)
		}
		if err != nil {
			if errors.Is(err, errQuit) {
				return errors.New("quit in the middle of a size: do -r, -s, -i and the number of trials agree?")
			}
			return err
		}
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

// sync reads before it writes, so that a transmitter which quits is answered
// with nothing else. It returns errQuit then, after the answer.
func (r *receiver) sync() error {
	if r.limit(); !r.heard {
		r.link.Limit(r.bounds.first, r.bounds.trial)
	}
	c, err := r.control()
	r.heard = true
	if err != nil {
		return err
	}
	if c == Quit {
		r.quitAt = time.Now() // who connects again does so after the answer
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

// reset takes the transmitter's next connection, with settings that have resets.
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

// queue holds the connections that were accepted and not yet served.
type queue struct {
	most    int
	arrived chan struct{} // holds one element when something arrived

	mu      sync.Mutex
	callers []caller // in the order of their arrival
	served  netip.Addr
	closed  bool
}

// caller is a connection that waits.
type caller struct {
	conn *net.TCPConn
	from netip.Addr
	at   time.Time
}

// accept fills the queue until listener is closed.
func (q *queue) accept(ctx context.Context, listener net.Listener, log func(string)) error {
	return accept.Loop(ctx, listener, log, func(c net.Conn) {
		conn, ok := c.(*net.TCPConn)
		if !ok {
			log(fmt.Sprintf("netpipe: accepted a %T, which is not TCP", c))
			_ = c.Close()
			return
		}
		// Its own address is what a TCP connection always has.
		from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		q.add(caller{conn: conn, from: from.Addr().Unmap(), at: time.Now()})
	})
}

// add appends c, or closes it where no more may wait.
func (q *queue) add(c caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := q.most
	if c.from == q.served {
		most++
	}
	if q.closed || len(q.callers) >= most {
		_ = c.conn.Close()
		return
	}
	q.callers = append(q.callers, c)
	select {
	case q.arrived <- struct{}{}:
	default:
	}
}

// first waits for the caller whose turn it is.
func (q *queue) first(ctx context.Context) (caller, error) {
	return q.wait(ctx, func(caller) bool { return true })
}

// again waits for a connection from that address which was made after since.
func (q *queue) again(ctx context.Context, from netip.Addr, since time.Time) (caller, error) {
	return q.wait(ctx, func(c caller) bool { return c.from == from && !c.at.Before(since) })
}

// serving names who has its turn: its further connections have a place.
func (q *queue) serving(from netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served = from
}

// wait takes the first caller that fits out of the queue.
func (q *queue) wait(ctx context.Context, fits func(caller) bool) (caller, error) {
	for {
		if ctx.Err() != nil {
			return caller{}, context.Cause(ctx)
		}
		if c, ok := q.take(fits); ok {
			return c, nil
		}
		select {
		case <-q.arrived:
		case <-ctx.Done():
		}
	}
}

func (q *queue) take(fits func(caller) bool) (caller, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, c := range q.callers {
		if fits(c) {
			q.callers = append(q.callers[:i:i], q.callers[i+1:]...)
			return c, true
		}
	}
	return caller{}, false
}

// close lets go of all who wait.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, c := range q.callers {
		_ = c.conn.Close()
	}
	q.callers = nil
}
