package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/fault"
)

// Path says how data connections between these ends are made.
func (e *Ends) Path() model.DataPath { return e.path }

// newRunner returns a runner that uses the path of these ends.
func (e *Ends) newRunner() *runner.Runner {
	r := runner.New(e.Near, e.Far, e.env.Now, e.env.Kinds())
	if e.beside != nil {
		r = e.beside.Runner.(*runner.Runner).Between(e.Near, e.Far)
	}
	r.Path = e.path
	if e.nearHere {
		r.NearHost = e.Hosts[0].Address
	}
	return r
}

// fitsPath returns an error if these ends cannot have such a path.
func fitsPath(p model.DataPath, near, far Target) error {
	accepting := far
	if p.ConnectFrom == model.Far {
		accepting = near
	}
	if near.Kind == Here && far.Kind != Lab {
		if err := onThisMachine(p.Egress); err != nil {
			return err
		}
	}
	dials := model.DataPath{Egress: p.Egress}
	switch {
	case p == model.DataPath{}:
		return nil
	case p.Through != "" && p.Egress != model.Egress{}:
		return fault.Usagef("--through ssh excludes --bind, --bind-dev, --cport and --dscp: the packets are those of ssh")
	case p.ConnectFrom == model.Far && p.From != model.Ports{}:
		return fault.WithHint(fault.Usagef("--cport: with --connect-from far the near end accepts"), "name the ports that it accepts at: --data-port %s", p.From)
	case far.Kind == Lab && p.Bind+p.Device != "":
		return fault.WithHint(fault.Usagef("--bind and --bind-dev: a host of a lab has one address and one interface"), "leave them out; --dscp and --cport work there")
	case far.Kind == Foreign && p == dials:
		return nil
	case far.Kind == Foreign:
		return fault.WithHint(fault.Usagef("%s: the connections to %s are as its protocol has them", pathFlag(p), far), "leave it out")
	case p.Through != "" && far.Kind != SSH:
		return fault.WithHint(fault.Usagef("--through ssh: %s is not reached over ssh", far), "name the host as user@host, or leave --through out")
	case p.Through != "" && near.Kind != Here:
		return fault.WithHint(fault.Usagef("--through ssh: the connection of ssh begins on this machine, and %s is the near end", near), "leave out --from or --through")
	case p.Through != "" && (p.ConnectFrom != "" || p.Ports != model.Ports{}):
		return fault.Usagef("--through ssh excludes --connect-from and --data-port: nothing but ssh connects to the far host")
	case p.Ports != (model.Ports{}) && accepting.Kind == Serve:
		return fault.WithHint(fault.Usagef("--data-port: linerate serve has one port for everything, that of its link"), "leave it out, or start serve there with another --listen")
	}
	return nil
}

// onThisMachine returns an error unless this machine has the address and the interface that
// data are to leave from.
func onThisMachine(from model.Egress) error {
	if from.Device != "" {
		if _, err := net.InterfaceByName(from.Device); err != nil {
			var names []string
			all, _ := net.Interfaces() // without them the hint is shorter
			for _, i := range all {
				names = append(names, i.Name)
			}
			return fault.WithHint(fault.Usagef("--bind-dev: this machine has no interface %s", from.Device), "it has %s", plain.And(names))
		}
	}
	if from.Bind == "" {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	asked, _, _ := strings.Cut(from.Bind, "%")
	var has []string
	for _, a := range own {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		text := p.Addr().Unmap().String()
		if text == asked || p.Addr().IsLoopback() && netip.MustParseAddr(asked).IsLoopback() { // all of 127.0.0.0/8 is
			return nil
		}
		has = append(has, text)
	}
	return fault.WithHint(fault.Usagef("--bind: this machine has no address %s", from.Bind), "it has %s", plain.And(has))
}

// pathFlag returns the flag that asks for a path other than the default.
func pathFlag(p model.DataPath) string {
	switch {
	case p.Through != "":
		return "--through"
	case p.ConnectFrom != "":
		return "--connect-from"
	}
	return "--data-port"
}

// Carries returns an error if the path cannot carry that kind of traffic.
func Carries(p model.DataPath, flow model.Flow) error {
	if p.Through != "" && udp.Carries(flow) {
		return fault.WithHint(fault.Usagef("--through %s: ssh forwards connections of TCP, and no datagrams: UDP cannot go through it", p.Through),
			"leave out UDP, or open a port for it and name that with --data-port")
	}
	if r, ok := requests.Of(flow); ok && r.Connect && p.From != (model.Ports{}) {
		return fault.WithHint(fault.Usagef("--cport: each request has a connection of its own, and a port stays taken for a minute after it"), "leave out --cport or --connect")
	}
	return nil
}

// How long a probe of the path may take, besides some round trips of the sessions. Waiting
// for two lost SYNs, the first of which is retransmitted after 1 s (RFC 6298 section 2),
// would keep the user waiting too long.
const (
	knockLeast = 1700 * time.Millisecond
	knockTrips = 6
	knockMost  = 5 * time.Second
	knockDoubt = 300 * time.Millisecond // plus as many round trips: after that a direction seems closed
)

// way is a probe of a path for one protocol.
type way struct {
	protocol string // TCP or UDP
	flow     model.Flow
}

// ways returns the probes for the protocols that a flow needs, in the order in which it opens
// them. Each probe is as small as an engine allows.
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

// Reachable checks, before anything is measured, whether the connections that flow needs can
// be made, and if not, whether the other end could make them. Its error says what to open. In
// a lab, and with a foreign peer, there is nothing to check.
func (e *Ends) Reachable(ctx context.Context, flow model.Flow) error {
	r, ok := e.Runner.(*runner.Runner)
	if !ok || e.InLab {
		return nil
	}
	if err := Carries(e.path, flow); err != nil {
		return err
	}
	wanted := slices.DeleteFunc(ways(flow), func(w way) bool { return slices.Contains(e.proven, w.protocol) })
	if len(wanted) == 0 {
		return nil
	}
	trip, err := r.RoundTrip(ctx)
	if err != nil {
		return err
	}
	k := knocks{Runner: r, limit: min(knockLeast+knockTrips*trip, knockMost), inTurn: e.path.Ports != (model.Ports{})}
	// Try from the other end as soon as this one seems to fail.
	back := make(chan []error, 1)
	trying, enough := context.WithCancel(ctx)
	inVain, seems := context.WithTimeout(ctx, knockDoubt+knockTrips*trip)
	go func() {
		<-inVain.Done()
		back <- k.all(trying, ways(flow), e.otherConnector())
	}()
	forth := k.all(ctx, wanted, "")
	i := slices.IndexFunc(forth, func(err error) bool { _, is := errors.AsType[*runner.Closed](err); return is })
	if i < 0 {
		enough()
	}
	seems()
	returned := <-back
	enough()
	if i >= 0 {
		closed, _ := errors.AsType[*runner.Closed](forth[i])
		return e.closed(flow, wanted[i].protocol, closed, returned)
	}
	return e.provenBy(ctx, wanted, forth)
}

// provenBy records the protocols found open. Other failures are left for the run itself to
// report, except that a port or address that the user named cannot be used.
func (e *Ends) provenBy(ctx context.Context, wanted []way, errs []error) error {
	for i, err := range errs {
		switch {
		case err == nil:
			e.proven = append(e.proven, wanted[i].protocol)
		case e.path.Ports != (model.Ports{}) && ctx.Err() == nil:
			return fault.WithHint(err, "name another port or range with --data-port")
		case e.path.Egress != (model.Egress{}) && ctx.Err() == nil:
			return fault.WithHint(err, "what was asked for: %s", strings.Join(e.path.Egress.Flags(), " "))
		case errors.Is(err, context.Canceled):
			return err
		}
	}
	return nil
}

// otherConnector returns the end that makes no connections at present.
func (e *Ends) otherConnector() model.Host {
	if e.path.ConnectFrom == model.Far {
		return model.Near
	}
	return model.Far
}

// knocks probes which connections can be opened, within one time limit.
type knocks struct {
	*runner.Runner
	limit  time.Duration
	inTurn bool // all kinds of connections use the same port
}

// all tries all kinds of connections from one end, "" for the usual one, and returns the
// result of each.
func (k knocks) all(ctx context.Context, kinds []way, from model.Host) []error {
	errs := make([]error, len(kinds))
	var knocking sync.WaitGroup
	for i, w := range kinds {
		knock := func() {
			errs[i] = k.Knock(ctx, runner.Spec{Flow: w.flow, Connector: from}, k.limit)
		}
		if !k.inTurn {
			knocking.Go(knock)
			continue
		}
		if knock(); errs[i] != nil {
			for later := i + 1; later < len(kinds); later++ {
				errs[later] = errNotTried
			}
			break
		}
	}
	knocking.Wait()
	return errs
}

// errNotTried is for a connection not tried because an earlier one failed.
var errNotTried = errors.New("not tried")

// closed returns an error that says which port is closed, and what to do about it. back holds
// the results of the connections of the other direction.
func (e *Ends) closed(flow model.Flow, protocol string, c *runner.Closed, back []error) error {
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
	return fault.New(fault.Unreachable, errors.New(text), "%s", strings.Join(e.wayOut(flow, protocol, port, back), "\n"))
}

// wayOut returns advice about a closed port, one line each.
func (e *Ends) wayOut(flow model.Flow, protocol, port string, back []error) []string {
	if e.path.Through != "" {
		return []string{"does the ssh server there allow forwarding (AllowTcpForwarding and PermitOpen of sshd_config)?"}
	}
	accepting, name := e.Far, "far"
	if e.path.ConnectFrom == model.Far {
		accepting, name = e.Near, "near"
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
	for i, w := range ways(flow) {
		if back[i] != nil {
			out = append(out, fmt.Sprintf("the other end cannot connect either (%s): --connect-from %s does not help", w.protocol, name))
			if e.overSSH && e.nearHere && protocol == "TCP" && !udp.Carries(flow) {
				out = append(out, "or let ssh carry the data, which measures ssh: --through ssh")
			}
			return out
		}
	}
	return append(out, "or reverse the direction of the connections, which works here: --connect-from "+name)
}

// plainWhy returns why without the words of the layers between.
func plainWhy(err error) string {
	text := err.Error()
	if _, rest, ok := strings.Cut(text, "prepare run: "); ok {
		text = rest
	}
	return text
}

// exampleDataPort is the port in advice: linerate's own.
const exampleDataPort = "5299"
