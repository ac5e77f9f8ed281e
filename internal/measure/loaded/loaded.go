// Package loaded measures latency without load, and then under the load of another engine.
//
// The near end sends two kinds of probes at a fixed pace, and the far end returns each:
// datagrams of 24 bytes, and single bytes on a TCP connection of its own without Nagle's
// algorithm. At first, for Flow.Lead, there are only probes; then both ends start the load, of
// the same flow, and probing continues from the end of its Omit to the end of its Duration.
// Added delay is the median under load minus the idle one.
//
// Probes never wait for each other, so no time is left out while the path stalls. Their time
// counts from the moment they are sent: the sender's pace is not the path's. A datagram that
// has not returned when everything else has is lost; TCP's probes are retransmitted, and late.
//
// The load's report is passed on unchanged, except that the start of its samples counts from
// this engine's start. docs/wire/loaded.md describes the bytes.
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

// DefaultLoad is the name of the default load engine.
const DefaultLoad = probes.DefaultLoad

const (
	// maxIdle bounds Flow.Lead: an end waits for the other to begin the load while a session
	// waits for both, which it does for 15 s beyond the flow's own time.
	maxIdle         = 10 * time.Second
	defaultInterval = time.Second
)

// Engine measures latency under load. It is safe for concurrent use.
type Engine struct {
	loads    []engine.Engine
	patience time.Duration // timeout of the last probes
	grace    time.Duration // how long one end waits for a message of the other
}

// New returns the engine. load are the engines that can make the load. The engine waits at most
// 3 s for the last probes, and an end gives up if a message of the other is 10 s late.
func New(load ...engine.Engine) *Engine {
	return &Engine{loads: load, patience: 3 * time.Second, grace: 10 * time.Second}
}

// Name returns "loaded".
func (*Engine) Name() string { return Name }

// Kind returns the engine's metadata.
func (e *Engine) Kind() traffic.Kind {
	loads := lists.Each(e.loads, func(l engine.Engine) traffic.Kind { return l.Kind() })
	return probes.Kind(loads...)
}

// load returns the engine that makes the load of f, and its flow.
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

// Validate reports every fault of f at once, joined. Flow.Lead is at most 10 s and Interval at
// least 10 ms; the load's engine checks the rest.
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

// Prepare opens what the load needs, then the TCP connection of the probes and, if both ends
// have UDP, their UDP socket, and returns the test. The defaults of f are an interval of 1 s,
// no time without load, and the load's own defaults.
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
	// connections, and a window or Multipath TCP belongs in their SYN.
	if t.load, err = l.Prepare(ctx, env, inner); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare load: %w", err), t.Close())
	}
	if err := t.open(ctx, env); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

const (
	// leastPace is the time between two probes of a kind. 50 a second are 500 in a run of 10 s,
	// so that p99 rests on the slowest 5.
	leastPace = 20 * time.Millisecond
	// mostPace ensures some probes in the time without load, whatever they take.
	mostPace = 200 * time.Millisecond
	// udpBits is a datagram's size on Ethernet with preamble and gap, each way, and tcpBits
	// that of a TCP byte of 91 bytes and an acknowledgment of 90.
	udpBits = 90 * 8
	tcpBits = (91 + 90) * 8
	// share is the part of the path's rate that probes may take, so that they do not add to the
	// delay that they measure.
	share = 0.01
)

// pace returns the time between two probes of the kinds that take bits together: 20 ms, or more
// if they would take more than 1 % of the path's rate, with both kinds below 10.84 Mbit/s. A
// rate of 0 is unknown.
func pace(rate units.BitRate, bits float64) time.Duration {
	if rate <= 0 {
		return leastPace
	}
	return max(time.Duration(min(bits/(share*float64(rate)), never.Seconds())*float64(time.Second)), leastPace)
}

// open opens what the probes need. Both ends first send whether they have UDP, and then whether
// it could be opened.
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

// openUDP opens the UDP socket.
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

// closed returns err, or nil if it reports that c was closed already.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
