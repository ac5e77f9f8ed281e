package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/udp"
)

// Path is how data connections are made between these ends.
func (e *Ends) Path() model.DataPath { return e.path }

// newRunner makes runs by the path of these ends.
func (e *Ends) newRunner() *runner.Runner {
	r := runner.New(e.Near, e.Far, e.env.Now, e.env.Kinds())
	r.Path = e.path
	if e.nearHere {
		r.NearHost = e.Hosts[0].Address
	}
	return r
}

// fitsPath demands that a path is one that these ends can have.
func fitsPath(p model.DataPath, near, far Target) error {
	accepting := far
	if p.ConnectFrom == model.Far {
		accepting = near
	}
	switch {
	case p == model.DataPath{}:
		return nil
	case far.Kind == Foreign:
		return app.WithHint(app.Usagef("%s: the connections to %s are as its protocol has them", pathFlag(p), far), "leave it out")
	case p.Through != "" && far.Kind != SSH:
		return app.WithHint(app.Usagef("--through ssh: %s is not reached over ssh", far), "name the host as user@host, or leave --through out")
	case p.Through != "" && near.Kind != Here:
		return app.WithHint(app.Usagef("--through ssh: the connection of ssh begins on this machine, and %s is the near end", near), "leave out --from or --through")
	case p.Through != "" && (p.ConnectFrom != "" || p.Ports != model.Ports{}):
		return app.Usagef("--through ssh excludes --connect-from and --data-port: nothing but ssh connects to the far host")
	case p.Ports != (model.Ports{}) && accepting.Kind == Serve:
		return app.WithHint(app.Usagef("--data-port: linerate serve has one port for everything, that of its link"), "leave it out, or start serve there with another --listen")
	}
	return nil
}

// pathFlag is the flag that a path that is not the usual one was given by.
func pathFlag(p model.DataPath) string {
	switch {
	case p.Through != "":
		return "--through"
	case p.ConnectFrom != "":
		return "--connect-from"
	}
	return "--data-port"
}

// Carries fails where the path cannot carry that kind of traffic.
func Carries(p model.DataPath, flow model.Flow) error {
	if p.Through != "" && udp.Carries(flow) {
		return app.WithHint(app.Usagef("--through %s: ssh forwards connections of TCP, and no datagrams: UDP cannot go through it", p.Through),
			"leave out UDP, or open a port for it and name that with --data-port")
	}
	return nil
}

// How long what is asked of a path may take, beside some round trips of the sessions:
// two losses of a SYN, of which the first is sent again after 1 s (RFC 6298 section
// 2), would be too long for somebody who waits.
const (
	knockLeast = 1700 * time.Millisecond
	knockTrips = 6
	knockMost  = 5 * time.Second
)

// way is what is asked of a path for one protocol.
type way struct {
	protocol string // TCP or UDP
	flow     model.Flow
}

// ways are what a flow needs open, in the order in which it opens them. What is asked
// for is as little as an engine takes.
func ways(flow model.Flow) []way {
	small := model.Flow{Direction: model.To, Streams: 1, Duration: time.Second, Interval: time.Second}
	tcp, datagrams := small, small
	tcp.Engine = bulk.Name
	datagrams.Engine, datagrams.Params = udp.Name, traffic.Write(udp.Params{Rate: udp.DefaultRate})
	out := []way{{"TCP", tcp}}
	if udp.Carries(flow) {
		out = append(out, way{"UDP", datagrams})
	}
	return out
}

// Reachable finds out, before anything is measured, whether the connections that flow
// needs can be made, and where they cannot, whether the other end could make them. Its
// fault says what to open. A lab and a foreign peer have no such way.
func (e *Ends) Reachable(ctx context.Context, flow model.Flow) error {
	r, ok := e.Runner.(*runner.Runner)
	if !ok || e.InLab {
		return nil
	}
	if err := Carries(e.path, flow); err != nil {
		return err
	}
	limit := knockLeast
	if trip, err := r.RoundTrip(ctx); err != nil {
		return err
	} else if limit += knockTrips * trip; limit > knockMost {
		limit = knockMost
	}
	for _, w := range ways(flow) {
		if slices.Contains(e.proven, w.protocol) {
			continue
		}
		err := r.Knock(ctx, runner.Spec{Flow: w.flow}, limit)
		closed, isClosed := errors.AsType[*runner.Closed](err)
		switch {
		case isClosed:
			return e.closed(ctx, r, flow, w.protocol, closed, limit)
		case e.path.Ports != (model.Ports{}) && err != nil && ctx.Err() == nil:
			return app.WithHint(err, "name another port or range with --data-port")
		case errors.Is(err, context.Canceled):
			return err
		case err == nil:
			e.proven = append(e.proven, w.protocol)
		}
		// What else is wrong the run itself will say.
	}
	return nil
}

// closed says which port is closed, and what can be done about it: the connections
// of the other direction are tried before they are advised.
func (e *Ends) closed(ctx context.Context, r *runner.Runner, flow model.Flow, protocol string, c *runner.Closed, limit time.Duration) error {
	_, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return err
	}
	how := "is filtered: nothing comes back"
	if c.Why != nil {
		how = "is closed or rejected: " + plainWhy(c.Why)
	}
	works := "the session works"
	if e.overSSH {
		works = "ssh works"
	}
	text := fmt.Sprintf("%s, TCP port %s of %s %s", works, port, c.Acceptor, how)
	if protocol == "UDP" {
		text = fmt.Sprintf("%s and TCP port %s is open, but UDP to %s %s", works, port, c.Acceptor, how)
	}
	return app.WithHint(app.WithKind(app.Unreachable, errors.New(text)), "%s", strings.Join(e.wayOut(ctx, r, flow, protocol, port, limit), "\n"))
}

// wayOut is what somebody can do about a closed port, each a line.
func (e *Ends) wayOut(ctx context.Context, r *runner.Runner, flow model.Flow, protocol, port string, limit time.Duration) []string {
	if e.path.Through != "" {
		return []string{"does the ssh server there allow forwarding (AllowTcpForwarding and PermitOpen of sshd_config)?"}
	}
	accepting, other, name := e.Far, model.Far, "far"
	if e.path.ConnectFrom == model.Far {
		accepting, other, name = e.Near, model.Near, "near"
	}
	var out []string
	switch {
	case accepting.DataPort() != 0:
		out = append(out, fmt.Sprintf("open port %s there, for TCP and UDP", port))
	case e.path.Ports != (model.Ports{}):
		out = append(out, fmt.Sprintf("open port %s there, for TCP and UDP, or name one that is open with --data-port", e.path.Ports))
	default:
		out = append(out, "open a port there, for TCP and UDP, and name it: --data-port "+exampleDataPort+"; without, each run takes one that is free")
	}
	for _, w := range ways(flow) {
		if err := r.Knock(ctx, runner.Spec{Flow: w.flow, Connector: other}, limit); err != nil {
			out = append(out, fmt.Sprintf("the other end cannot connect either (%s): --connect-from %s does not help", w.protocol, name))
			if e.overSSH && e.nearHere && protocol == "TCP" && !udp.Carries(flow) {
				out = append(out, "or let ssh carry the data, which measures ssh: --through ssh")
			}
			return out
		}
	}
	return append(out, "or reverse the direction of the connections, which works here: --connect-from "+name)
}

// plainWhy is why without the words of the layers between.
func plainWhy(err error) string {
	text := err.Error()
	if _, rest, ok := strings.Cut(text, "prepare run: "); ok {
		text = rest
	}
	return text
}

// exampleDataPort is a port in what is advised: linerate's own.
const exampleDataPort = "5299"
