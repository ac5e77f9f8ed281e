// Package tcpbulk measures how much TCP payload a path carries: one end sends
// as fast as it can over a number of connections, the other counts.
//
// A run goes like this:
//
//  1. Prepare opens one set of connections per direction.
//  2. Run starts a worker per stream (or few workers for many streams), which does nothing but
//     system calls and counting in memory of its own.
//  3. A sampler reads clock and counters together, at the end of each interval and at the edges
//     of the measured window, and the sender's TCP_INFO with them. Nothing else runs while the
//     clock does: no allocation, lock or log in a worker, and garbage collection is off.
//  4. With Duration, the receiver's window opens Omit after its start and the sender sends
//     until it is stopped. With Bytes, every stream sends its share, the receiver's window
//     lasts from the first byte to the last stream's end, and the sender waits until the
//     receiver has read everything.
//
// The payload is one block of pseudo-random bytes, the same in every write and
// every run, which no link compresses. The receiver copies it to user space,
// as an application does; with NoCopy neither end copies it, on Linux.
package tcpbulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
)

// Name is the engine's name in plans and on the wire.
const Name = bulk.Name

// Limits of a flow.
const (
	maxStreams = 4096
	maxBlock   = 64 << 20
)

// Engine measures TCP bulk transfers. It is safe for concurrent use; one engine per process
// serves all its tests.
type Engine struct {
	planes func(streams int) mover
	grace  time.Duration // how long after the receiver's window a sender waits to be stopped
	stall  time.Duration // timeout without progress of a flow with a byte count

	unplanned bool // see Unplanned
}

// New returns the engine. Its senders give up if they have not been stopped 10 s after the end
// of the receiver's window, and both ends of a flow with a byte count after 30 s without
// progress: a vanished peer never answers.
func New() *Engine {
	return &Engine{planes: choosePlane, grace: 10 * time.Second, stall: 30 * time.Second}
}

// Unplanned returns the engine for flows whose plan is only an upper bound, because the sender
// alone knows the end: a receiver reports no missing part.
func (e *Engine) Unplanned() *Engine {
	own := *e
	own.unplanned = true
	return &own
}

// Name returns "tcpbulk".
func (*Engine) Name() string { return Name }

// Kind returns the engine's metadata.
func (*Engine) Kind() traffic.Kind { return bulk.Kind() }

// Validate reports every fault of f at once, joined.
//
// Bytes replaces Duration and Omit, so it excludes both. Block is at most 64 MiB, MSS between
// 88 and 32767 bytes, Interval at least 10 ms, and there are at most 4096 streams per
// direction.
func (*Engine) Validate(f model.Flow) error {
	var faults engine.Faults
	check := faults.Unless
	faults.Engine(f, Name)
	faults.Direction(f)
	check(f.Streams >= 0 && f.Streams <= maxStreams, "%d streams: not between 1 and %d", f.Streams, maxStreams)
	faults.Amount(f)
	faults.Lead(f)
	params := engine.Params[bulk.Params](&faults, f)
	check(params.Rate >= 0 && params.Rate <= maxRate, "rate of %v: not between 0 and %v", params.Rate, maxRate)
	check(f.Bytes == 0 || int64(f.Bytes) >= int64(f.Streams), "%d bytes are less than one for each of %d streams", f.Bytes, f.Streams)
	faults.Interval(f)
	check(f.Block >= 0 && f.Block <= maxBlock, "block of %d bytes: not between 1 and %d", f.Block, maxBlock)
	faults.Window(f)
	faults.MSS(f)
	return faults.Err()
}

// Prepare opens one set of connections for each direction of f, first To, then From, and
// returns the test. The defaults of f are one stream, an interval of 1 s, and the block size of
// Block.
func (e *Engine) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	if err := e.Validate(f); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	f.Streams = max(f.Streams, 1)
	f.Interval = cmp.Or(f.Interval, time.Second)
	directions := f.Direction.Parts()
	params, _ := traffic.Read[bulk.Params](f.Params) // Validate has checked them
	p := e.planes(f.Streams * len(directions))
	if params.Rate > 0 {
		p = poller{} // a stream that waits for its time releases its thread
	}
	if f.Block == 0 {
		f.Block = Block(env)
	}
	t := &test{
		Life: engine.NewLife(), engine: e, plane: p, host: env.Host, spec: f,
	}
	for _, d := range directions {
		fl, warnings, err := openFlow(ctx, env, p, f, d)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		fl.Unplanned = e.unplanned && fl.Role == model.Receiver
		t.flows = append(t.flows, fl)
		t.warnings = append(t.warnings, warnings...)
	}
	return t, nil
}

// maxRate is the highest rate of a paced flow.
const maxRate units.BitRate = 1e12

// Sizes of a write: see Block.
const (
	slowBlock units.Bytes   = 128 << 10
	fastBlock units.Bytes   = 512 << 10
	fastLink  units.BitRate = 10e9
)

// Block returns the default block size: 512 KiB on links of 10 Gbit/s and more, 128 KiB on
// slower ones. A link of unknown rate is mostly virtual, and counts as fast.
//
// Larger blocks save system calls; bench/ shows the gain. On a slow link a large block would
// make one write last long: 512 KiB at 10 Mbit/s are 0.4 s.
func Block(env engine.Env) units.Bytes {
	if env.LinkRate.Or(fastLink) < fastLink {
		return slowBlock
	}
	return fastBlock
}

// openFlow opens the connections of direction d and passes them to p.
func openFlow(ctx context.Context, env engine.Env, p mover, spec model.Flow, d model.Direction) (*flow, []string, error) {
	params, _ := traffic.Read[bulk.Params](spec.Params)
	o := engine.SocketOptions{Window: int(spec.Window), MSS: spec.MSS, NoDelay: !spec.Nagle, MPTCP: params.MPTCP}
	role := model.Receiver
	if d.Sender() == env.Host {
		role = model.Sender
		// The receiver does not need the sender's algorithm.
		o.Congestion = spec.Congestion
	}
	opened, err := env.Open(ctx, spec.Streams, o)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s %s: %w", plain.Count(spec.Streams, "connection"), d, err)
	}
	fl := newFlow(d, role, spec)
	fl.pace = float64(params.Rate) / 8 / float64(spec.Streams)
	for i, c := range opened.Conns {
		s := &stream{quota: share(spec, i)}
		if role == model.Sender && params.MPTCP && sockio.Multipath(c) {
			s.paths = &subflows{}
		}
		l, err := p.attach(c)
		if err != nil {
			for _, rest := range opened.Conns[i:] {
				err = errors.Join(err, rest.Close())
			}
			return nil, nil, errors.Join(fmt.Errorf("take over connection %d %s: %w", i+1, d, err), fl.close())
		}
		s.link = l
		fl.streams = append(fl.streams, s)
	}
	if len(fl.streams) != spec.Streams {
		return nil, nil, errors.Join(
			fmt.Errorf("open connections %s: got %d of %d", d, len(fl.streams), spec.Streams), fl.close())
	}
	fl.prepare()
	if params.NoCopy {
		if err := p.uncopied(fl.work); err != nil {
			opened.Warnings = append(opened.Warnings, fmt.Sprintf("the payload is copied all the same: %v", err))
		}
	}
	return fl, opened.Warnings, nil
}

// share returns how many bytes stream i sends: unlimited without a byte count; otherwise an
// equal part, the first streams one more for the remainder.
func share(f model.Flow, i int) int64 {
	if f.Bytes == 0 {
		return unlimited
	}
	n, streams := int64(f.Bytes), int64(f.Streams)
	part := n / streams
	if int64(i) < n%streams {
		part++
	}
	return part
}
