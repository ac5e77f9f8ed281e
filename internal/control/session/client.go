package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"linerate/internal/control/wire"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// slowCalls is how many times longer than others those calls may take that write
// files, or wait for a link that renegotiates.
const slowCalls = 4

// Options say how a session is opened.
type Options struct {
	Host     model.Host // the end that the agent is; Near or Far
	Version  string     // linerate's own
	Timeouts Timeouts

	Catalogue *knob.Index // of the settings
}

// Client is the controller's end of a session. It is safe for concurrent use.
//
// Its errors name the host. They wrap ErrLost when contact is lost, ErrGreedy when
// the agent sent too much, the context's error when that ended first, and otherwise
// what the agent's refusal wraps.
type Client struct {
	peer       wire.Peer
	codec      codec
	host       model.Host
	version    string
	noSettings string
	timeouts   Timeouts
	knobs      *knob.Index
	conn       *http.ClientConn
	close      sync.Once
	closeErr   error
	ended      []model.Change

	mu      sync.Mutex
	holds   []model.KnobID        // what Apply was asked for since Undo
	runs    time.Duration         // most time of the commands among them
	allowed map[uint64]*allowance // of the run that was prepared last
	greed   error                 // why the connection was cut, which every call after it says; nil for not
}

// Open says hello to the agent behind peer, which it owns from then on, also
// when it fails. It returns an error that wraps ErrVersion, with a sentence on
// what to do, when the two do not speak the same protocol.
func Open(ctx context.Context, peer wire.Peer, o Options) (*Client, error) {
	t := o.Timeouts.orDefaults()
	c := &Client{peer: peer, codec: newCodec(o.Host), host: o.Host, timeouts: t, knobs: o.Catalogue}
	hello, cancel := context.WithTimeout(ctx, t.Hello)
	defer cancel()
	if err := c.hello(hello, ctx, o); err != nil {
		c.shut()
		return nil, err
	}
	conn, err := dialHTTP(hello, peer.Control, t)
	if err != nil {
		err = c.failed(ctx, "open session", err)
		c.shut()
		return nil, err
	}
	c.conn = conn
	return c, nil
}

// refusal turns a code of outgoing back into an error; nil for none in particular.
func refusal(code connect.Code) error {
	switch code {
	case connect.CodeInvalidArgument:
		return ErrInvalid
	case connect.CodeOutOfRange:
		return ErrVersion
	case connect.CodeFailedPrecondition:
		return ErrState
	case connect.CodeAborted:
		return ErrExpired
	case connect.CodeResourceExhausted:
		return ErrBusy
	case connect.CodeUnauthenticated:
		return ErrRefused
	case connect.CodeUnimplemented:
		return errors.ErrUnsupported
	case connect.CodePermissionDenied:
		return fs.ErrPermission
	case connect.CodeDataLoss:
		return syscall.ENOSPC
	default:
		return nil
	}
}

// refused is what an agent said, with the kind of refusal for errors.Is.
type refused struct {
	text string
	kind error
}

// Error is the agent's own sentence.
func (r *refused) Error() string { return r.text }

// Unwrap returns the kind of refusal, nil for none in particular.
func (r *refused) Unwrap() error { return r.kind }

// failed says what went wrong with a call.
func (c *Client) failed(ctx context.Context, op string, err error) error {
	at := op + " on " + c.peer.Name
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", at, ctx.Err())
	}
	if said, ok := errors.AsType[*refused](err); ok {
		return fmt.Errorf("%s: %w", at, said)
	}
	if ce, ok := errors.AsType[*connect.Error](err); ok && connect.IsWireError(err) {
		return fmt.Errorf("%s: %w", at, &refused{text: clean(ce.Message(), MaxText), kind: refusal(ce.Code())})
	}
	if why := c.wasCut(); why != nil {
		err = why
	}
	if errors.Is(err, ErrGreedy) {
		return fmt.Errorf("%s: %w", at, err)
	}
	if errors.Is(err, ErrInvalid) {
		return fmt.Errorf("%s: the answer breaks the protocol: %w", at, err)
	}
	reason := err
	if errors.Is(err, context.DeadlineExceeded) {
		reason = errors.New("no answer in time")
	}
	if c.peer.Why != nil {
		if why := c.peer.Why(); why != nil {
			reason = why
		}
	}
	return fmt.Errorf("%s: %w: %s", at, ErrLost, clean(reason.Error(), MaxText))
}

// calling returns the call named name.
func calling[Res, Req any](c *Client, name string) *connect.Client[Req, Res] {
	return connect.NewClient[Req, Res](oneClient{c.conn}, "http://session.linerate.invalid"+callPath+name,
		connect.WithCodec(c.codec), connect.WithReadMaxBytes(maxResponse), connect.WithSendMaxBytes(maxRequest),
		connect.WithAcceptCompression("gzip", nil, nil))
}

// ask makes the call named name, which takes at most times as long as most calls.
func ask[Res, Req any](ctx context.Context, c *Client, op string, times int, name string, r Req) (Res, error) {
	return askFor[Res](ctx, c, op, time.Duration(times)*c.timeouts.Call, name, r)
}

// askFor makes the call named name, which may take so long.
func askFor[Res, Req any](ctx context.Context, c *Client, op string, limit time.Duration, name string, r Req) (Res, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := calling[Res, Req](c, name).CallUnary(limited, connect.NewRequest(&r))
	if err != nil {
		var none Res
		return none, c.failed(ctx, op, err)
	}
	return *answer.Msg, nil
}

// Patience is how much longer than usual this session waits for its agent; 1 is usual.
func (c *Client) Patience() float64 {
	return float64(c.timeouts.Call) / float64(DefaultTimeouts().Call)
}

// Host is the end that the agent is.
func (c *Client) Host() model.Host { return c.host }

// Name is the host's name in messages.
func (c *Client) Name() string { return c.peer.Name }

// Version is the agent's linerate version.
func (c *Client) Version() string { return c.version }

// NoSettings is why this session can change no settings of the host, "" where it can.
func (c *Client) NoSettings() string { return c.noSettings }

// DataHost is the address of the host for data connections, "" when unknown.
func (c *Client) DataHost() string { return c.peer.DataHost }

// DataPort is the port for data connections where it is always the same, else 0.
func (c *Client) DataPort() int { return c.peer.DataPort }

// Forwarded is what carries data connections to the host, nil for nothing.
func (c *Client) Forwarded() *wire.Forwarding { return c.peer.Forwarded }

// Facts reads the host; peer is the address of the other end's data path, or "".
func (c *Client) Facts(ctx context.Context, peer string) (model.HostFacts, error) {
	return ask[model.HostFacts](ctx, c, "read facts", 1, "Facts", factsRequest{peer})
}

// ReadKnobs reads the knobs named ids; those that do not exist are left out.
func (c *Client) ReadKnobs(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error) {
	r, err := ask[knobValues](ctx, c, "read knobs", 1, "ReadKnobs", knobNames{ids})
	return r.Knobs, err
}

// undoTime is how long taking back all that is applied, and more, may take; 0 for
// nothing. What
// is applied counts from when it is asked for: nobody knows what became of a call
// that failed.
func (c *Client) undoTime(more []model.Assignment) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range more {
		if !slices.Contains(c.holds, a.Knob) {
			c.holds = append(c.holds, a.Knob)
			c.runs += 2 * a.Command.Limit // one that runs still is waited for
		}
	}
	if len(c.holds) == 0 {
		return 0
	}
	return min(c.knobs.UndoTime(c.holds...)+c.runs, knob.MaxUndoTime)
}

// Apply changes knobs, all or none, until Undo or for at most within from when the
// host hears it.
func (c *Client) Apply(ctx context.Context, as []model.Assignment, within time.Duration) ([]model.Change, error) {
	undo := c.undoTime(as)
	// To make the changes may take as long, and when one fails all are undone.
	r, err := askFor[changeList](ctx, c, "apply setting", c.timeouts.Call+2*undo, "Apply", applyRequest{as, Terms{within, undo}})
	return r.Changes, err
}

// Verify fails unless every applied knob reads back as it was set.
func (c *Client) Verify(ctx context.Context) error {
	_, err := ask[nothing](ctx, c, "verify setting", 1, "Verify", nothing{})
	return err
}

// Extend moves the end of what Apply did to d from now.
func (c *Client) Extend(ctx context.Context, d time.Duration) error {
	_, err := ask[nothing](ctx, c, "extend deadline", 1, "Extend", extendRequest{d})
	return err
}

// Undo puts back what Apply changed, and says what became of each change. It waits
// for as long as that may take (knob.UndoTime).
func (c *Client) Undo(ctx context.Context) ([]model.Change, error) {
	r, err := askFor[changeList](ctx, c, "undo setting", c.timeouts.Call+c.undoTime(nil), "Undo", nothing{})
	if err == nil {
		c.mu.Lock()
		c.holds, c.runs = nil, 0
		c.mu.Unlock()
	}
	return r.Changes, err
}

// Recovered tells what the agent's start put back of an earlier session.
func (c *Client) Recovered(ctx context.Context) ([]model.Change, error) {
	r, err := ask[changeList](ctx, c, "read recovery report", 1, "Recovered", nothing{})
	return r.Changes, err
}

// Close undoes what the session did to the host, ends it and the transport, and
// waits for them. Without contact it only ends the transport: the agent then
// undoes by itself. It is idempotent; the changes are those of the first call.
func (c *Client) Close(ctx context.Context) ([]model.Change, error) {
	c.close.Do(func() {
		r, err := askFor[changeList](ctx, c, "close session", c.timeouts.Call+c.undoTime(nil), "Close", nothing{})
		c.ended, c.closeErr = r.Changes, err
		if err := c.shut(); c.closeErr == nil {
			c.closeErr = err
		}
	})
	return c.ended, c.closeErr
}

// cut ends the connection, for a reason that every later call says, or for none.
// What carries it goes with Close.
func (c *Client) cut(why error) {
	c.mu.Lock()
	if c.greed == nil {
		c.greed = why
	}
	c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
	_ = c.peer.Control.Close()
}

// wasCut is the reason that cut had.
func (c *Client) wasCut() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.greed
}

// shut ends the connection and the transport.
func (c *Client) shut() error {
	c.cut(nil)
	if c.peer.Close == nil {
		return nil
	}
	if err := c.peer.Close(); err != nil {
		return fmt.Errorf("close %s: %w", c.peer.Name, err)
	}
	return nil
}
