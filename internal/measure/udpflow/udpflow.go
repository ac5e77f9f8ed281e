// Package udpflow measures what happens to UDP datagrams on a path: how many arrive at a given
// rate, or as fast as they can be sent, and how evenly.
//
// A run goes like this:
//
//  1. Prepare opens a line, by which each end knows that the other one is still there, and a
//     pair of sockets for each stream of each direction.
//  2. Run starts a thread per stream, which does nothing but move datagrams and count in memory
//     of its own (package datagram). Garbage collection is off while the clock runs.
//  3. The sender marks the datagrams that leave in its measured window, and finally sends their
//     numbers, so that each one is either received or lost. Goodput is counted in the
//     receiver's window, by its own clock (docs/wire/udpflow.md).
//  4. A sampler reads clock and counters at the end of each interval. It stops a sender whose
//     receiver has gone: a load needs a willing receiver.
//
// Copies of a datagram count once. With a rate, datagrams leave one by one at the times of a
// fixed schedule, unless they follow each other faster than system calls can; without a rate,
// in trains that the kernel cuts, if possible and unless Plain is set.
package udpflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/engine"
)

// Name is the engine's name in plans and on the wire.
const Name = udp.Name

// Limits of a flow.
const (
	maxStreams = 128 // each takes a thread
	minBlock   = headerLen
	maxBlock   = datagram.MaxPayload
	maxTime    = 48 * time.Hour // send times count modulo 78 h
)

// Engine measures UDP datagrams. It is safe for concurrent use; one engine per process serves
// all its tests.
type Engine struct {
	portable bool
	bounds   bounds
}

// bounds are timeouts for a peer's actions.
type bounds struct {
	tail    time.Duration // how long a sender continues after its window
	drain   time.Duration // how long a receiver waits for late datagrams
	linger  time.Duration // how long it waits for the sender's counts
	grace   time.Duration // how long a sender waits to be answered or stopped
	silence time.Duration // after which a receiver considers the sender gone
	reports time.Duration // after which a sender considers the receiver gone
}

// New returns the engine. A receiver gives up 3 s after its window if the sender's counts do
// not arrive, or after 30 s without a datagram; a sender after 2 s without the receiver's
// reports, or 10 s after its window if it was neither answered nor stopped.
func New() *Engine {
	return &Engine{bounds: bounds{
		tail: time.Second, drain: 100 * time.Millisecond, linger: 3 * time.Second,
		grace: 10 * time.Second, silence: 30 * time.Second,
		reports: 2 * time.Second,
	}}
}

// Name returns "udpflow".
func (*Engine) Name() string { return Name }

// Kind returns the engine's metadata.
func (*Engine) Kind() traffic.Kind { return udp.Kind() }

// Validate reports every fault of f at once, joined.
//
// Block is 16 to 65507 bytes; there are at most 128 streams per direction, each with at least
// one datagram a minute; Bytes replaces Duration and Omit; Interval is at least 10 ms. Window
// sets both socket buffers. MSS, Nagle and Congestion do not exist for UDP.
func (*Engine) Validate(f model.Flow) error {
	var faults engine.Faults
	check := faults.Unless
	faults.Engine(f, Name)
	faults.Direction(f)
	check(f.Streams >= 0 && f.Streams <= maxStreams, "%d streams: not between 1 and %d", f.Streams, maxStreams)
	check(f.Duration <= maxTime, "duration %v: not between 0 and %v", f.Duration, maxTime)
	check(f.Omit <= maxTime, "omit %v: not between 0 and %v", f.Omit, maxTime)
	faults.Amount(f)
	faults.Interval(f)
	check(f.Block == 0 || f.Block >= minBlock && f.Block <= maxBlock,
		"datagrams of %d bytes: not between %d and %d", f.Block, minBlock, maxBlock)
	faults.Window(f)
	check(f.MSS == 0, "a segment size has no meaning for datagrams")
	check(!f.Nagle, "nagle's algorithm does not exist for datagrams")
	check(f.Congestion == "", "congestion control %q does not exist for datagrams", f.Congestion)
	faults.Lead(f)
	u := engine.Params[udp.Params](&faults, f)
	for _, rate := range []units.BitRate{u.Rate, u.Back} {
		check(rate >= 0 && !math.IsInf(float64(rate), 0) && !math.IsNaN(float64(rate)), "rate %v is no rate", float64(rate))
		check(rate <= 0 || gap(rate, max(f.Streams, 1), cmp.Or(int(f.Block), ethernetMTU)) <= float64(longestGap),
			"%v is less than a datagram a minute for each stream", rate)
	}
	check(u.Pacing == "" || u.Pacing == udp.PacingKernel || u.Pacing == udp.PacingClock,
		"pacing %q is neither %q nor %q", u.Pacing, udp.PacingKernel, udp.PacingClock)
	return faults.Err()
}

// longestGap is the longest time between datagrams of a stream.
const longestGap = time.Minute

// settings returns the UDP parameters of a valid flow.
func settings(f model.Flow) udp.Params {
	u, _ := traffic.Read[udp.Params](f.Params)
	return u
}

// gap returns the time between two datagrams of a stream, ns; 0 without a rate.
func gap(rate units.BitRate, streams, block int) float64 {
	if rate == 0 {
		return 0
	}
	return float64(block) * 8 * float64(streams) / float64(rate) * 1e9
}

// Prepare opens the sockets of each direction of f, first To, then From, and returns the test.
// The error wraps errors.ErrUnsupported if the transport carries no datagrams, or the kernel is
// to pace and cannot.
//
// The defaults of f are one stream, an interval of 1 s, and datagrams of 1472 bytes over IPv4
// and 1452 over IPv6, which fill a packet of 1500 bytes, or less if the path MTU is smaller.
// Pacing uses the clock of the sending thread unless kernel pacing is requested: only the clock
// shows how even the departures were.
func (e *Engine) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	if err := e.Validate(f); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	if env.OpenUDP == nil {
		return nil, fmt.Errorf("open udp sockets: %w: the way to the peer carries none", errors.ErrUnsupported)
	}
	f.Streams = max(f.Streams, 1)
	f.Interval = cmp.Or(f.Interval, time.Second)
	t := &test{
		Life: engine.NewLife(), host: env.Host, spec: f,
	}
	var err error
	if t.line, err = openLine(ctx, env); err != nil {
		return nil, err
	}
	for _, d := range f.Direction.Parts() {
		fl, err := e.openFlow(ctx, env, f, d)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		fl.useKeys(t.line)
		t.flows = append(t.flows, fl)
	}
	t.line.begin(t.counter(), t.Fail)
	return t, nil
}

// openFlow opens the sockets of direction d.
func (e *Engine) openFlow(ctx context.Context, env engine.Env, spec model.Flow, d model.Direction) (*flow, error) {
	sockets, err := env.OpenUDP(ctx, spec.Streams)
	if err != nil {
		return nil, fmt.Errorf("open %d udp sockets %s: %w", spec.Streams, d, err)
	}
	role := model.Receiver
	if d.Sender() == env.Host {
		role = model.Sender
	}
	spec.Params = traffic.Write(settings(spec).Toward(d))
	fl := newFlow(d, role, spec, e.bounds)
	o := datagram.Options{
		Plain: plain(spec), Portable: e.portable, SendBuffer: spec.Window, RecvBuffer: spec.Window,
	}
	for i, s := range sockets {
		c, err := datagram.Attach(s, o)
		if err == nil {
			fl.conns = append(fl.conns, c)
			continue
		}
		for _, rest := range sockets[i+1:] {
			err = errors.Join(err, rest.Close())
		}
		return nil, errors.Join(fmt.Errorf("take over socket %d %s: %w", i+1, d, err), fl.close())
	}
	if len(fl.conns) != spec.Streams {
		return nil, errors.Join(
			fmt.Errorf("open udp sockets %s: got %d of %d", d, len(fl.conns), spec.Streams), fl.close())
	}
	if err := fl.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", d, err), fl.close())
	}
	return fl, nil
}

// plain reports whether the kernel is to see each datagram by itself: if requested, and if the
// rate leaves time for it. Then the receiver also sees when each of them arrived.
func plain(spec model.Flow) bool {
	u := settings(spec)
	return u.Plain || gap(u.Rate, spec.Streams, cmp.Or(int(spec.Block), ethernetMTU)) >= datagram.LeastPlainGap
}

// ethernetMTU is the packet size that the default datagrams fill.
const ethernetMTU = 1500

// block returns the default payload of a datagram.
func block(c *datagram.Conn) int {
	return max(minBlock, min(ethernetMTU, c.PathMTU().Or(ethernetMTU))-c.Headers())
}
