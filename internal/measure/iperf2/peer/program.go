package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/program"
)

// Program describes iperf 2 for linerate.
func Program() program.Program {
	p := program.Program{
		Name: "iperf2", Server: "an iperf 2 server", Port: strconv.Itoa(iperf2.DefaultPort), Kinds: []traffic.Kind{bounceKind()},
		Fit: program.FitBulk, Serve: listen, Networks: []string{"tcp", "udp"},
		Start: func(port string) string {
			port = program.At(" -p ", port)
			return "iperf -s" + port + ", or iperf -s -u" + port + " for UDP"
		},
		Flags: []program.Flag{
			{Name: "connect-back", Usage: "the iperf2 server opens the connections of its direction, as 2.0 does for -d and -r", Switch: true},
		},
		ServerFlags: []program.Flag{{
			Name: "iperf2-reverse-udp", Switch: true,
			Usage: "send UDP to any iperf 2 client that asks for it: a forged source address has this host send to it",
		}},
		Help: "iperf 2 is sent UDP only where a TCP connection of its host came first, unless\n--iperf2-reverse-udp is given.",
	}
	p.New = func(addr string, given program.Values, _ func(string) string) (program.Client, error) {
		rate, err := given.Pace()
		return remote{program: p, addr: addr, client: Client{ConnectBack: given.On("connect-back"), Rate: rate}}, err
	}
	return p
}

// remote is a server at an address.
type remote struct {
	program program.Program
	addr    string
	client  Client
}

// Run implements program.Client.
func (r remote) Run(ctx context.Context, f model.Flow, host program.Near, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	r.client.Met, r.client.Egress = host.Met, host.Egress
	near, far, err = r.client.Run(ctx, r.addr, f, emit)
	switch {
	case errors.Is(err, ErrIperf3):
		err = fault.New(fault.Unreachable, err, "use iperf3://%s", r.addr)
	case errors.Is(err, ErrSilent) && ctx.Err() == nil:
		err = fault.New(fault.Unreachable, err, "is it running there, and does a firewall let this through? start it with: %s", r.program.Starts(r.addr))
	}
	return near, far, r.program.Unreachable(ctx, err, r.addr)
}

// listen implements program.Program.Serve.
func listen(_ context.Context, at program.Sockets, h program.Host) (func(context.Context) error, error) {
	one, all := budget.AnonymousRun(), h.Budget.AnonymousSessions()
	g := newGathering(h.Keep)
	c := ServerConfig{
		// Each connection of iperf 2 is a session of its own, so one address may have as many
		// as a run has streams.
		Sessions: all * one.Streams, PerClient: one.Streams, Time: one.Time, UDPTime: one.Time, UDPRate: one.UDP, Block: one.Block,
		Budget: h.Budget, Unknown: h.Unknown, Log: h.Note,
		Begun: func(r Result) {
			g.begun(r)
			h.Tell(program.Event{Test: r.test(), Port: r.Peer.Port(), Began: true})
		},
		Done: func(r Result) {
			g.done(r)
			h.Tell(program.Event{Test: r.test(), Port: r.Peer.Port(), Began: !r.Refused, Over: true})
		},
	}
	if h.Given.On("iperf2-reverse-udp") {
		c.UDPTo = func(netip.Addr) bool { return true }
	}
	return func(ctx context.Context) error {
		defer g.end()
		return Serve(ctx, at.TCP, at.UDP, c)
	}, nil
}

// test converts the result of a connection or flow.
func (r Result) test() program.Test {
	t := program.Test{From: r.Peer.Addr(), Took: r.Took, Err: r.Err}
	t.Flow = model.Flow{Engine: bulk.Name, Direction: model.To, Streams: 1, Duration: r.Took}
	switch {
	case r.UDP:
		t.Flow.Engine = udp.Name
	case r.Bounce:
		t.Flow.Engine = bounceName
	}
	switch r.Mode {
	case iperf2.Reverse:
		t.Flow.Direction = model.From
	case iperf2.FullDuplex, iperf2.Dual, iperf2.TradeOff:
		t.Flow.Direction = model.Both
	case iperf2.Forward:
	}
	if !r.Refused && r.Report.Host != "" {
		t.Ends = []model.EndReport{r.Report}
	}
	return t
}

// bounceName is the kind of traffic of a bounce-back test, which exists only in iperf 2.
const bounceName = "bounceback"

func bounceKind() traffic.Kind {
	return traffic.Kind{
		Name: bounceName, Title: "the bounce-back test of iperf 2", Command: "serve --iperf2", Why: "only clients of iperf 2 make it",
		Judge: func(_ model.Flow, ends []model.EndReport) string {
			for _, e := range ends {
				if len(e.Flows) > 0 {
					return ""
				}
			}
			return "no message came"
		},
		Lines: func(_ model.Flow, runs []model.Run) (lines []string) {
			for _, r := range runs {
				rate, ok := r.Value(model.To, model.RequestRate)
				if !ok {
					continue
				}
				text := fmt.Sprintf("%.4g messages a second were returned to the client", rate)
				if rtt, ok := r.Value(model.To, model.RTT); ok {
					text += "; the round trip, smoothed by this host's kernel, was " + units.FormatDuration(time.Duration(rtt*float64(time.Second)))
				}
				lines = append(lines, text)
			}
			return lines
		},
	}
}
