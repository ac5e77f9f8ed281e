package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// The paths of the calls.
const (
	callPath = "/linerate.session/"
	runCall  = callPath + "Run" // the one that answers with a stream
)

// lingerAfterRefusal is how long a controller that was refused, or that closed its session, may
// take to read the answer and hang up.
const lingerAfterRefusal = 2 * time.Second

// Serve serves one controller on conn with s, and closes conn. It returns when the connection
// or ctx has ended and every call of s has returned. It does not tell s about the end: the
// caller restores the host after Serve. The error is about conn, or wraps ErrVersion after the
// hello of another protocol; a controller that hangs up is not an error.
//
// version is linerate's own, sent to the other end.
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
	switch {
	case errors.Is(err, ErrVersion):
		return err
	case err != nil:
		return nil // the controller was refused, or sent no hello: nothing was begun
	}
	in := newIntake(welcome.Charge, t.Send)
	options := connect.WithHandlerOptions(
		connect.WithCodec(codec{&in.shapes, host, in}), connect.WithReadMaxBytes(maxRequest),
		connect.WithSendMaxBytes(maxResponse),
		connect.WithCompression("gzip", nil, nil), // nothing to inflate
		connect.WithRecover(recovered),
	)
	mux := http.NewServeMux()
	a.calls(in, mux, options)
	in.requests[runCall] = reflect.TypeFor[runNumber]()
	mux.Handle(runCall, withController(connect.NewServerStreamHandlerSimple(runCall, a.run, options)))
	return serveHTTP(ctx, c, in.handler(mux), t)
}

// recovered turns a panic in an agent into an error for its controller. Only the edge of a
// session may do that.
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

// adapter presents a Service as messages.
type adapter struct {
	service  Service
	version  string
	timeouts Timeouts
	hangUp   func(after time.Duration)
}

// outgoing gives err the code by which the controller distinguishes kinds.
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
	case errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported):
		code = connect.CodePermissionDenied
	case fault.KindOf(err) == fault.Unsupported:
		code = connect.CodeUnimplemented
	case errors.Is(err, syscall.ENOSPC):
		code = connect.CodeDataLoss
	}
	return connect.NewError(code, errors.New(clean(err.Error(), MaxText)))
}

// handle serves the call with this name with f.
func handle[Req, Res any](in *intake, mux *http.ServeMux, name string, options connect.HandlerOption, f func(context.Context, *Req) (Res, error)) {
	path := callPath + name
	in.requests[path] = reflect.TypeFor[Req]()
	mux.Handle(path, connect.NewUnaryHandlerSimple(path, func(ctx context.Context, r *Req) (*Res, error) {
		answer, err := f(ctx, r)
		if err != nil {
			return nil, outgoing(err)
		}
		return &answer, nil
	}, options))
}

// byHand serves a call of Settings.
func byHand[Req, Res any](a *adapter, in *intake, mux *http.ServeMux, name string, options connect.HandlerOption, f func(context.Context, Settings, *Req) (Res, error)) {
	handle(in, mux, name, options, func(ctx context.Context, r *Req) (answer Res, err error) {
		s, err := a.service.Settings(ctx)
		if err != nil {
			return answer, err
		}
		return f(ctx, s, r)
	})
}

// calls serves all calls except Run.
func (a *adapter) calls(in *intake, mux *http.ServeMux, o connect.HandlerOption) {
	s := a.service
	handle(in, mux, "Facts", o, func(ctx context.Context, r *factsRequest) (model.HostFacts, error) { return s.Facts(ctx, r.Peer) })
	handle(in, mux, "ReadKnobs", o, func(ctx context.Context, r *knobNames) (knobValues, error) {
		m, err := s.ReadKnobs(ctx, r.once())
		return knobValues{m}, err
	})
	handle(in, mux, "Apply", o, func(ctx context.Context, r *applyRequest) (changeList, error) {
		return changed(s.Apply(ctx, r.Assignments, r.Terms))
	})
	handle(in, mux, "Verify", o, func(ctx context.Context, _ *nothing) (nothing, error) { return nothing{}, s.Verify(ctx) })
	handle(in, mux, "Extend", o, func(ctx context.Context, r *extendRequest) (nothing, error) {
		return nothing{}, s.Extend(ctx, r.Within)
	})
	handle(in, mux, "Undo", o, func(ctx context.Context, _ *nothing) (changeList, error) { return changed(s.Undo(ctx)) })
	handle(in, mux, "Recovered", o, func(ctx context.Context, _ *nothing) (changeList, error) { return changed(s.Recovered(ctx)) })
	handle(in, mux, "Prepare", o, func(ctx context.Context, r *Preparation) (acceptedAt, error) {
		port, err := s.Prepare(ctx, *r)
		return acceptedAt{port}, err
	})
	handle(in, mux, "Start", o, func(ctx context.Context, r *runNumber) (nothing, error) { return nothing{}, s.Start(ctx, r.Run) })
	handle(in, mux, "Stop", o, func(ctx context.Context, r *runNumber) (nothing, error) { return nothing{}, s.Stop(ctx, r.Run) })
	handle(in, mux, "Close", o, func(ctx context.Context, _ *nothing) (changeList, error) {
		defer a.hangUp(lingerAfterRefusal)
		return changed(s.Close(ctx))
	})
	byHand(a, in, mux, "Pending", o, func(ctx context.Context, s Settings, _ *nothing) (transaction, error) {
		id, err := s.Pending(ctx)
		return transaction{id}, err
	})
	byHand(a, in, mux, "Confirm", o, func(ctx context.Context, s Settings, r *transaction) (nothing, error) {
		if r.Transaction == "" {
			return nothing{}, fmt.Errorf("%w: no transaction to confirm", ErrInvalid)
		}
		return nothing{}, s.Confirm(ctx, r.Transaction)
	})
	byHand(a, in, mux, "Revert", o, func(ctx context.Context, s Settings, r *transaction) (changeList, error) {
		changes, err := s.Revert(ctx, r.Transaction)
		if err != nil && len(changes) > 0 { // an error would lose what was undone
			return changeList{changes, err.Error()}, nil
		}
		return changed(changes, err)
	})
	byHand(a, in, mux, "Origins", o, func(ctx context.Context, s Settings, r *knobNames) (fileLines, error) {
		lines, err := s.Origins(ctx, r.once())
		return fileLines{lines}, err
	})
	byHand(a, in, mux, "Probe", o, func(ctx context.Context, s Settings, r *probeRequest) (probeResults, error) {
		results, err := s.Probe(ctx, r.Targets, r.Within, r.Settle)
		return probeResults{results}, err
	})
	byHand(a, in, mux, "Keep", o, func(ctx context.Context, s Settings, r *Keep) (Keeping, error) { return s.Keep(ctx, *r) })
	byHand(a, in, mux, "Restore", o, func(ctx context.Context, s Settings, r *restoreRequest) (Restored, error) {
		return s.Restore(ctx, r.Since)
	})
	byHand(a, in, mux, "Kept", o, func(ctx context.Context, s Settings, _ *nothing) (keptList, error) {
		records, err := s.Kept(ctx)
		return keptList{records}, err
	})
	byHand(a, in, mux, "Confirmed", o, func(ctx context.Context, s Settings, _ *nothing) (confirmedList, error) {
		settings, err := s.Confirmed(ctx)
		return confirmedList{settings}, err
	})
	byHand(a, in, mux, "Claims", o, func(ctx context.Context, s Settings, r *knobNames) (claimList, error) {
		claims, err := s.Claims(ctx, r.once())
		return claimList{claims}, err
	})
}

// once returns each name once.
func (k knobNames) once() []model.KnobID {
	slices.Sort(k.IDs)
	return slices.Compact(k.IDs)
}

// changed returns the answer of a call that made or undid changes.
func changed(list []model.Change, err error) (changeList, error) {
	return changeList{Changes: list}, err
}

// run follows a run and sends its events.
func (a *adapter) run(ctx context.Context, r *runNumber, out *connect.ServerStream[Event]) error {
	w, _ := ctx.Value(controllerKey{}).(*http.ResponseController)
	send := func(e Event) error {
		if w != nil {
			if err := extend(w, a.timeouts.Send); err != nil {
				return fmt.Errorf("send event: %w", err)
			}
			// net/http ends a stream at its deadline even if nothing is being written, and a
			// run may have nothing to send for a long time.
			defer func() { _ = w.SetWriteDeadline(time.Time{}) }()
		}
		if e.Kind != Samples {
			return out.Send(&e)
		}
		known := slices.DeleteFunc(slices.Clone(e.Samples), func(s model.Sample) bool {
			return math.IsNaN(s.Value) || math.IsInf(s.Value, 0)
		})
		for batch := range slices.Chunk(known, MaxSamples) {
			if err := out.Send(&Event{Kind: Samples, Samples: batch}); err != nil {
				return err
			}
		}
		return nil
	}
	err := a.service.Run(ctx, r.Run, send)
	if w != nil {
		_ = extend(w, a.timeouts.Send) // for the last message, which fails if this does
	}
	return outgoing(err)
}
