package peer

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpbulk"
)

// Client tests against a foreign iperf3 server. The zero value works. It is
// safe for concurrent use.
type Client struct {
	// Login is for a server that requires one; nil if none.
	Login *Login
	// Rate limits TCP streams: payload in bit/s per direction, over all streams; 0 is no limit.
	// If this end sends, the limit needs a kernel that paces TCP (Linux); elsewhere the error
	// of Run wraps errors.ErrUnsupported. UDP has udp.Params.Rate.
	Rate units.BitRate
	// ServerOutput, if not nil, requests the server's own report and gets it: text, or a
	// document from a server that writes JSON. At most one of the two is not empty. It is
	// called before Run returns.
	ServerOutput func(text string, document json.RawMessage)
	// Egress selects the source of connections and datagrams; the server marks its own packets
	// in the same way.
	Egress model.Egress
	// Met, if not nil, is called at the server's first message.
	Met func()
	// LinkRate is the rate of the interface that carries the test, if known. It determines the
	// default block size.
	LinkRate fact.Of[units.BitRate]
	// Bulk moves TCP payload; if nil, Run creates a tcpbulk engine. A process that runs several
	// tests at once passes the same engine to all.
	Bulk engine.Engine

	limits limits
	look   func([]*way) // called before Run returns, for tests
	settle func()       // called before the client ends the test, for tests
}

// Login is the client's login. It authenticates the client to the server and protects nothing
// else (docs/wire/iperf3.md section 10).
type Login struct {
	User, Password string
	Key            *rsa.PublicKey // the server's
	Padding        iperf3.Padding // iperf3.OAEP for servers since 3.17
}

// limits are timeouts, which tests shorten. Zero fields use the package's defaults.
type limits struct {
	patience, between, greeting time.Duration // of a client
	spare, idle, opening        time.Duration // of a server
}

func (l limits) wait() time.Duration  { return cmp.Or(l.patience, patience) }
func (l limits) grace() time.Duration { return cmp.Or(l.spare, grace) }
func (l limits) still() time.Duration { return cmp.Or(l.idle, idleLimit) }
func (l limits) again() time.Duration { return cmp.Or(l.between, betweenTests) }

// Run runs one test of f against the server at addr, a host with or without ":port", and
// returns the reports of this end and of the server. Engine is "tcpbulk" or "udpflow"; zero
// fields have that engine's defaults, and the default datagram has 1448 bytes, which fit an
// Ethernet frame with room to spare. Omit and the server's guard are in whole seconds; Run
// rounds up with a warning. emit gets samples of this end as intervals end, from one goroutine
// at a time.
//
// A report's window is the time that its end measured. If the server sends, its count also
// covers what was still in flight when the test ended.
//
// The error wraps ErrIperf2 for an iperf 2 server, ErrBusy for a server that runs another test,
// iperf3.ErrRefused for a refused login, *iperf3.ServerError for an error from the server, and
// the cause of ctx.
func (c Client) Run(ctx context.Context, addr string, f model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	if c.Bulk == nil {
		c.Bulk = tcpbulk.New()
	}
	f, warnings := wholeSeconds(f)
	p, err := c.params(f)
	if err != nil {
		return near, far, fmt.Errorf("flow: %w", err)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(addr, strconv.Itoa(iperf3.DefaultPort))
	}
	begun, lost := time.Now(), 0
	for {
		t := &clientTest{Client: c, flow: f, params: p, warnings: warnings}
		near, far, err = t.run(ctx, addr, emit)
		switch {
		case errors.Is(err, errGreetingLost) && lost < greetingTries:
			// It must not be sent again (section 9): only a new test can send another.
			lost++
			warnings = append(warnings, "a greeting over UDP was lost: the test was begun again")
			begun = time.Now()
		case turnedAway(err) && time.Since(begun) < c.limits.again():
		default:
			if err != nil {
				err = fmt.Errorf("iperf3 test with %s: %w", addr, err)
			}
			return near, far, err
		}
		pause(ctx.Done(), 50*time.Millisecond)
	}
}

// turnedAway reports whether err may come from a server between two tests: it is busy with the
// end of one, or has closed its listener to open another, which resets waiting clients.
func turnedAway(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	reset := ok && op.Op == "dial" && errors.Is(err, syscall.ECONNRESET)
	return reset || errors.Is(err, ErrBusy) || sockio.Refused(err)
}

// wholeSeconds rounds f.Omit up to a value that the parameters can express.
func wholeSeconds(f model.Flow) (model.Flow, []string) {
	whole := time.Duration(seconds(f.Omit)) * time.Second
	if whole == f.Omit {
		return f, nil
	}
	w := fmt.Sprintf("omitting %v instead of %v: iperf3 counts whole seconds", whole, f.Omit)
	f.Omit = whole
	return f, []string{w}
}

// params converts f to parameters, and reports every fault of it at once.
func (c Client) params(f model.Flow) (iperf3.Params, error) {
	p := iperf3.DefaultParams()
	p.Parallel = int64(max(f.Streams, 1))
	p.Seconds, p.OmitSeconds = seconds(f.Duration), seconds(f.Omit)
	p.Bytes = int64(f.Bytes)
	p.Window, p.MSS = int64(f.Window), int64(f.MSS)
	p.Congestion = f.Congestion
	p.TOS = int64(c.Egress.DSCP) << 2
	p.ServerOutput = c.ServerOutput != nil
	p.ClientVersion = version
	switch f.Direction {
	case model.From:
		p.Direction = iperf3.Reverse
	case model.Both:
		p.Direction = iperf3.Bidirectional
	default:
	}
	var err error
	if f.Engine == udp.Name {
		err = validateUDP(f)
		paramsUDP(&p, f)
	} else {
		err = c.Bulk.Validate(f)
		p.Length = int64(cmp.Or(f.Block, min(tcpbulk.Block(engine.Env{LinkRate: c.LinkRate}), 1<<20)))
		p.BitsPerSecond = perStream(c.Rate, f.Streams)
		// With this parameter the server reopens its listener: set it only if it helps.
		p.NoDelay = !f.Nagle && p.Direction != iperf3.Forward
	}
	err = errors.Join(err, p.Validate())
	if c.Login != nil && err == nil {
		who := iperf3.Credentials{User: c.Login.User, Password: c.Login.Password, Time: time.Now()}
		p.AuthToken, err = who.Token(c.Login.Key, c.Login.Padding)
	}
	return p, err
}

// clientTest is one test at the client's end.
type clientTest struct {
	Client
	flow     model.Flow
	params   iperf3.Params
	warnings []string

	cookie iperf3.Cookie
	ctl    control
	ways   []*way
	idle   time.Duration // between the last byte's arrival and the end of the test
}

// run runs the whole test.
func (t *clientTest) run(ctx context.Context, addr string, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	if t.cookie, err = iperf3.NewCookie(rand.Reader); err != nil {
		return near, far, err
	}
	t.cookie = unlikeIperf2(t.cookie)
	conn, err := sockio.Dial(ctx, net.Dialer{Timeout: t.limits.wait()}, "tcp", addr, engine.SocketOptions{NoDelay: true, Egress: t.Egress})
	if err != nil {
		return near, far, err
	}
	defer conn.Close()
	t.ctl = control{conn, t.limits.wait()}
	defer t.ctl.bind(ctx)()
	defer func() {
		for _, l := range t.ways {
			err = errors.Join(err, l.close())
		}
	}()
	if err := t.agree(ctx); err != nil {
		return near, far, because(ctx, err)
	}
	if err := t.open(ctx); err != nil {
		return near, far, t.leave(ctx, err)
	}
	next, err := t.ctl.follow()
	if err != nil {
		return near, far, err
	}
	if err := t.move(ctx, emit, next); err != nil {
		return near, far, t.leave(ctx, err)
	}
	near, err = merge(model.Near, t.ways)
	near.Warnings = append(t.warnings, near.Warnings...)
	if err != nil {
		return near, far, t.leave(ctx, err)
	}
	theirs, err := t.exchange(near)
	if err != nil {
		return near, far, because(ctx, err)
	}
	if t.look != nil {
		t.look(t.ways)
	}
	return near, farReport(model.Far, theirs, t.ways, t.idle), nil
}

// leave tells the server, if possible, that the test is aborted, and returns err.
func (t *clientTest) leave(ctx context.Context, err error) error {
	bye := control{t.ctl.conn, time.Second}
	// Best effort: the connection may be what failed.
	_ = bye.state(iperf3.ClientTerminate)
	return because(ctx, err)
}

// agree sends cookie and parameters and waits for the server to accept them.
func (t *clientTest) agree(ctx context.Context) error {
	if err := t.ctl.say(t.cookie[:]); err != nil {
		return t.perhapsBusy(fmt.Errorf("send cookie: %w", err))
	}
	s, err := t.firstWord(ctx)
	if errors.Is(err, ErrIperf2) {
		return err
	}
	if err != nil {
		return t.perhapsBusy(err)
	}
	if t.Met != nil {
		t.Met()
	}
	if s != iperf3.ParamExchange {
		return t.refusal(s, iperf3.ParamExchange)
	}
	body, err := t.params.Marshal()
	if err != nil {
		return err
	}
	if err := t.ctl.message(body); err != nil {
		return fmt.Errorf("send parameters: %w", err)
	}
	s, err = t.ctl.next()
	switch {
	case err != nil && t.Login != nil && !isTimeout(err):
		// 3.21 refuses a token without a message (section 10).
		return fmt.Errorf("%w: the server closed after the login, which says wrong name or password, "+
			"another padding (OAEP since 3.17, PKCS #1 before) or clocks more than 10 s apart", iperf3.ErrRefused)
	case err != nil:
		return fmt.Errorf("wait for the server's answer to the parameters: %w", err)
	case s != iperf3.CreateStreams:
		return t.refusal(s, iperf3.CreateStreams)
	}
	return nil
}

// perhapsBusy interprets err before the server's first message: a busy server closes without
// reading, and the reset that follows can overtake what it wrote (section 7).
func (t *clientTest) perhapsBusy(err error) error {
	if isTimeout(err) {
		return fmt.Errorf("the server accepted and said nothing, as one does whose queue is full: %w: %w", ErrBusy, err)
	}
	return fmt.Errorf("the server closed before its first word: perhaps %w: %w", ErrBusy, err)
}

// refusal returns the error for a state other than the one due.
func (t *clientTest) refusal(s, due iperf3.State) error {
	switch s {
	case iperf3.AccessDenied:
		return ErrBusy
	case iperf3.ServerTerminate:
		return &iperf3.ServerError{Code: iperf3.CodeServerTerminated}
	case iperf3.ServerFailed:
		if err := t.ctl.listen(); err != nil {
			return err
		}
		said, err := iperf3.ReadServerError(t.ctl.conn)
		switch {
		case err != nil:
			return fmt.Errorf("the server gave up: %w", err)
		case said.Code == iperf3.CodeAuthentication:
			return fmt.Errorf("%w: %w", iperf3.ErrRefused, said)
		}
		return said
	default:
		return unexpected(s, due.String())
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
