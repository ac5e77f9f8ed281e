// Package reqresp measures how long requests over TCP take to be answered, and how many are
// answered or how many connections are made in a second.
//
// The near end asks in direction To, the far end in direction From. The asking end measures:
// its window opens Omit after its start and lasts Duration.
//
// With a rate, request i of the run is due at start + i/rate, whatever happened to earlier
// ones, and its latency counts from then: requests that had to wait because an earlier one was
// stuck are as slow as their users would have found them (Tene, "How NOT to measure latency",
// 2013, calls the opposite coordinated omission). Each connection carries one request at a
// time. The time from the actual sending is recorded separately, as the service time. Without a
// rate each connection sends the next request as soon as it has its answer.
//
// A request belongs to the window in which it is due or, without a rate, sent. At the end of
// the window the asking end waits for unanswered requests for some time; after that they are
// lost. Quantiles are over all requests that were due: one that falls among the lost is
// unknown.
//
// The receiver of the direction answers. It counts the requests in the window, which are
// marked, and ends when the asking end tells it to. docs/wire/reqresp.md describes the bytes.
package reqresp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/measure/engine"
)

// Name is the engine's name in plans and on the wire.
const Name = requests.Name

// Limits of a flow.
const (
	maxStreams = 512
	maxBlock   = 64 << 20
	maxRate    = 10e6 // arrivals per second: each is at least a system call of 0.1 µs
)

// Engine is the request engine. It is safe for concurrent use.
type Engine struct {
	waiters  func(streams int, spin bool) (waiter, string)
	patience time.Duration // how long after its window to wait for unanswered requests
	grace    time.Duration // how long one end waits for a message of the other
}

// New returns the engine. Requests that are unanswered 2 s after the window are lost, and an
// end gives up if a message of the other is 10 s late.
func New() *Engine {
	return &Engine{waiters: chooseWaiter, patience: 2 * time.Second, grace: 10 * time.Second}
}

// Name returns "reqresp".
func (*Engine) Name() string { return Name }

// Kind returns the engine's metadata.
func (*Engine) Kind() traffic.Kind { return requests.Kind() }

// Validate reports every fault of f at once, joined.
//
// The flow ends by Duration, not by Bytes. Block and the reply are at most
// 64 MiB, the rate at most 10 million per second, MSS between 88 and 32767
// bytes, Interval at least 10 ms, and there are at most 512 streams per
// direction.
func (*Engine) Validate(f model.Flow) error {
	var faults engine.Faults
	check := faults.Unless
	faults.Engine(f, Name)
	faults.Direction(f)
	check(f.Streams >= 0 && f.Streams <= maxStreams, "%d streams: not between 1 and %d", f.Streams, maxStreams)
	check(f.Duration > 0, "duration %v is not positive", f.Duration)
	check(f.Omit >= 0, "omit %v is negative", f.Omit)
	check(f.Bytes == 0, "%d bytes: requests end by duration alone", f.Bytes)
	faults.Interval(f)
	check(f.Block >= 0 && f.Block <= maxBlock, "request of %d bytes: not between 1 and %d", f.Block, maxBlock)
	faults.Window(f)
	faults.MSS(f)
	faults.Lead(f)
	q := engine.Params[requests.Params](&faults, f)
	check(q.Rate >= 0 && q.Rate <= maxRate, "%v arrivals per second: not between 0 and %.0f", q.Rate, maxRate)
	check(q.Reply >= 0 && q.Reply <= maxBlock, "answer of %d bytes: not between 1 and %d", q.Reply, maxBlock)
	return faults.Err()
}

// complete fills in the engine's defaults: one stream, an interval of 1 s, requests of 1 byte,
// and answers as long as requests.
func complete(f model.Flow) spec {
	f.Streams = max(f.Streams, 1)
	f.Block = max(f.Block, 1)
	f.Interval = cmp.Or(f.Interval, time.Second)
	q, _ := traffic.Read[requests.Params](f.Params) // f is valid
	q.Reply = cmp.Or(q.Reply, f.Block)
	return spec{Flow: f, Requests: q}
}

// spec is a flow with this engine's parameters.
type spec struct {
	model.Flow
	Requests requests.Params
	egress   model.Egress // of fresh connections
}

// Prepare opens for each direction of f, first To, then From, a control connection and one
// connection for each stream, and returns the test. The defaults of f are one stream, an
// interval of 1 s, requests of 1 byte, answers as long as requests, one request after the
// other.
//
// With connect there are no connections for streams: the answering end opens a port for this
// run only, and the asking end tries it once. If a firewall between the ends blocks it, the
// error says so.
func (e *Engine) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	if err := e.Validate(f); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	s := complete(f)
	t := &test{
		Life: engine.NewLife(), engine: e, host: env.Host, spec: s,
	}
	var warning string
	if s.Requests.Connect {
		t.waiter = poller{}
		if s.Requests.Spin {
			warning = "waiting by polling is not possible with a connection per request"
		}
	} else {
		t.waiter, warning = e.waiters(s.Streams*len(s.Direction.Parts()), s.Requests.Spin)
	}
	if warning != "" {
		t.warnings = append(t.warnings, warning)
	}
	if err := t.open(ctx, env); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if env.Counts != nil {
		env.Counts(t.sent)
	}
	return t, nil
}

// sent returns how many bytes of requests and answers this end has sent so far. (The control
// messages are some dozens.)
func (t *test) sent() (all int64) {
	if a := t.asking; a != nil {
		for _, m := range a.meters {
			all += m.sent.n.Load()
		}
	}
	if a := t.answering; a != nil {
		for _, d := range a.desks {
			all += d.sent.n.Load()
		}
		if a.door != nil {
			all += a.door.sent.Load()
		}
	}
	return all
}

// options returns the options of the connections that carry requests.
func options(f spec) engine.SocketOptions {
	return engine.SocketOptions{Window: int(f.Window), MSS: f.MSS, NoDelay: !f.Nagle, Congestion: f.Congestion, Egress: f.egress}
}

// open opens everything, then exchanges greetings: the answering end sends first.
func (t *test) open(ctx context.Context, env engine.Env) error {
	t.spec.egress = env.Egress
	for _, d := range t.spec.Direction.Parts() {
		steer, err := t.take(ctx, env, d, 1, engine.SocketOptions{NoDelay: true})
		if err != nil {
			return err
		}
		n := t.spec.Streams
		if t.spec.Requests.Connect {
			n = 0
		}
		c := &channel{conn: steer[0]}
		// From here on t.Close closes everything if opening fails.
		if d.Sender() == env.Host {
			t.asking = newAsker(d, t.spec, t.waiter, c)
			err = t.lines(ctx, env, d, n, t.asking.employ)
		} else {
			t.answering = newAnswerer(d, t.spec, t.waiter, c)
			err = t.lines(ctx, env, d, n, t.answering.add)
		}
		if err != nil {
			return err
		}
	}
	if t.answering != nil {
		if err := t.answering.greet(ctx); err != nil {
			return err
		}
	}
	if t.asking != nil {
		return t.asking.meet(ctx, t.engine.grace)
	}
	return nil
}
