package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"connectrpc.com/connect"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/control/session/sessionpb/sessionpbconnect"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// lingerAfterRefusal is how long a controller that was refused, or that closed
// its session, may take to read that and to hang up.
const lingerAfterRefusal = 2 * time.Second

// Serve does for one controller what s can, on conn, which it closes. It
// returns when the connection has ended, for whatever reason, or ctx has, and
// when every call of s has returned. s is told of nothing else: the caller puts
// the host in order after Serve returned. The error is about conn; a controller
// that hangs up is no error.
//
// version is linerate's own, for the other end to see.
func Serve(ctx context.Context, conn net.Conn, version string, s Service, t Timeouts) error {
	t = t.orDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := track(conn)
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	a := &adapter{service: s, version: version, timeouts: t, hangUp: func(d time.Duration) { time.AfterFunc(d, func() { _ = c.Close() }) }}
	welcome, host, err := a.greeted(ctx, c)
	if err != nil {
		return nil // a controller that is refused, or none at all: nothing was begun
	}
	a.host = host
	in := newIntake(welcome.Charge, t.Send)
	options := connect.WithHandlerOptions(
		connect.WithCodec(in.codec()), connect.WithReadMaxBytes(maxRequest),
		connect.WithSendMaxBytes(maxResponse),
		connect.WithCompression("gzip", nil, nil), // nothing to inflate
		connect.WithRecover(recovered),
	)
	path, handler := sessionpbconnect.NewSessionServiceHandler(a, options)
	mux := http.NewServeMux()
	mux.Handle(path, withController(handler))
	mux.Handle(sessionpbconnect.NewSettingsServiceHandler(settings{a, s}, options))
	return serveHTTP(ctx, c, in.handler(mux), t)
}

// recovered turns a panic in an agent into an error for its controller: the
// edge of a session is the one place where that is done.
func recovered(_ context.Context, spec connect.Spec, _ http.Header, v any) error {
	return connect.NewError(connect.CodeInternal,
		fmt.Errorf("%s: a bug in the agent: %s", spec.Procedure, clean(fmt.Sprintf("%v\n%s", v, debug.Stack()), MaxText-200)))
}

// controllerKey is the context key of a call's http.ResponseController.
type controllerKey struct{}

func withController(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), controllerKey{}, http.NewResponseController(w))))
	})
}

// adapter is a Service seen as messages.
type adapter struct {
	service  Service
	version  string
	timeouts Timeouts
	hangUp   func(after time.Duration)
	host     model.Host // this end, as the hello said
}

// outgoing gives err the code by which the controller tells kinds apart.
func outgoing(err error) error {
	code := connect.CodeUnknown
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrInvalid):
		code = connect.CodeInvalidArgument
	case errors.Is(err, ErrVersion):
		code = connect.CodeOutOfRange
	case errors.Is(err, ErrState):
		code = connect.CodeFailedPrecondition
	case errors.Is(err, ErrExpired):
		code = connect.CodeAborted
	case errors.Is(err, ErrBusy):
		code = connect.CodeResourceExhausted
	case errors.Is(err, ErrRefused):
		code = connect.CodeUnauthenticated
	case errors.Is(err, errors.ErrUnsupported):
		code = connect.CodeUnimplemented
	case errors.Is(err, fs.ErrPermission):
		code = connect.CodePermissionDenied
	}
	return connect.NewError(code, errors.New(clean(err.Error(), MaxText)))
}

// call does f, which gets the end that the agent is.
func call[P any](a *adapter, f func(h model.Host) (*P, error)) (*P, error) {
	p, err := f(a.host)
	if err != nil {
		return nil, outgoing(err)
	}
	return p, nil
}

// Facts reads the host.
func (a *adapter) Facts(ctx context.Context, p *sessionpb.FactsRequest) (*sessionpb.FactsResponse, error) {
	return call(a, func(model.Host) (*sessionpb.FactsResponse, error) {
		var c check
		peer := c.text("peer", p.GetPeer(), MaxAddress)
		if c.err != nil {
			return nil, c.err
		}
		f, err := a.service.Facts(ctx, peer)
		return &sessionpb.FactsResponse{Facts: encodeFacts(f)}, err
	})
}

// ReadKnobs reads some knobs.
func (a *adapter) ReadKnobs(ctx context.Context, p *sessionpb.ReadKnobsRequest) (*sessionpb.ReadKnobsResponse, error) {
	return call(a, func(model.Host) (*sessionpb.ReadKnobsResponse, error) {
		var c check
		ids := knobNames(&c, p.GetIds())
		if c.err != nil {
			return nil, c.err
		}
		m, err := a.service.ReadKnobs(ctx, ids)
		return &sessionpb.ReadKnobsResponse{Knobs: encodeKnobs(m)}, err
	})
}

// knobNames checks a list of knobs and returns each once.
func knobNames(c *check, list []string) []model.KnobID {
	var ids []model.KnobID
	c.count("knobs", len(list), MaxKnobs)
	c.that(len(list) > 0, "no knobs")
	for _, s := range list[:min(len(list), MaxKnobs)] {
		ids = append(ids, model.KnobID(c.name("knob", s)))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Apply changes knobs.
func (a *adapter) Apply(ctx context.Context, p *sessionpb.ApplyRequest) (*sessionpb.ApplyResponse, error) {
	return call(a, func(h model.Host) (*sessionpb.ApplyResponse, error) {
		var c check
		as := decodeAssignments(&c, p.GetAssignments(), h)
		t := Terms{
			Within: c.duration("deadline", p.GetDeadlineNs(), MinDeadline, MaxDuration),
			Undo:   c.duration("time to undo", p.GetUndoNs(), 0, knob.MaxUndoTime),
		}
		if c.err != nil {
			return nil, c.err
		}
		changes, err := a.service.Apply(ctx, as, t)
		return &sessionpb.ApplyResponse{Changes: encodeChanges(changes)}, err
	})
}

// Verify compares knobs with what was set.
func (a *adapter) Verify(ctx context.Context, _ *sessionpb.VerifyRequest) (*sessionpb.VerifyResponse, error) {
	return call(a, func(model.Host) (*sessionpb.VerifyResponse, error) {
		return &sessionpb.VerifyResponse{}, a.service.Verify(ctx)
	})
}

// Extend moves the deadline.
func (a *adapter) Extend(ctx context.Context, p *sessionpb.ExtendRequest) (*sessionpb.ExtendResponse, error) {
	return call(a, func(model.Host) (*sessionpb.ExtendResponse, error) {
		var c check
		d := c.duration("extension", p.GetExtendNs(), MinDeadline, MaxDuration)
		if c.err != nil {
			return nil, c.err
		}
		return &sessionpb.ExtendResponse{}, a.service.Extend(ctx, d)
	})
}

// Undo puts knobs back.
func (a *adapter) Undo(ctx context.Context, _ *sessionpb.UndoRequest) (*sessionpb.UndoResponse, error) {
	return call(a, func(model.Host) (*sessionpb.UndoResponse, error) {
		changes, err := a.service.Undo(ctx)
		return &sessionpb.UndoResponse{Changes: encodeChanges(changes)}, err
	})
}

// Recovered tells what was put back at the start.
func (a *adapter) Recovered(ctx context.Context, _ *sessionpb.RecoveredRequest) (*sessionpb.RecoveredResponse, error) {
	return call(a, func(model.Host) (*sessionpb.RecoveredResponse, error) {
		changes, err := a.service.Recovered(ctx)
		return &sessionpb.RecoveredResponse{Changes: encodeChanges(changes)}, err
	})
}

// Prepare begins one run.
func (a *adapter) Prepare(ctx context.Context, p *sessionpb.PrepareRequest) (*sessionpb.PrepareResponse, error) {
	return call(a, func(model.Host) (*sessionpb.PrepareResponse, error) {
		var c check
		prep := Preparation{Run: p.GetRun(), Flow: decodeFlow(&c, p.GetFlow()), Connect: c.hostPort("address to connect to", p.GetConnect())}
		c.that(prep.Run != 0, "the run has no number")
		c.that(len(p.GetToken()) == TokenBytes, "the token has %d bytes, not %d", len(p.GetToken()), TokenBytes)
		copy(prep.Token[:], p.GetToken())
		prep.Ports = model.Ports{First: int(p.GetFirstPort()), Last: int(p.GetLastPort())}
		c.that(prep.Ports.Valid(), "no ports: %d to %d", p.GetFirstPort(), p.GetLastPort())
		prep.Loopback = p.GetLoopback()
		prep.Egress = decodeEgress(&c, p.GetEgress())
		prep.Within = c.duration("time to prepare", p.GetWithinNs(), 0, MaxPrepare)
		if c.err != nil {
			return nil, c.err
		}
		port, err := a.service.Prepare(ctx, prep)
		return &sessionpb.PrepareResponse{Port: uint32(port)}, err
	})
}

// decodeEgress reads what an agent is asked of its sockets.
func decodeEgress(c *check, p *sessionpb.Egress) model.Egress {
	e := model.Egress{
		Bind: c.text("address to bind to", p.GetBind(), MaxName), Device: c.text("interface to bind to", p.GetDevice(), MaxName),
		From: model.Ports{First: int(p.GetFirstPort()), Last: int(p.GetLastPort())}, DSCP: int(c.atMost("DSCP", int64(p.GetDscp()), model.MaxDSCP)),
	}
	c.that(e.From.Valid(), "no ports: %s", e.From)
	return e
}

// Run follows a run.
func (a *adapter) Run(ctx context.Context, p *sessionpb.RunRequest, out *connect.ServerStream[sessionpb.RunResponse]) error {
	w, _ := ctx.Value(controllerKey{}).(*http.ResponseController)
	send := func(e Event) error {
		if w != nil {
			if err := extend(w, a.timeouts.Send); err != nil {
				return fmt.Errorf("send event: %w", err)
			}
			// net/http ends a stream at its deadline also when nothing is being
			// written, and a run may have nothing to tell for a long time.
			defer func() { _ = w.SetWriteDeadline(time.Time{}) }()
		}
		if e.Kind != Samples {
			return out.Send(encodeEvent(e))
		}
		e.Samples = slices.DeleteFunc(slices.Clone(e.Samples), func(s model.Sample) bool {
			return math.IsNaN(s.Value) || math.IsInf(s.Value, 0) // unknown, and JSON knows no such number
		})
		for batch := range slices.Chunk(e.Samples, MaxSamples) {
			if err := out.Send(encodeEvent(Event{Kind: Samples, Samples: batch})); err != nil {
				return err
			}
		}
		return nil
	}
	err := a.service.Run(ctx, p.GetRun(), send)
	if w != nil {
		_ = extend(w, a.timeouts.Send) // for the last word; where it fails, so does that
	}
	return outgoing(err)
}

// Start begins traffic.
func (a *adapter) Start(ctx context.Context, p *sessionpb.StartRequest) (*sessionpb.StartResponse, error) {
	return call(a, func(model.Host) (*sessionpb.StartResponse, error) {
		return &sessionpb.StartResponse{}, a.service.Start(ctx, p.GetRun())
	})
}

// Stop ends a run.
func (a *adapter) Stop(ctx context.Context, p *sessionpb.StopRequest) (*sessionpb.StopResponse, error) {
	return call(a, func(model.Host) (*sessionpb.StopResponse, error) {
		return &sessionpb.StopResponse{}, a.service.Stop(ctx, p.GetRun())
	})
}

// Close ends the session.
func (a *adapter) Close(ctx context.Context, _ *sessionpb.CloseRequest) (*sessionpb.CloseResponse, error) {
	return call(a, func(model.Host) (*sessionpb.CloseResponse, error) {
		changes, err := a.service.Close(ctx)
		a.hangUp(lingerAfterRefusal)
		return &sessionpb.CloseResponse{Changes: encodeChanges(changes)}, err
	})
}
