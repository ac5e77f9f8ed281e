package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf3"
)

// session is one test at the server's end.
type session struct {
	*server
	cookie iperf3.Cookie
	ctl    control
	params iperf3.Params
	ways   []*way
	user   string // of the login

	share   *budget.Share
	charged time.Time // time of the last charge
	spent   units.Bytes
	ran     bool // data flowed

	from    netip.Addr
	source  netip.Prefix
	cancel  context.CancelCauseFunc
	opening *accept.Place // among the tests that have not begun
	ending  bool          // it made no progress, and its slot goes to another; under server.mu
	dropped atomic.Bool   // in favour of others

	// Progress of the test.
	since   time.Time
	touched atomic.Int64 // the last progress, nanoseconds after since
	moved   atomic.Bool
	mark    float64 // bytes at the last progress

	arrivals chan arrival
	mu       sync.Mutex
	wanted   int // connections that may still come
}

// refusal is an error with the code for the client.
type refusal struct {
	code iperf3.Code
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(code iperf3.Code, format string, args ...any) error {
	return &refusal{code, fmt.Errorf(format, args...)}
}

// errLeft reports that the client ended the test early.
var errLeft = errors.New("the client left")

// drop ends the test in favour of others, which need its place.
func (t *session) drop(why error) {
	t.dropped.Store(true)
	t.cancel(why)
}

// serve runs the test from the parameters to the end, and reports its outcome. ctx belongs to
// the test.
func (t *session) serve(ctx context.Context) {
	defer t.ctl.conn.Close()
	defer t.ctl.bind(ctx)()
	defer func() { t.share.Close() }()
	e := Event{Remote: t.ctl.conn.RemoteAddr().String()}
	var err error
	e.Own, e.Theirs, err = t.test(ctx, e.Remote)
	e.Params, e.User, e.Took, e.Ran = t.params, t.user, time.Since(t.since), t.ran
	t.take(arrival{}) // no more streams are expected; closes late ones
	for _, l := range t.ways {
		err = errors.Join(err, l.close())
	}
	t.free()
	if err != nil {
		err = because(ctx, err)
		e.Err = err
		t.excuse(ctx, err)
	}
	t.share.Close() // before the event: its receiver finds the budget free
	t.tell(e)
}

// excuse sends the client the reason for the end. It first replaces a deadline that the end of
// a context may have set.
func (t *session) excuse(ctx context.Context, err error) {
	ctl := control{t.ctl.conn, time.Second}
	var why *refusal
	switch {
	case ctx.Err() != nil && !t.dropped.Load():
		_ = ctl.state(iperf3.ServerTerminate)
	case errors.Is(err, ErrBusy), errors.Is(err, errCrowded):
		_ = ctl.state(iperf3.AccessDenied)
		return // at once: others need the place
	case errors.As(err, &why):
		_ = ctl.say((&iperf3.ServerError{Code: why.code, HasErrno: true}).Append(nil))
	case errors.Is(err, errLeft):
	default:
		_ = ctl.say((&iperf3.ServerError{Code: iperf3.CodeNoMessage, HasErrno: true}).Append(nil))
	}
	// Unread data from the client would turn the close into a reset, which could overtake the
	// message.
	_ = t.ctl.conn.(*net.TCPConn).CloseWrite()
	_ = t.ctl.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = io.Copy(io.Discard, io.LimitReader(t.ctl.conn, iperf3.MaxParams))
}

// test runs the whole test.
func (t *session) test(ctx context.Context, remote string) (own, theirs model.EndReport, err error) {
	if err := t.agree(ctx); err != nil {
		return own, theirs, err
	}
	next, err := t.open(ctx)
	if err != nil {
		return own, theirs, err
	}
	t.ran = true
	t.tell(Event{Remote: remote, User: t.user, Params: t.params, Begun: true})
	window, err := t.move(ctx, next)
	if err != nil {
		return own, theirs, err
	}
	return t.exchange(ctx, window)
}

// agree requests and checks the parameters.
func (t *session) agree(ctx context.Context) error {
	if err := t.ctl.state(iperf3.ParamExchange); err != nil {
		return err
	}
	body, err := t.ctl.read(iperf3.MaxParams)
	switch {
	case errors.Is(err, iperf3.ErrTooLong):
		return refuse(iperf3.CodeReceiveParams, "parameters: %w", err)
	case err != nil:
		return fmt.Errorf("read parameters: %w", err)
	}
	if t.params, err = iperf3.ParseParams(body); err != nil {
		return refuse(iperf3.CodeReceiveParams, "%w", err)
	}
	if t.Access != nil {
		if t.user, err = t.Access.admit(ctx, t.login, t.params.AuthToken); err != nil {
			return refuse(iperf3.CodeAuthentication, "login: %w", err)
		}
	}
	return t.judge()
}

// judge checks the parameters against the limits of any server, and of this one.
func (t *session) judge() error {
	p := t.params
	if err := p.Validate(); err != nil {
		code := iperf3.CodeReceiveParams
		if first, ok := errors.AsType[*iperf3.RangeError](err); ok {
			code = first.Code
		}
		return refuse(code, "parameters: %w", err)
	}
	longest := int64(t.Duration / time.Second)
	switch {
	case p.Protocol == iperf3.SCTP:
		return refuse(iperf3.CodeReceiveParams, "SCTP: %w", errors.ErrUnsupported)
	case p.Protocol == iperf3.UDP && t.udp == nil:
		return refuse(iperf3.CodeStreamListen, "UDP: %w", errors.ErrUnsupported)
	case p.Parallel > int64(t.Streams):
		return refuse(iperf3.CodeStreams, "%d streams, at most %d", p.Parallel, t.Streams)
	case p.Length > int64(cmp.Or(t.Block, 1<<20)):
		return refuse(iperf3.CodeBlockSize, "blocks of %d bytes, at most %d", p.Length, t.Block)
	case p.Seconds+p.OmitSeconds > longest:
		return refuse(iperf3.CodeDuration, "a test of %d s, at most %d", p.Seconds+p.OmitSeconds, longest)
	case t.Rate > 0 && float64(p.TotalBitsPerSecond()) > float64(t.Rate):
		return refuse(iperf3.CodeTotalRate, "%v in all, at most %v", units.BitRate(p.TotalBitsPerSecond()), t.Rate)
	case p.Protocol == iperf3.UDP:
		return t.judgeUDP()
	}
	return nil
}

// judgeUDP checks the requested rate against the UDP limit.
func (t *session) judgeUDP() error {
	asked := units.BitRate(float64(t.params.BitsPerSecond) * float64(t.params.Parallel))
	switch {
	case t.UDPRate <= 0:
	case asked == 0:
		return refuse(iperf3.CodeTotalRate, "UDP as fast as it goes, at most %v", t.UDPRate)
	case asked > t.UDPRate:
		return refuse(iperf3.CodeTotalRate, "%v over UDP, at most %v", asked, t.UDPRate)
	}
	return nil
}

// rate returns the limit of each stream in bit/s, 0 for no limit.
func (t *session) rate() int64 {
	rate := t.params.BitsPerSecond
	if fq := t.params.FQRate; fq > 0 && (rate == 0 || fq < rate) {
		rate = fq
	}
	return rate
}

// newWay returns the way of direction d for the parameters.
func (t *session) newWay(d model.Direction, all []iperf3.Stream) *way {
	p := t.params
	l := &way{direction: d, role: model.Receiver, streams: part(all, iperf3.Client)}
	if d == model.From {
		l.role, l.streams = model.Sender, part(all, iperf3.Server)
	}
	l.spec = model.Flow{
		Direction: d, Streams: int(p.Parallel), Block: units.Bytes(p.Length), Window: units.Bytes(p.Window),
		Nagle: !p.NoDelay, Congestion: p.Congestion, Omit: time.Duration(p.OmitSeconds) * time.Second,
		Duration: t.guard(), Interval: progressEvery,
	}
	// A sender sends until the client ends the test, or as many bytes as requested: then both
	// ends count the same.
	if l.role == model.Sender && p.OmitSeconds == 0 && p.Protocol == iperf3.TCP {
		l.spec.Bytes = units.Bytes(p.Bytes)
		if p.Blocks > 0 && p.Blocks <= maxTotal/p.Length {
			l.spec.Bytes = units.Bytes(p.Blocks * p.Length)
		}
		if l.spec.Bytes >= units.Bytes(p.Parallel) && l.spec.Bytes > 0 {
			l.spec.Duration = 0
		} else {
			l.spec.Bytes = 0
		}
	}
	return l
}

// maxTotal bounds a byte count that is computed from a block count.
const maxTotal = 1 << 60

// guard returns how long data may flow: the requested time plus the grace of a real server, or
// the server's own limit for a test without a duration.
func (t *session) guard() time.Duration {
	if t.params.Seconds == 0 {
		return t.Duration
	}
	asked := time.Duration(t.params.Seconds+t.params.OmitSeconds) * time.Second
	return min(asked+t.limits.grace(), t.Duration+overrun)
}

// overrun is how much longer than the longest test a test may take to end, if its client does
// not end it.
const overrun = 10 * time.Second

// grace is the time that a real server adds: ten exchanges at a round trip of 4 s.
const grace = 40 * time.Second
