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

// slowCalls is the timeout factor of calls that write files, or wait for a link that
// renegotiates.
const slowCalls = 4

// Options for opening a session.
type Options struct {
	Host     model.Host // the end that the agent is; Near or Far
	Version  string     // linerate's own
	Timeouts Timeouts

	Catalogue *knob.Index // of the settings
}

// Client is the controller's end of a session. It is safe for concurrent use.
//
// Its errors name the host. They wrap ErrLost if contact is lost, ErrGreedy if the agent sent
// too much, the context's error if that ended first, and otherwise the kind of the agent's
// refusal.
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
	holds   []model.KnobID        // knobs passed to Apply since the last Undo
	runs    time.Duration         // longest time of the commands among them
	allowed map[uint64]*allowance // of the run prepared last
	greed   error                 // why the connection was cut, returned by every later call; nil if it was not
}

// Open greets the agent behind peer, which it owns from then on, even if it fails. It returns an
// error that wraps ErrVersion, with a sentence on what to do, if the two ends speak different
// protocols.
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

// refusal converts a code of outgoing back into an error; nil for no particular kind.
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

// refused is an agent's message, with the kind of refusal for errors.Is.
type refused struct {
	text string
	kind error
}

// Error returns the agent's own sentence.
func (r *refused) Error() string { return r.text }

// Unwrap returns the kind of refusal, nil for no particular one.
func (r *refused) Unwrap() error { return r.kind }

// failed returns the error of a failed call.
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

// calling returns the client for the call with this name.
func calling[Res, Req any](c *Client, name string) *connect.Client[Req, Res] {
	return connect.NewClient[Req, Res](oneClient{c.conn}, "http://session.linerate.invalid"+callPath+name,
		connect.WithCodec(c.codec), connect.WithReadMaxBytes(maxResponse), connect.WithSendMaxBytes(maxRequest),
		connect.WithAcceptCompression("gzip", nil, nil))
}

// ask makes the call with this name. Its timeout is times the usual one.
func ask[Res, Req any](ctx context.Context, c *Client, op string, times int, name string, r Req) (Res, error) {
	return askFor[Res](ctx, c, op, time.Duration(times)*c.timeouts.Call, name, r)
}

// askFor makes the call with this name and timeout.
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

// Patience returns how much longer than usual this session waits for its agent; 1 is usual.
func (c *Client) Patience() float64 {
	return float64(c.timeouts.Call) / float64(DefaultTimeouts().Call)
}

// Host returns which end the agent is.
func (c *Client) Host() model.Host { return c.host }

// Name returns the host's name in messages.
func (c *Client) Name() string { return c.peer.Name }

// Version returns the agent's linerate version.
func (c *Client) Version() string { return c.version }

// NoSettings returns why this session cannot change settings of the host, "" if it can.
func (c *Client) NoSettings() string { return c.noSettings }

// DataHost returns the host's address for data connections, "" if unknown.
func (c *Client) DataHost() string { return c.peer.DataHost }

// DataPort returns the port for data connections if it is fixed, else 0.
func (c *Client) DataPort() int { return c.peer.DataPort }

// Forwarded returns what forwards data connections to the host, nil for nothing.
func (c *Client) Forwarded() *wire.Forwarding { return c.peer.Forwarded }

// Facts returns the host's facts; peer is the address of the other end's data path, or "".
func (c *Client) Facts(ctx context.Context, peer string) (model.HostFacts, error) {
	return ask[model.HostFacts](ctx, c, "read facts", 1, "Facts", factsRequest{peer})
}

// ReadKnobs returns the values of the knobs ids; it omits those that do not exist.
func (c *Client) ReadKnobs(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error) {
	r, err := ask[knobValues](ctx, c, "read knobs", 1, "ReadKnobs", knobNames{ids})
	return r.Knobs, err
}

// undoTime returns how long undoing all applied changes, and more, may take; 0 if there are
// none. A change counts from when it is requested: if the call failed, it is unknown whether the
// change was made.
func (c *Client) undoTime(more []model.Assignment) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range more {
		if !slices.Contains(c.holds, a.Knob) {
			c.holds = append(c.holds, a.Knob)
			c.runs += 2 * a.Command.Limit // a command that still runs is waited for
		}
	}
	if len(c.holds) == 0 {
		return 0
	}
	return min(c.knobs.UndoTime(c.holds...)+c.runs, knob.MaxUndoTime)
}

// Apply changes all knobs or none, until Undo or at most for within, from when the host
// receives the call.
func (c *Client) Apply(ctx context.Context, as []model.Assignment, within time.Duration) ([]model.Change, error) {
	undo := c.undoTime(as)
	// Making the changes may take as long as undoing them, and if one fails all are undone.
	r, err := askFor[changeList](ctx, c, "apply setting", c.timeouts.Call+2*undo, "Apply", applyRequest{as, Terms{within, undo}})
	return r.Changes, err
}

// Verify fails unless every applied knob reads back as it was set.
func (c *Client) Verify(ctx context.Context) error {
	_, err := ask[nothing](ctx, c, "verify setting", 1, "Verify", nothing{})
	return err
}

// Extend moves the deadline of the applied changes to d from now.
func (c *Client) Extend(ctx context.Context, d time.Duration) error {
	_, err := ask[nothing](ctx, c, "extend deadline", 1, "Extend", extendRequest{d})
	return err
}

// Undo undoes Apply, and returns the outcome of each change. It waits for as long as that may
// take (knob.UndoTime).
func (c *Client) Undo(ctx context.Context) ([]model.Change, error) {
	r, err := askFor[changeList](ctx, c, "undo setting", c.timeouts.Call+c.undoTime(nil), "Undo", nothing{})
	if err == nil {
		c.mu.Lock()
		c.holds, c.runs = nil, 0
		c.mu.Unlock()
	}
	return r.Changes, err
}

// Recovered returns the changes of an earlier session that the agent undid when it started.
func (c *Client) Recovered(ctx context.Context) ([]model.Change, error) {
	r, err := ask[changeList](ctx, c, "read recovery report", 1, "Recovered", nothing{})
	return r.Changes, err
}

// Close undoes the session's changes to the host, ends it and the transport, and waits for
// them. Without contact it only ends the transport: the agent then undoes by itself. It is
// idempotent; the changes are those of the first call.
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

// cut ends the connection. why, if not nil, is the error of every later call. Close ends the
// transport.
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

// wasCut returns the reason passed to cut.
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
