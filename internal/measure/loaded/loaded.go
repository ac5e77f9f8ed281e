// Package loaded measures latency without load, and then under the load that
// another engine makes.
//
// The near end sends two kinds of probes, at a fixed pace, and the far end
// sends each back: datagrams of 24 bytes, and single bytes on a TCP connection
// of its own without Nagle's algorithm. First comes Flow.Lead with probes
// alone; then both ends start the load, of the same flow, and probing goes on
// from the end of its Omit to the end of its Duration. Added delay is the
// median under load less the idle one.
//
// Probes never wait for each other, so nothing is left out while the path stands
// still. Their time counts from the moment they are sent: the pace of the sender
// is not the path's. A datagram that has not come back when everything else has
// is lost; TCP's probes are retransmitted, and late.
//
// What the load reports is passed on unchanged, but for the start of its
// samples, which counts from this engine's start. docs/wire/loaded.md describes
// the bytes.
package loaded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
)

// Name is the engine's name in plans and on the wire.
const Name = probes.Name

// DefaultLoad is the name of the engine that makes the load where a flow names
// none.
const DefaultLoad = probes.DefaultLoad

const (
	// maxIdle bounds Flow.Lead: an end waits for the other to begin the load
	// while a session waits for both, and does so for 15 s beyond the flow's own
	// time.
	maxIdle         = 10 * time.Second
	defaultInterval = time.Second
)

// Engine is the engine of latency under load. It is safe for concurrent use.
type Engine struct {
	loads    []engine.Engine
	patience time.Duration // the longest that the last probes are waited for
	grace    time.Duration // how long one end waits for a word of the other
}

// New returns the engine. load are the engines that may make the load. The last
// probes are waited for at most 3 s, and an end that hears nothing from the
// other within 10 s of when it should gives up.
func New(load ...engine.Engine) *Engine {
	return &Engine{loads: load, patience: 3 * time.Second, grace: 10 * time.Second}
}

// Name returns "loaded".
func (*Engine) Name() string { return Name }

// Kind is the paper half of the engine.
func (e *Engine) Kind() traffic.Kind {
	loads := lists.Each(e.loads, func(l engine.Engine) traffic.Kind { return l.Kind() })
	return probes.Kind(loads...)
}

// load returns the engine that makes the load of f, and what it is asked for.
func (e *Engine) load(f model.Flow) (engine.Engine, model.Flow, error) {
	p, err := traffic.Read[probes.Params](f.Params)
	if err != nil {
		return nil, f, err
	}
	f.Engine, f.Params, f.Lead = cmp.Or(p.Engine, DefaultLoad), p.Load, 0
	var known []string
	for _, l := range e.loads {
		if l.Name() == f.Engine {
			return l, f, nil
		}
		known = append(known, l.Name())
	}
	return nil, f, fmt.Errorf("load %q is not one of %s", f.Engine, strings.Join(known, ", "))
}

// Validate reports every fault of f at once, joined. Flow.Lead is at most
// 10 s, Interval at least 10 ms, and the rest is what the load's engine accepts.
func (e *Engine) Validate(f model.Flow) error {
	var faults engine.Faults
	faults.Engine(f, Name)
	faults.Unless(f.Lead >= 0 && f.Lead <= maxIdle, "idle %v: not between 0 and %v", f.Lead, maxIdle)
	faults.Interval(f)
	l, inner, err := e.load(f)
	if err == nil {
		if err = l.Validate(inner); err != nil {
			err = fmt.Errorf("load: %w", err)
		}
	}
	return errors.Join(faults.Err(), err)
}

// Prepare opens what the load needs, then the connection of the probes and their UDP
// socket where both ends have one, and returns the test. Zero fields of f
// mean: an interval of 1 s, no time without load, and the load's own defaults.
func (e *Engine) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	if err := e.Validate(f); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	l, inner, err := e.load(f)
	if err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	f.Interval = cmp.Or(f.Interval, defaultInterval)
	t := newTest(e, env, f)
	// The load comes first, because an accepting end listens with the options of the first
	// connections, and a window or Multipath TCP belongs into their SYN.
	if t.load, err = l.Prepare(ctx, env, inner); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare load: %w", err), t.Close())
	}
	if err := t.open(ctx, env); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

const (
	// leastPace is the time between two probes of a kind. 50 a second are 500 in
	// a run of 10 s, so that p99 rests on the slowest 5.
	leastPace = 20 * time.Millisecond
	// mostPace keeps some probes in the time without load, whatever they take.
	mostPace = 200 * time.Millisecond
	// udpBits is what a datagram takes on Ethernet with preamble and gap, each way, and
	// tcpBits what a TCP byte of 91 bytes and an acknowledgment of 90 take.
	udpBits = 90 * 8
	tcpBits = (91 + 90) * 8
	// share of what the path carries that probes may take, so that they do not add to
	// the delay that they measure.
	share = 0.01
)

// pace returns the time between two probes of the kinds that take bits together: 20 ms,
// and more where a path carries so little that they would take more than 1 % of it, with
// both kinds less than 10.84 Mbit/s. A rate of 0 is not known.
func pace(rate units.BitRate, bits float64) time.Duration {
	if rate <= 0 {
		return leastPace
	}
	return max(time.Duration(min(bits/(share*float64(rate)), never.Seconds())*float64(time.Second)), leastPace)
}

// open opens what the probes need. Both ends say first whether they have UDP,
// and then whether it could be opened.
func (t *test) open(ctx context.Context, env engine.Env) error {
	opened, err := env.Open(ctx, 1, engine.SocketOptions{NoDelay: true})
	if err != nil {
		return fmt.Errorf("open connection of the probes: %w", err)
	}
	if len(opened.Conns) != 1 {
		for _, c := range opened.Conns {
			err = errors.Join(err, c.Close())
		}
		return errors.Join(fmt.Errorf("open connection of the probes: got %d", len(opened.Conns)), err)
	}
	t.tcp = opened.Conns[0]
	t.warnings = append(t.warnings, opened.Warnings...)
	h := newHello(env.OpenUDP != nil)
	peer, err := t.greet(ctx, h)
	if err != nil {
		return fmt.Errorf("greet the other end: %w", err)
	}
	t.cookie = h.cookie
	if env.Host != model.Near {
		t.cookie = peer.cookie
	}
	if !h.udp || !peer.udp {
		t.warnings = append(t.warnings, "no UDP between the ends: probed by TCP alone")
		return nil
	}
	why := t.openUDP(ctx, env)
	there, err := t.agree(ctx, why == nil)
	if err != nil {
		return fmt.Errorf("greet the other end: %w", err)
	}
	if why == nil && there {
		return nil
	}
	if why == nil {
		why = errors.New("the other end could not open it")
	}
	t.warnings = append(t.warnings, fmt.Sprintf("probed by TCP alone: open UDP: %v", why))
	return t.dropUDP()
}

// openUDP opens the socket for datagrams.
func (t *test) openUDP(ctx context.Context, env engine.Env) error {
	ctx, cancel := context.WithTimeout(ctx, t.engine.grace/2)
	defer cancel()
	socks, err := env.OpenUDP(ctx, 1)
	if err == nil && len(socks) != 1 {
		err = fmt.Errorf("got %d sockets", len(socks))
	}
	if err != nil {
		for _, s := range socks {
			err = errors.Join(err, s.Close())
		}
		return err
	}
	t.udp = socks[0]
	return nil
}

func (t *test) dropUDP() error {
	if t.udp == nil {
		return nil
	}
	err := t.udp.Close()
	t.udp = nil
	return err
}

// closed returns err, or nil where it says that c was closed already.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
