// Package program is the contract between linerate and foreign programs, with which it measures
// in their own protocol: as their client, at the far end of a path, and as their server, beside
// its own. Package foreign lists them.
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

// Program is one foreign program. Name and Port are required, and New with Start, or Serve.
type Program struct {
	// Name is the scheme of a HOST, the flag of serve that answers its clients, and
	// its name in the audit log and in results: "iperf3".
	Name string
	// Scheme is the scheme of a HOST, if it is not Name.
	Scheme string
	// Server names its server, with an article: "an iperf3 server".
	Server string
	// Port is its default port, and OwnPort that on which serve answers its clients, if
	// different.
	Port, OwnPort string
	// Start returns the command that starts its server at a port, "" for that of Listens.
	Start func(port string) string
	// Once reports that a pass over message sizes is one test of it, and that it ends after
	// one.
	Once bool
	// Kinds are the kinds of traffic that only this program makes.
	Kinds []traffic.Kind

	// Flags are the flags of its client.
	Flags []Flag
	// Fit returns f in the form that the program carries, or a Problem that names what does.
	// The zero flow is none.
	Fit func(f model.Flow, given Values) (model.Flow, error)
	// New returns a client of the program at addr, HOST:PORT. It does not connect.
	New func(addr string, given Values, getenv func(string) string) (Client, error)

	// ServerFlags are flags of serve besides the one named Name.
	ServerFlags []Flag
	// Help has sentences about its clients for the help of serve; "" if none.
	Help string
	// CheckServe checks ServerFlags before any port is open; nil if they have no values.
	CheckServe func(given Values) error
	// Serve checks the flags and returns a function that serves the sockets until its context
	// ends, which returns nil, and closes them. Before that call nothing is answered.
	Serve func(ctx context.Context, at Sockets, h Host) (func(context.Context) error, error)
	// Networks are the networks on which its server listens, at one port: "tcp", "udp" or both;
	// nil is TCP alone.
	Networks []string
}

// Sockets are what a server listens on, nil for a network that is not in Program.Networks.
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
		addr = at.TCP.Addr().String() // the port chosen for port 0
	}
	if slices.Contains(p.Networks, "udp") {
		if at.UDP, err = lc.ListenPacket(ctx, "udp", addr); err != nil {
			at.Close()
			return Sockets{}, err
		}
	}
	return at, nil
}

// Addr returns the address that the server listens on.
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

// Of returns the scheme of a HOST for p.
func (p Program) Of() string { return cmp.Or(p.Scheme, p.Name) }

// Listens returns the default port on which serve answers the clients of p.
func (p Program) Listens() string { return cmp.Or(p.OwnPort, p.Port) }

// At returns flag with port, for Program.Start, and "" without a port.
func At(flag, port string) string {
	if port == "" {
		return ""
	}
	return flag + port
}

// Starts returns the command that starts a server of p at addr, HOST:PORT.
func (p Program) Starts(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	if port == p.Listens() {
		port = ""
	}
	return p.Start(port)
}

// Flag is a flag of a command that belongs to a program.
type Flag struct {
	Name, Usage string
	Switch      bool // a flag without a value
}

// Values are the flags that were set, by name, with their values. Those of a switch are "true"
// and "false".
type Values map[string]string

// On reports whether a switch is on.
func (v Values) On(name string) bool { return v[name] == "true" }

// Client measures with a program at the far end.
type Client interface {
	// Run runs one flow and returns the reports of both ends, the far one as far as its
	// protocol has it. emit is called from one goroutine at a time.
	Run(ctx context.Context, f model.Flow, near Near, emit func([]model.Sample)) (a, b model.EndReport, err error)
}

// Near is the host on which a client runs.
type Near struct {
	LinkRate fact.Of[units.BitRate] // of the interface that leads to the far end
	Egress   model.Egress           // source of all connections and datagrams
	Said     func(line string)      // called with the server's output; never nil
	// Met is called once the far end has answered or, if its protocol has no answer, once it is
	// connected: until then a user waits. It is never nil.
	Met func()
}

// Host is what linerate's server provides to the server of a program.
type Host struct {
	// Budget is the ledger from which clients take everything they use.
	Budget *budget.Budget
	// Unknown is how many connections may be open that have not sent a request.
	Unknown  int
	LinkRate fact.Of[units.BitRate]
	Given    Values
	// Certificate is the server's self-signed certificate.
	Certificate tls.Certificate
	// Note takes a line about the server itself, for the user. Tell is called for each test of
	// a client when it begins, when it is over, and if it was refused, for the audit log. Keep
	// takes a client's results, once for each test. All may be called from any goroutine, and
	// block only briefly.
	Note func(line string)
	Tell func(Event)
	Keep func(Test)
	// Sampled, if not nil, gets the server's samples of a running test as intervals end, if the
	// program has them. It must neither block nor keep the samples.
	Sampled func(from netip.AddrPort, samples []model.Sample)
}

// Test is a client's test.
type Test struct {
	From netip.Addr        // the zero address where it has none
	Key  string            // of the login; "" if none
	Flow model.Flow        // as far as the server knows
	Ends []model.EndReport // the server's, model.Far, first, then the client's if it sends one
	Took time.Duration
	Err  error // why it was refused or is incomplete; nil for a complete test
}

// Event is the start of a test, with Began alone, or its end. A refused test never began.
type Event struct {
	Test
	Port        uint16 // of From, to distinguish its tests; 0 if From has one at a time
	Began, Over bool
}

// Moved returns how much the server sent and received in a test.
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

// List is a list of programs, that of foreign.All except in tests.
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

// Help returns the text about their clients for the help of serve.
func (list List) Help() string {
	var all []string
	for _, p := range list {
		if p.Serve != nil && p.Help != "" {
			all = append(all, p.Help)
		}
	}
	return strings.Join(all, "\n")
}

// Names returns the names of the programs with a server as a list in prose, each after prefix.
func (list List) Names(prefix string) string {
	var names []string
	for _, p := range list {
		if p.Serve != nil {
			names = append(names, prefix+p.Name)
		}
	}
	return plain.And(names)
}
