package netpipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/sweep"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/program"
	"linerate/internal/measure/sockio"
)

// Limits of a server without a key.
const (
	servedWaiting = 8        // transmitters
	servedLargest = 16 << 20 // bytes of a message; NPtcp's own schedule ends at 10^7
)

// optionsFlag is the flag of serve with the options of its clients.
const optionsFlag = "netpipe-options"

// Program describes NetPIPE's NPtcp for linerate.
func Program() program.Program {
	p := program.Program{
		Name: sizes.NetPIPE, Server: "an NPtcp receiver", Port: strconv.Itoa(Port), Once: true, Kinds: []traffic.Kind{sweep.NPtcp()}, Fit: fit,
		Start:       func(port string) string { return "NPtcp" + program.At(" -P ", port) },
		ServerFlags: []program.Flag{{Name: optionsFlag, Usage: "options of the NPtcp clients that both ends must share: -r, -s, -2, -i"}},
		Help: `A test of NPtcp may last 15 min, or the lifetime of a session where that is less, as
it is unless --limit-source says more.`,
		CheckServe: func(given program.Values) error {
			_, err := servedSettings(given[optionsFlag])
			return err
		},
		Serve: listen,
	}
	p.New = func(addr string, given program.Values, _ func(string) string) (program.Client, error) {
		c := remote{program: p, addr: addr}
		var err error
		if c.smallest, err = given.Bytes("min"); err == nil {
			c.largest, err = given.Bytes("max")
		}
		return c, err
	}
	return p
}

// fit converts a sweep's flow to one of NPtcp, which follows its own schedule.
func fit(f model.Flow, given program.Values) (model.Flow, error) {
	if f.Engine != sizes.Name && f.Engine != sizes.NetPIPE {
		return f, fault.New(fault.Usage, errors.New("an NPtcp receiver measures message sizes only"), "use linerate sweep HOST")
	}
	own, err := traffic.Read[sizes.Params](f.Params)
	if err != nil {
		return f, err
	}
	for _, of := range []struct {
		flag  string
		asked bool
	}{{"reverse", f.Direction == model.From}, {"nagle", f.Nagle}, {"spin", own.Spin}, {"time", f.Duration != 0}} {
		if of.asked {
			return f, fault.Usagef("--%s: an NPtcp receiver does not have it", of.flag)
		}
	}
	own.Sizes = []units.Bytes{} // its own schedule; a document needs a list
	f.Engine = sizes.NetPIPE
	f = sizes.With(f, own)
	r := remote{}
	if r.smallest, err = given.Bytes("min"); err == nil {
		r.largest, err = given.Bytes("max")
	}
	if err == nil {
		err = r.options(f).Validate()
	}
	if err != nil {
		return f, fault.WithKind(fault.Usage, err)
	}
	return f, nil
}

// remote is a receiver at an address.
type remote struct {
	program  program.Program
	addr     string
	smallest units.Bytes // of the schedule; 0 is NPtcp's own
	largest  units.Bytes
}

// options returns the options of NPtcp for f.
func (r remote) options(f model.Flow) Options {
	own, _ := sizes.Of(f)
	s := Default()
	if r.smallest > 0 {
		s.Start = int(r.smallest)
	}
	if r.largest > 0 {
		s.Upper = int(r.largest)
	}
	s.Bidirectional, s.Streaming, s.Reset = own.Mode == sizes.Both, own.Mode == sizes.Stream, own.Fresh
	return Options{Settings: s, Window: f.Window}
}

// Run implements program.Client: one run of NPtcp's own schedule.
func (r remote) Run(ctx context.Context, f model.Flow, host program.Near, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	before, cpuErr := sockio.ProcessCPU()
	started := time.Now()
	dial := func(ctx context.Context) (*net.TCPConn, error) {
		c, err := sockio.Dial(ctx, net.Dialer{}, "tcp4", r.addr, engine.SocketOptions{NoDelay: true, Egress: host.Egress})
		if err != nil {
			return nil, err
		}
		conn, ok := c.(*net.TCPConn)
		if !ok {
			_ = c.Close()
			return nil, fmt.Errorf("%T is not TCP", c)
		}
		return conn, nil
	}
	peer := New()
	peer.met = host.Met
	near.Points, err = peer.Transmit(ctx, dial, r.options(f), func(point model.Point) {
		if len(point.Trials) > 0 {
			emit([]model.Sample{{
				Host: model.Near, Direction: model.To, Metric: model.LatencyP50, Start: time.Since(started),
				Value: slices.Min(point.Trials).Seconds(),
			}})
		}
	})
	if after, aerr := sockio.ProcessCPU(); cpuErr == nil && aerr == nil {
		spent := after.Sub(before)
		near.CPUUser, near.CPUSystem, near.CPUWindow = spent.User, spent.System, time.Since(started)
	}
	if len(near.Points) > 0 && err != nil {
		near.Warnings = append(near.Warnings, fmt.Sprintf("the sweep ended early: %v", err))
		err = nil
	}
	return near, far, r.program.Unreachable(ctx, err, r.addr)
}

// servedSettings parses the options of NPtcp that both ends must share.
func servedSettings(options string) (Settings, error) {
	s := Default()
	for word := range strings.FieldsSeq(options) {
		switch word {
		case "-r":
			s.Reset = true
		case "-s":
			s.Streaming = true
		case "-2":
			s.Bidirectional = true
		case "-i":
			s = s.WithIntegrity()
		default:
			return s, fault.New(fault.Usage, fmt.Errorf("--netpipe-options: %q is unknown; write -r, -s, -2 or -i", word),
				"these are the options of NPtcp that both ends must have alike")
		}
	}
	if err := s.Validate(); err != nil {
		return s, fault.Usagef("--netpipe-options: %w", err)
	}
	return s, nil
}

// listen implements program.Program.Serve.
func listen(_ context.Context, at program.Sockets, h program.Host) (func(context.Context) error, error) {
	same, err := servedSettings(h.Given[optionsFlag])
	if err != nil {
		return nil, err
	}
	own := sizes.Params{Sizes: []units.Bytes{}, Fresh: same.Resets()}
	switch {
	case same.Bidirectional:
		own.Mode = sizes.Both
	case same.Streaming:
		own.Mode = sizes.Stream
	}
	flow := sizes.With(model.Flow{Engine: sizes.NetPIPE, Direction: model.To}, own)
	limits := Limits{
		Largest: servedLargest, Waiting: servedWaiting, Budget: h.Budget, Unknown: max(1, h.Unknown-servedWaiting-1),
		Begun: func(from netip.Addr) { h.Tell(program.Event{Test: program.Test{From: from, Flow: flow}, Began: true}) },
	}
	return func(ctx context.Context) error {
		return New().Serve(ctx, at.TCP, same, limits, func(e Event) {
			if e.Note != "" {
				h.Note(e.Note)
				return
			}
			t := program.Test{From: e.From, Flow: flow, Took: e.Took, Err: e.Err}
			if e.Began {
				t.Ends = []model.EndReport{e.report()}
				h.Keep(t)
			}
			h.Tell(program.Event{Test: t, Began: e.Began, Over: true})
		})
	}, nil
}

// report returns the receiver's report of a turn: one-way times by its clock.
func (e Event) report() model.EndReport {
	return model.EndReport{Host: model.Far, Points: e.Points, Flows: []model.FlowReport{
		{Direction: model.From, Role: model.Sender, Bytes: e.Sent, Window: e.Took, Streams: []units.Bytes{e.Sent}},
	}}
}
