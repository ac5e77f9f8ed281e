package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpinfo"
	"linerate/internal/panics"
)

// kept is a second handle of a stream's connection, for facts that the engine that owns the
// first one does not report.
type kept struct {
	conn        *net.TCPConn
	before      int64          // bytes received before the first one of payload
	retransmits fact.Of[int64] // before the measured window; under way.mu
}

// opener opens or takes over the next stream. It applies the options as early as possible.
type opener func(ctx context.Context, o engine.SocketOptions) (*net.TCPConn, []string, error)

// openTCP opens l's streams and prepares its test. rate limits what this end sends, in bit/s of
// payload per stream; 0 is no limit.
func (l *way) openTCP(ctx context.Context, bulk engine.Engine, env engine.Env, rate int64, open opener) error {
	l.account = l.accountTCP
	env.Open = func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		var out engine.Opened
		for range n {
			c, warnings, err := open(ctx, o)
			if err != nil {
				return engine.Opened{}, errors.Join(err, l.drop(out.Conns))
			}
			out.Conns = append(out.Conns, c)
			l.warnings = append(l.warnings, warnings...)
			if err := l.hold(c, rate); err != nil {
				return engine.Opened{}, errors.Join(err, l.drop(out.Conns))
			}
		}
		return out, nil
	}
	test, err := bulk.Prepare(ctx, env, l.spec)
	if err != nil {
		return errors.Join(err, l.drop(nil))
	}
	l.test = test
	return nil
}

// drop closes what was opened before the opening failed.
func (l *way) drop(conns []*net.TCPConn) error {
	errs := lists.Each(conns, func(c *net.TCPConn) error { return c.Close() })
	for _, k := range l.kept {
		_ = k.conn.Close() // it may be one of conns
	}
	l.kept = nil
	return errors.Join(errs...)
}

// hold creates a second handle of c.
func (l *way) hold(c *net.TCPConn, rate int64) error {
	if rate > 0 && l.role == model.Sender {
		if err := pace(c, max(1, uint64(rate)/8)); err != nil {
			return fmt.Errorf("limit a TCP stream to %d bit/s: %w", rate, err)
		}
	}
	again, err := sockio.Twin(c)
	if err != nil {
		return err
	}
	k := &kept{conn: again}
	// If the system does not report the count, it is not used later either.
	k.before, _ = received(again)
	l.kept = append(l.kept, k)
	return nil
}

// rebase records the retransmissions before the measured window.
func (l *way) rebase() {
	for _, k := range l.kept {
		info, err := tcpinfo.Read(k.conn)
		if err != nil {
			continue
		}
		l.mu.Lock()
		k.retransmits = info.Retransmits
		l.mu.Unlock()
	}
}

// accountTCP returns this end's results of each stream.
func (l *way) accountTCP() []iperf3.StreamResult {
	out := make([]iperf3.StreamResult, len(l.streams))
	f, _ := l.flow()
	for i, s := range l.streams {
		out[i].ID = int64(s.ID)
		if i < len(f.Streams) {
			out[i].Bytes = int64(f.Streams[i])
		}
		if l.role == model.Receiver || i >= len(l.kept) {
			continue
		}
		info, err := tcpinfo.Read(l.kept[i].conn)
		if total, known := info.Retransmits.Get(); known && err == nil {
			l.mu.Lock()
			out[i].Retransmits = fact.Known(total-l.kept[i].retransmits.Or(0), "TCP_INFO")
			l.mu.Unlock()
		}
	}
	return out
}

// complete reports whether a way with a byte count has moved it all: everything a sender sent
// is acknowledged, everything for a receiver has arrived.
func (l *way) complete() bool {
	if l.udp != nil {
		return l.role == model.Receiver && l.udp.received() >= int64(l.spec.Bytes)
	}
	bytes, last := l.progress()
	// Samples are rates, so that their sum is a little off.
	whole := bytes >= float64(l.spec.Bytes)-1
	if l.role == model.Receiver {
		n, err := l.received()
		waiting, known := l.unread()
		if err != nil || !known {
			return whole
		}
		return n-int64(waiting) >= int64(l.spec.Bytes)
	}
	done, err := l.delivered()
	switch {
	case err != nil:
		return whole && time.Since(last) >= lateQuiet
	case deliveryIsFinal:
		return done
	default:
		return done && whole
	}
}

// received returns how much payload has arrived, read or not.
func (l *way) received() (int64, error) {
	var sum int64
	for _, k := range l.kept {
		n, err := received(k.conn)
		if err != nil {
			return 0, err
		}
		sum += n - k.before
	}
	return sum, nil
}

// delivered reports whether everything sent has been acknowledged.
func (l *way) delivered() (bool, error) {
	for _, k := range l.kept {
		done, err := delivered(k.conn)
		if !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

// drain waits until everything in a stopped sender's queue is acknowledged, and warns if that
// takes too long.
func (l *way) drain(ctx context.Context, limit time.Duration) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	begun := time.Now()
	for {
		done, err := l.delivered()
		switch {
		case done, err != nil && time.Since(begun) >= lateQuiet:
			return
		case time.Since(begun) >= limit:
			l.warnings = append(l.warnings, fmt.Sprintf(
				"%s: not all that was sent has been acknowledged after %v more: the far end counts less", l.direction, limit))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// discard reads on, without counting, on the connections of a receiver whose window is over,
// until stop: a far end that sends from the thread that also reads the control connection would
// otherwise block forever. The returned function waits for the readers.
func (l *way) discard(stop <-chan struct{}) (wait func()) {
	var all panics.Group
	for _, k := range l.kept {
		all.Go(func() {
			buf := make([]byte, 64<<10)
			for !closed(stop) {
				// If the connection is closed the read reports it.
				_ = k.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				_, err := k.conn.Read(buf)
				var timeout net.Error
				switch {
				case err == nil, errors.As(err, &timeout) && timeout.Timeout():
				case errors.Is(err, io.EOF) && !k.over():
					// The engine has shut down the reading side, so that an empty queue looks
					// like the end.
					pause(stop, 2*tick)
				default:
					return
				}
			}
		})
	}
	return all.Wait
}

// over reports whether the peer has closed its direction. EOF alone does not show that, because
// this end may have shut down reading.
func (k *kept) over() bool {
	done, err := ended(k.conn)
	return done || err != nil
}

// late reads on, at a server, after the client ended the test: until everything that the client
// says it sent has arrived, or, if some of it was sent in the omitted time, until nothing more
// arrives; never longer than limit. want is 0 if it is unknown. It returns how long data still
// arrived, as far as the kernel reports that.
func (l *way) late(ctx context.Context, want int64, limit time.Duration) time.Duration {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	begun := time.Now()
	before, err := l.received()
	for last := time.Duration(0); ; {
		now := time.Since(begun)
		n, again := l.received()
		waiting, known := l.unread()
		if waiting > 0 || n != before {
			last, before = now, n
		}
		all := err == nil && again == nil && want > 0 && n >= want
		if all && known && waiting == 0 || now-last >= lateQuiet || now >= limit {
			return last
		}
		select {
		case <-ctx.Done():
			return last
		case <-l.over:
			return last
		case <-ticker.C:
		}
	}
}

// unread returns how much has arrived that the engine has not read yet, and whether the system
// reports that.
func (l *way) unread() (int, bool) {
	sum := 0
	for _, k := range l.kept {
		n, err := unread(k.conn)
		if err != nil {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// closed reports whether c is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pause waits for d, or until stop is closed.
func pause(stop <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-stop:
	case <-t.C:
	}
}
