// Package agenttest provides what tests of sessions need besides an agent: a small engine that
// moves bytes, knobs in memory, and a check for leaked goroutines.
package agenttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
)

// EngineName is the name of Engine.
const EngineName = "bytes"

// Engine moves bytes over TCP and counts them. It is not fast.
type Engine struct{}

// Name returns EngineName.
func (Engine) Name() string { return EngineName }

// Kind returns a kind with a name only.
func (Engine) Kind() traffic.Kind { return traffic.Kind{Name: EngineName} }

// Validate refuses more than 32 streams.
func (Engine) Validate(f model.Flow) error {
	if f.Streams > 32 {
		return fmt.Errorf("engine bytes has at most 32 streams, not %d", f.Streams)
	}
	return nil
}

// Prepare opens the connections of all directions at once.
func (Engine) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	n := max(1, f.Streams)
	parts := f.Direction.Parts()
	o, err := env.Open(ctx, n*len(parts), engine.SocketOptions{NoDelay: true, Window: int(f.Window)})
	if err != nil {
		return nil, err
	}
	t := &test{
		host: env.Host, flow: f, conns: o.Conns, warnings: o.Warnings,
		measured: make(chan struct{}), stopped: make(chan struct{}),
	}
	for i, d := range parts {
		h := &oneWay{direction: d, conns: o.Conns[i*n : (i+1)*n], whole: make(chan struct{})}
		if d.Sender() == env.Host {
			t.sends = append(t.sends, h)
		} else {
			t.receives = append(t.receives, h)
		}
	}
	return t, nil
}

// oneWay is one direction at one end.
type oneWay struct {
	direction model.Direction
	conns     []*net.TCPConn
	bytes     atomic.Int64
	whole     chan struct{} // closed when all bytes of a counted flow have passed
	once      sync.Once
}

type test struct {
	host            model.Host
	flow            model.Flow
	conns           []*net.TCPConn
	warnings        []string
	sends, receives []*oneWay
	measured        chan struct{}
	stopped         chan struct{}
	stop, close     sync.Once
}

// Measured returns a channel that is closed when the windows are complete.
func (t *test) Measured() <-chan struct{} { return t.measured }

// Stop makes Run end.
func (t *test) Stop() { t.stop.Do(func() { close(t.stopped) }) }

// Close closes the connections.
func (t *test) Close() error {
	t.Stop()
	t.close.Do(func() {
		for _, c := range t.conns {
			_ = c.Close()
		}
	})
	return nil
}

// Run moves bytes.
func (t *test) Run(ctx context.Context, emit func([]model.Sample)) (model.EndReport, error) {
	defer context.AfterFunc(ctx, func() { _ = t.Close() })()
	start := time.Now()
	var moving sync.WaitGroup
	for _, h := range t.sends {
		t.each(&moving, h, func(c *net.TCPConn, b []byte) (int, error) { return c.Write(b) })
	}
	for _, h := range t.receives {
		t.each(&moving, h, func(c *net.TCPConn, b []byte) (int, error) { return c.Read(b) })
	}
	before, window := t.observe(start, emit)
	r := model.EndReport{Host: t.host, CPUWindow: time.Since(start), Warnings: t.warnings}
	for _, h := range t.receives {
		r.Flows = append(r.Flows, model.FlowReport{
			Direction: h.direction, Role: model.Receiver, Bytes: units.Bytes(h.bytes.Load() - before[h]), Window: window,
		})
	}
	for _, h := range t.sends {
		r.Flows = append(r.Flows, model.FlowReport{
			Direction: h.direction, Role: model.Sender, Bytes: units.Bytes(h.bytes.Load()), Window: time.Since(start),
		})
	}
	close(t.measured)
	if len(t.receives) == 0 || len(t.sends) > 0 {
		<-t.stopped
	}
	for _, c := range t.conns {
		_ = c.SetDeadline(time.Unix(1, 0))
	}
	moving.Wait()
	if ctx.Err() != nil {
		return model.EndReport{}, ctx.Err()
	}
	return r, nil
}

// each moves blocks over every connection of h until it breaks or the flow is complete.
func (t *test) each(moving *sync.WaitGroup, h *oneWay, move func(c *net.TCPConn, b []byte) (int, error)) {
	for _, c := range h.conns {
		moving.Go(func() {
			b := make([]byte, 16<<10)
			for {
				n, err := move(c, b)
				total := h.bytes.Add(int64(n))
				if err != nil || t.flow.Bytes > 0 && total >= int64(t.flow.Bytes) {
					h.once.Do(func() { close(h.whole) })
					return
				}
			}
		})
	}
}

// late is how long a window waits for its first byte, whatever its length: the sender begins
// after the receiver, and a busy machine may take seconds to start it.
const late = 12 * time.Second

// silent reports whether a stream has received nothing since before.
func (t *test) silent(before map[*oneWay]int64) bool {
	return slices.ContainsFunc(t.receives, func(h *oneWay) bool { return h.bytes.Load() == before[h] })
}

// observe waits for the end of the measured window and emits samples meanwhile. It returns
// the bytes that arrived before the window, and the window's length.
func (t *test) observe(start time.Time, emit func([]model.Sample)) (map[*oneWay]int64, time.Duration) {
	before, last := map[*oneWay]int64{}, map[*oneWay]int64{}
	whole := make(<-chan struct{})
	if len(t.receives) > 0 {
		whole = t.receives[0].whole
	} else if t.flow.Bytes == 0 || len(t.sends) > 0 {
		return before, 0
	}
	end := time.NewTimer(t.flow.Omit + t.flow.Duration)
	defer end.Stop()
	if t.flow.Duration == 0 {
		end.Stop()
	}
	tick := time.NewTicker(max(t.flow.Interval, 10*time.Millisecond))
	defer tick.Stop()
	opened := start
	for {
		select {
		case now := <-tick.C:
			var batch []model.Sample
			omitted := now.Sub(start) < t.flow.Omit
			for _, h := range t.receives {
				n := h.bytes.Load()
				batch = append(batch, model.Sample{
					Host: t.host, Direction: h.direction, Metric: model.Goodput, Start: now.Sub(start),
					Length: t.flow.Interval, Value: float64(n - last[h]), Omitted: omitted,
				})
				last[h] = n
				if omitted {
					before[h], opened = n, now
				}
			}
			emit(batch)
			continue
		case <-end.C:
			if t.silent(before) && time.Since(start) < late {
				end.Reset(10 * time.Millisecond)
				continue
			}
		case <-whole:
		case <-t.stopped:
		}
		return before, time.Since(opened)
	}
}

// ErrRefused is the error of Refusing.
var ErrRefused = errors.New("this engine never opens anything")

// Refusing is an engine whose preparation fails after Delay.
type Refusing struct{ Delay time.Duration }

// Name returns "refusing".
func (Refusing) Name() string { return "refusing" }

// Kind returns a kind with a name only.
func (Refusing) Kind() traffic.Kind { return traffic.Kind{Name: "refusing"} }

// Validate accepts everything.
func (Refusing) Validate(model.Flow) error { return nil }

// Prepare fails.
func (r Refusing) Prepare(ctx context.Context, _ engine.Env, _ model.Flow) (engine.Test, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(r.Delay):
		return nil, ErrRefused
	}
}

// ScriptedName is the name of Scripted.
const ScriptedName = "scripted"

// Scripted is an engine that moves nothing and takes no time: the receiver reports the rate
// that Rate returns over the whole duration of the flow.
type Scripted struct{ Rate func() units.BitRate }

// Name returns ScriptedName.
func (Scripted) Name() string { return ScriptedName }

// Kind returns a kind with a name only.
func (Scripted) Kind() traffic.Kind { return traffic.Kind{Name: ScriptedName} }

// Validate accepts everything.
func (Scripted) Validate(model.Flow) error { return nil }

// Prepare opens one connection, as a session requires.
func (s Scripted) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	o, err := env.Open(ctx, 1, engine.SocketOptions{})
	if err != nil {
		return nil, err
	}
	measured := make(chan struct{})
	close(measured)
	return scripted{s.Rate, o.Conns[0], env.Host, f, measured}, nil
}

type scripted struct {
	rate     func() units.BitRate
	conn     *net.TCPConn
	host     model.Host
	flow     model.Flow
	measured chan struct{}
}

func (s scripted) Measured() <-chan struct{} { return s.measured }
func (s scripted) Stop()                     {}
func (s scripted) Close() error              { _ = s.conn.Close(); return nil }

func (s scripted) Run(context.Context, func([]model.Sample)) (model.EndReport, error) {
	r := model.EndReport{Host: s.host, CPUWindow: s.flow.Duration}
	for _, d := range s.flow.Direction.Parts() {
		bytes := units.Bytes(float64(s.rate()) / 8 * s.flow.Duration.Seconds())
		role := model.Sender
		if d.Sender() != s.host {
			role = model.Receiver
		}
		r.Flows = append(r.Flows, model.FlowReport{Direction: d, Role: role, Bytes: bytes, Window: s.flow.Duration})
	}
	return r, nil
}
