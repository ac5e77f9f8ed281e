// Package program is the contract between linerate and programs of another kind, with
// which it measures in their own protocol: as their client, at the far end of a path,
// and as their server, beside its own. Package foreign lists them.
package program

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
)

// Program is one such program. Name and Port are needed, and one of New and Serve.
type Program struct {
	// Name is the scheme of a HOST, the flag of serve that answers its clients, and
	// its name in the audit log and in results: "iperf3".
	Name string
	// Scheme is that of a HOST where it is not Name.
	Scheme string
	// Server is what stands at the far end, with its article: "an iperf3 server".
	Server string
	// Port is where it listens unless told otherwise, and OwnPort where serve answers its
	// clients if that is another one.
	Port, OwnPort string
	// Once says that a pass over message sizes is one test of it, and that it ends
	// after one.
	Once bool
	// Kinds are the kinds of traffic that it carries and no engine makes.
	Kinds []traffic.Kind

	// Flags belong to its client, and to nothing else that measures.
	Flags []Flag
	// Fit returns f as the program carries it, or a Problem with what does. The zero
	// flow is none.
	Fit func(f model.Flow, given Values) (model.Flow, error)
	// New returns a client of the program at addr, HOST:PORT. It connects to nobody.
	New func(addr string, given Values, getenv func(string) string) (Client, error)

	// ServerFlags are flags of serve beside the one that is called Name.
	ServerFlags []Flag
	// Help are sentences about its clients for the help of serve; "" is none.
	Help string
	// CheckServe says what is wrong with ServerFlags, before any port is open; nil where
	// they have no values.
	CheckServe func(given Values) error
	// Serve checks what was asked for and returns what answers at its sockets until its
	// context ends, which is no error, and closes them. Nothing is answered before.
	Serve func(ctx context.Context, at Sockets, h Host) (func(context.Context) error, error)
	// Networks are those on which its server listens, at one port: "tcp", "udp" or both; nil
	// is TCP alone.
	Networks []string
}

// Sockets are what a server listens on, nil of a network that is not among
// Program.Networks.
type Sockets struct {
	TCP net.Listener
	UDP net.PacketConn
}

// Listen opens the port of p's server.
func (p Program) Listen(ctx context.Context, addr string) (at Sockets, err error) {
	lc := net.ListenConfig{}
	lc.SetMultipathTCP(false)
	if p.Networks == nil || slices.Contains(p.Networks, "tcp") {
		if at.TCP, err = lc.Listen(ctx, "tcp", addr); err != nil {
			return Sockets{}, err
		}
		addr = at.TCP.Addr().String() // where port 0 was asked for
	}
	if slices.Contains(p.Networks, "udp") {
		if at.UDP, err = lc.ListenPacket(ctx, "udp", addr); err != nil {
			at.Close()
			return Sockets{}, err
		}
	}
	return at, nil
}

// Addr is where the server listens.
func (s Sockets) Addr() net.Addr {
	if s.TCP != nil {
		return s.TCP.Addr()
	}
	return s.UDP.LocalAddr()
}

// Close closes both.
func (s Sockets) Close() {
	if s.TCP != nil {
		_ = s.TCP.Close()
	}
	if s.UDP != nil {
		_ = s.UDP.Close()
	}
}

// Of is the scheme of a HOST that p stands for.
func (p Program) Of() string { return cmp.Or(p.Scheme, p.Name) }

// Listens is the port where serve answers the clients of p unless told otherwise.
func (p Program) Listens() string { return cmp.Or(p.OwnPort, p.Port) }

// Flag is a flag of a command that belongs to a program.
type Flag struct {
	Name, Usage string
	Switch      bool // on, where it is given
}

// Values are the flags that somebody gave, by name, and what they said. Those of a
// switch are "true" and "false".
type Values map[string]string

// On reports whether a switch is on.
func (v Values) On(name string) bool { return v[name] == "true" }

// Client measures with a program at the far end.
type Client interface {
	// Run does one flow and returns what both ends say of it, the far one as far as
	// its protocol tells. emit is called from one goroutine at a time.
	Run(ctx context.Context, f model.Flow, near Near, emit func([]model.Sample)) (a, b model.EndReport, err error)
}

// Near is the host on which a client runs.
type Near struct {
	LinkRate fact.Of[units.BitRate] // of the interface that leads to the far end
	Egress   model.Egress           // where all connections and datagrams leave from
	Said     func(line string)      // takes what the server printed; never nil
	// Met is called once the far end has answered, or where its protocol has no answer
	// once it is connected to: until then a person waits. It is never nil.
	Met func()
}

// Host is what the server of a program gets from the server that it is part of.
type Host struct {
	// Budget is the ledger of which each client takes all that it uses.
	Budget *budget.Budget
	// Unknown is how many connections may be open of which nothing is known yet.
	Unknown  int
	LinkRate fact.Of[units.BitRate]
	Given    Values
	// Certificate is the self-signed one of the server.
	Certificate tls.Certificate
	// Note takes a line on the server itself, for people. Tell is told of each test
	// of a client when it begins and when it is over, and of each that was refused,
	// for the audit log. Keep takes what a client measured, once for each test. All
	// may be called from any goroutine, and block for short only.
	Note func(line string)
	Tell func(Event)
	Keep func(Test)
	// Sampled, where given, is told what the server sees of a test that has begun, as
	// intervals end, where the program has them. It must neither wait nor keep the samples.
	Sampled func(from netip.AddrPort, samples []model.Sample)
}

// Test is what a client did.
type Test struct {
	From netip.Addr        // the zero address where it has none
	Key  string            // whose login it was; "" is nobody's
	Flow model.Flow        // as far as the server knows
	Ends []model.EndReport // the server's, model.Far, first, then the client's where it tells
	Took time.Duration
	Err  error // why it was refused or is not whole; nil for a whole test
}

// Event is a test that begins, Began alone, or is over. One that was refused never
// began.
type Event struct {
	Test
	Port        uint16 // of From, which tells its tests apart; 0 where From has one at a time
	Began, Over bool
}

// Moved is how much the server of a test sent and received.
func (t Test) Moved() (sent, received units.Bytes) {
	if len(t.Ends) == 0 {
		return 0, 0
	}
	for _, f := range t.Ends[0].Flows {
		if f.Role == model.Sender {
			sent += f.Bytes
		} else {
			received += f.Bytes
		}
	}
	return sent, received
}

// List are programs, those of foreign.All unless a test has one more.
type List []Program

// ByName returns the program of that name.
func (list List) ByName(name string) (Program, bool) {
	for _, p := range list {
		if p.Name == name {
			return p, true
		}
	}
	return Program{}, false
}

// Help is what the help of serve says of their clients.
func (list List) Help() string {
	var all []string
	for _, p := range list {
		if p.Serve != nil && p.Help != "" {
			all = append(all, p.Help)
		}
	}
	return strings.Join(all, "\n")
}

// Names are those of the programs with a server, as people list them after prefix.
func (list List) Names(prefix string) string {
	var names []string
	for _, p := range list {
		if p.Serve != nil {
			names = append(names, prefix+p.Name)
		}
	}
	return plain.And(names)
}
