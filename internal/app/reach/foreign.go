package reach

import (
	"cmp"
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/runner"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf2/peer"
	"linerate/internal/measure/iperf3"
	iperf3peer "linerate/internal/measure/iperf3/peer"
	"linerate/internal/measure/netpipe"
	"linerate/internal/measure/sockio"
)

// Program is a program of another kind at the far end.
type Program struct {
	Scheme string
	Name   string // for people
	Sweeps bool   // measures message sizes, and nothing else
	port   string // where it listens
}

// programs are the programs that linerate measures with.
func programs() []Program {
	return []Program{
		{"iperf3", "iperf3 server", false, "5201"},
		{"iperf2", "iperf 2 server", false, "5001"},
		{"netpipe", "NPtcp receiver", true, "5002"},
	}
}

// isForeign reports whether s begins with the name of such a program.
func isForeign(s string) bool {
	scheme, _, found := strings.Cut(s, "://")
	return found && slices.ContainsFunc(programs(), func(k Program) bool { return k.Scheme == scheme })
}

// parseForeign reads iperf3://HOST[:PORT] and its like.
func parseForeign(s string) (Target, error) {
	scheme, rest, _ := strings.Cut(s, "://")
	for _, k := range programs() {
		if k.Scheme != scheme {
			continue
		}
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return Target{}, app.WithHint(app.Usagef("%q is not the address of an %s", rest, k.Name),
				"write it like %s://10.0.0.2 or %s://nas:%s", k.Scheme, k.Scheme, k.port)
		}
		return Target{Kind: Foreign, Text: s, Program: k, Addr: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), k.port))}, nil
	}
	return Target{}, app.Usagef("no way to reach %s:// hosts", scheme)
}

// ForeignOptions are what only programs of another kind understand.
type ForeignOptions struct {
	Rate         units.BitRate // to pace TCP at; 0 for as fast as possible
	ConnectBack  bool          // iperf 2: the server opens the connections of its direction
	ServerOutput bool          // iperf3: what the server printed is told as app.HostSaid
	Login        *Login        // iperf3: nil for a server that asks for none
	NetPIPE      *NetPIPE      // nil for what NPtcp does by itself
}

// Login is who asks an iperf3 server.
type Login struct {
	User, Password string
	Key            *rsa.PublicKey // of the server
	PKCS1          bool           // the padding of servers older than 3.17
}

// NetPIPE are the settings of NPtcp that differ from its own; 0 is its default.
type NetPIPE struct {
	Smallest, Largest   units.Bytes // messages
	Both, Stream, Fresh bool
	Window              units.Bytes
}

// Validate reports settings that NPtcp does not have.
func (n NetPIPE) Validate() error { return app.WithKind(app.Usage, n.options().Validate()) }

func (n NetPIPE) options() netpipe.Options {
	s := netpipe.Default()
	s.Start, s.Upper = cmp.Or(int(n.Smallest), s.Start), cmp.Or(int(n.Largest), s.Upper)
	s.Bidirectional, s.Streaming, s.Reset = n.Both, n.Stream, n.Fresh
	return netpipe.Options{Settings: s, Window: n.Window}
}

// foreignPeer returns how to measure with a foreign server; link is the rate of the
// link that leads there.
func foreignPeer(o app.Observer, t Target, link fact.Of[units.BitRate]) (runner.Peer, error) {
	f := t.Foreign
	switch {
	case t.Program.Scheme == "iperf3":
		c := iperf3peer.Client{LinkRate: link, Rate: f.Rate}
		if f.ServerOutput {
			c.ServerOutput = func(text string, document json.RawMessage) {
				for line := range strings.Lines(cmp.Or(text, string(document))) {
					o.Observe(app.ServerSaid{Line: strings.TrimRight(line, "\r\n")})
				}
			}
		}
		if l := f.Login; l != nil {
			c.Login = &iperf3peer.Login{User: l.User, Password: l.Password, Key: l.Key, Padding: iperf3.OAEP}
			if l.PKCS1 {
				c.Login.Padding = iperf3.PKCS1v15
			}
		}
		return iperf3Peer{c, t.Addr}, nil
	case t.Program.Scheme == "iperf2":
		return iperf2Peer{peer.Client{ConnectBack: f.ConnectBack, Rate: f.Rate}, t.Addr}, nil
	case f.NetPIPE != nil:
		return netpipePeer{t.Addr, f.NetPIPE.options()}, nil
	}
	return nil, app.WithHint(app.Usagef("an %s measures message sizes only", t.Program.Name), "use linerate sweep %s", t)
}

// iperf3Peer and iperf2Peer fix the address of a client.
type iperf3Peer struct {
	client iperf3peer.Client
	addr   string
}

// unreachable says of a server that nobody could connect to, or that speaks of
// something else, what to do.
func unreachable(ctx context.Context, err error, kind, start string) error {
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case ok && op.Op == "dial" && op.Addr == nil: // its name was not found
		return app.WithHint(app.WithKind(app.Unreachable, cmp.Or(op.Err, err)), "is the name right?")
	case ok && op.Op == "dial":
		return app.WithHint(app.WithKind(app.Unreachable, fmt.Errorf("connect to %s: %w", op.Addr, cmp.Or(errors.Unwrap(op.Err), op.Err))), "is it running there? start it with: %s", start)
	case app.HintOf(err) == "" && app.KindOf(err) == app.Failed:
		return app.WithHint(err, "is what answers there an %s? start one with: %s", kind, start)
	}
	return err
}

// Run implements runner.Peer.
func (p iperf3Peer) Run(ctx context.Context, f model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	near, far, err = p.client.Run(ctx, p.addr, f, emit)
	switch {
	case errors.Is(err, iperf3peer.ErrIperf2):
		err = app.WithHint(app.WithKind(app.Unreachable, err), "use iperf2://%s", p.addr)
	case errors.Is(err, errors.ErrUnsupported) && f.Direction == model.Both:
		err = app.WithHint(err, "leave out --bidir: one direction is then measured after the other")
	case errors.Is(err, iperf3peer.ErrBusy):
		err = app.WithHint(app.WithKind(app.Unreachable, err), "if it is an iperf3 server, wait for its test to end, or start one of your own: iperf3 -s -p PORT")
	case errors.Is(err, iperf3.ErrRefused):
		err = app.WithHint(err, "is the name known there, and is $IPERF3_PASSWORD its password? servers older than 3.17 need --use-pkcs1-padding")
	}
	return near, far, unreachable(ctx, err, "iperf3 server", "iperf3 -s")
}

type iperf2Peer struct {
	client peer.Client
	addr   string
}

// Run implements runner.Peer.
func (p iperf2Peer) Run(ctx context.Context, f model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	near, far, err = p.client.Run(ctx, p.addr, f, emit)
	if errors.Is(err, peer.ErrIperf3) {
		err = app.WithHint(app.WithKind(app.Unreachable, err), "use iperf3://%s", p.addr)
	}
	return near, far, unreachable(ctx, err, "iperf 2 server", "iperf -s, or iperf -s -u for UDP")
}

// netpipePeer is an NPtcp receiver at the far end.
type netpipePeer struct {
	addr    string
	options netpipe.Options
}

// Run implements runner.Peer: one run of NPtcp's own schedule.
func (p netpipePeer) Run(ctx context.Context, _ model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	before, cpuErr := sockio.ProcessCPU()
	started := time.Now()
	dial := func(ctx context.Context) (*net.TCPConn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp4", p.addr)
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
	near.Points, err = netpipe.New().Transmit(ctx, dial, p.options, func(point model.Point) {
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
	return near, far, unreachable(ctx, err, "NPtcp receiver", "NPtcp")
}
