package peer

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf3"
)

// idleLimit is how long a direction may make no progress, as in a real server.
const idleLimit = 120 * time.Second

// move runs the ways until the client ends the test, and answers it. It returns how long the
// receivers' windows were open.
func (t *session) move(ctx context.Context, next <-chan heard) (time.Duration, error) {
	begun := time.Now()
	omit := time.Duration(t.params.OmitSeconds) * time.Second
	emits := onlyOnce(t.sampled, len(t.ways))
	for i, l := range t.ways {
		l.start(ctx, emits[i])
		if l.role == model.Sender && omit > 0 {
			defer time.AfterFunc(omit, l.rebase).Stop()
		}
	}
	err := t.watch(ctx, next, begun)
	if err != nil {
		for _, l := range t.ways {
			l.stop()
		}
		return 0, err
	}
	window := time.Since(begun) - omit
	for _, l := range t.ways {
		if l.role == model.Sender {
			if l.stop() && l.spec.Bytes == 0 {
				l.report.Warnings = nil // about the flow's length, which is a guard
			}
			// A client that receives in the thread that also reads the control connection waits
			// for this close.
			if err := l.close(); err != nil {
				return 0, err
			}
		}
	}
	return max(window, 0), t.ctl.state(iperf3.ExchangeResults)
}

// sampled passes this end's samples to Sampled.
func (t *session) sampled(s []model.Sample) {
	if a, ok := t.ctl.conn.RemoteAddr().(*net.TCPAddr); ok && t.Sampled != nil {
		t.Sampled(a.AddrPort(), s)
	}
}

// watch waits for the client to end the test, and returns nil, or the error that ends it
// before.
func (t *session) watch(ctx context.Context, next <-chan heard, begun time.Time) error {
	guard := time.NewTimer(t.guard())
	defer guard.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case h := <-next:
			if h.err == nil && h.state == iperf3.TestEnd {
				return nil
			}
			return t.early(h)
		case <-guard.C:
			return refuse(iperf3.CodeTimeLimit, "the test did not end within %v", t.guard())
		case <-look.C:
			if err := t.check(begun); err != nil {
				return err
			}
		}
	}
}

// check returns an error if a direction makes no progress, or all together exceed the rate.
func (t *session) check(begun time.Time) error {
	var moved float64
	for _, l := range t.ways {
		bytes, last := l.progress()
		moved += bytes
		if l.udp != nil && l.role == model.Receiver && t.UDPRate > 0 && l.floods(t.UDPRate, time.Since(begun)) {
			return refuse(iperf3.CodeTotalRate, "more than %v came over UDP", t.UDPRate)
		}
		if limit := t.limits.still(); time.Since(last) > limit {
			return refuse(iperf3.CodeNoMessage, "%s: nothing moved for %v", l.direction, limit)
		}
	}
	t.progress(moved)
	if err := t.charge(); err != nil {
		return err
	}
	lasted := time.Since(begun)
	// Samples arrive once a second, and rates settle in a few.
	if rate := units.BitRate(moved * 8 / lasted.Seconds()); t.Rate > 0 && lasted > 3*time.Second && rate > t.Rate*105/100 {
		return refuse(iperf3.CodeTotalRate, "%v in all, at most %v", rate, t.Rate)
	}
	return nil
}

// burst is the time whose allowance a client may send at once.
const burst = time.Second

// floods reports whether more datagrams have arrived than rate allows: a leaky bucket that is
// checked now and then.
func (l *way) floods(rate units.BitRate, at time.Duration) bool {
	came := l.udp.received()
	l.above = max(0, l.above-float64(rate)*(at-l.looked).Seconds()) + 8*float64(came-l.seen)
	l.seen, l.looked = came, at
	return l.above > float64(rate)*burst.Seconds()
}

// mostResults bounds a client's results, bytes: 256 streams take 50 KB. Only a server's results
// also contain a report.
const mostResults = 256 << 10

// exchange reads the client's results, reads on until the client's data has arrived, and
// answers.
func (t *session) exchange(ctx context.Context, window time.Duration) (own, theirs model.EndReport, err error) {
	t.touch()
	body, err := t.ctl.read(mostResults)
	if err != nil {
		return own, theirs, fmt.Errorf("read the client's results: %w", err)
	}
	results, err := iperf3.ParseResults(body)
	if err != nil {
		return own, theirs, refuse(iperf3.CodeReceiveResults, "%w", err)
	}
	if err := assign(results, t.ways); err != nil {
		return own, theirs, refuse(iperf3.CodeStreamID, "%w", err)
	}
	for _, l := range t.ways {
		if l.role != model.Receiver {
			continue
		}
		want := int64(0)
		for _, s := range l.theirs {
			if t.params.OmitSeconds == 0 {
				want += max(0, s.Bytes)
			}
		}
		var last time.Duration
		if l.udp != nil {
			last = l.udp.late(ctx, l.theirs, lateLimit)
		} else {
			last = l.late(ctx, want, lateLimit)
		}
		// Late bytes extend the window until they arrived.
		window += last
		l.stop()
		l.adopt(window, want)
	}
	theirs = farReport(model.Near, results, t.ways, 0)
	own, failed := merge(model.Far, t.ways)
	if failed != nil {
		// The client gets what there is, and can see that it is nothing.
		own.Warnings = append(own.Warnings, failed.Error())
	}
	r := ownResults(own, t.ways)
	if t.params.ServerOutput {
		r.ServerText = text(own, t.params)
	}
	answer, err := r.Marshal()
	t.moved.Store(false) // from now on a new client waits for the slot instead of being refused
	if err == nil {
		err = t.ctl.message(answer, iperf3.DisplayResults.Byte())
	}
	if err != nil {
		return own, theirs, fmt.Errorf("send results: %w", err)
	}
	// The client has everything: its final message changes nothing, and the server reads it
	// only so that the client closes first.
	last := control{t.ctl.conn, farewell}
	_, _ = last.next()
	return own, theirs, nil
}

// adopt corrects the receiver's report: its flow has only a guard as its length, and the client
// ended it. window is how long it was open, and want what should have arrived; 0 is unknown.
func (l *way) adopt(window time.Duration, want int64) {
	l.report.Warnings = nil
	for i := range l.report.Flows {
		l.report.Flows[i].Window = window
	}
	f, known := l.flow()
	if l.udp == nil && known && int64(f.Bytes) < want {
		l.report.Warnings = []string{fmt.Sprintf("%s: %d of %d bytes came that the client says it sent",
			l.direction, f.Bytes, want)}
	}
}

// text returns the report for a client that requested the server's output.
func text(own model.EndReport, p iperf3.Params) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %v, %d streams each way\n", version, p.Direction, p.Parallel)
	for _, f := range own.Flows {
		fmt.Fprintf(&b, "%s: %v in %v", f.Role, f.Bytes, f.Window.Round(time.Millisecond))
		if s := f.Window.Seconds(); s > 0 {
			fmt.Fprintf(&b, " = %v", units.BitRate(float64(f.Bytes)*8/s))
		}
		fmt.Fprintln(&b)
	}
	for _, w := range own.Warnings {
		fmt.Fprintln(&b, "warning:", w)
	}
	return b.String()
}
