package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/panics"
)

// ServerConfig limits what clients of a server may do. The default of each field is given with
// it.
type ServerConfig struct {
	// Sessions is how many TCP connections, and how many UDP flows, are served at once, 64
	// each.
	Sessions int
	// PerClient is how many of each may come from one address, 32.
	PerClient int
	// Time is how long a test may last before the server ends it, an hour.
	Time time.Duration
	// Block is the most bytes that one call moves, 1 MiB; also the largest bounce-back message.
	Block units.Bytes
	// Rate is the payload rate of one TCP connection in either direction; 0 is
	// no limit.
	Rate units.BitRate
	// UDPRate is the UDP payload rate in each direction, over all flows of one address. A flow
	// whose client announces more is refused, the flows of a client that sends more are ended,
	// and a client that requests more gets the limit. 0 is no limit for received, and 1 Gbit/s
	// for sent payload.
	UDPRate units.BitRate
	// UDPTime is how long payload is sent over UDP, a minute: the server cannot know whether
	// the client still wants it.
	UDPTime time.Duration
	// Idle is how long a session may move nothing before the server ends it, 10 s.
	Idle time.Duration
	// Opening is how long a client may take to send its header, and to listen for a return
	// test, 10 s.
	Opening time.Duration
	// UDPTo reports whether UDP payload may be sent to an address although its datagrams may be
	// forged: a forger could make the server flood another host. Nil allows loopback addresses
	// only. An address with a TCP connection within the last minute needs no permission.
	UDPTo func(netip.Addr) bool
	// Budget, if not nil, is the ledger that sessions take from. Every address with TCP
	// connections takes a session, as an anonymous client, and each connection descriptors, its
	// buffers and the bytes sent to it. So does an address with UDP flows that has had a TCP
	// connection, with its send rate. All other addresses with UDP flows, which can be forged,
	// are one session together.
	Budget *budget.Budget
	// Unknown is how many connections may be open without having sent their header, at most
	// 256.
	Unknown int
	// Log gets a line for the user on the server itself, and on refused UDP clients. It must be
	// safe for concurrent use.
	Log func(line string)
	// Begun gets each session when it begins. It must be safe for concurrent use.
	Begun func(Result)
	// Done gets the outcome of each session, and of TCP connections that were refused. It must
	// be safe for concurrent use.
	Done func(Result)
}

// Result is the outcome of one TCP connection, including its return connections, or of one UDP
// flow.
type Result struct {
	Peer    netip.AddrPort
	Mode    iperf2.Mode
	UDP     bool
	Bounce  bool            // a bounce-back test, which has no mode
	Threads int             // number of connections or flows in the client's test; 0 is unknown
	Report  model.EndReport // of the server, model.Far
	Took    time.Duration   // since the connection was accepted; 0 over UDP
	Refused bool            // no session began; Err says why
	Err     error           // reason of the refusal or failure; nil for a complete test
}

// withDefaults replaces zero fields by their defaults.
func (c ServerConfig) withDefaults() ServerConfig {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	defTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.Sessions, 64)
	def(&c.PerClient, 32)
	defTime(&c.Time, time.Hour)
	defTime(&c.UDPTime, time.Minute)
	defTime(&c.Idle, 10*time.Second)
	defTime(&c.Opening, 10*time.Second)
	if c.Block <= 0 {
		c.Block = 1 << 20
	}
	if c.Unknown <= 0 || c.Unknown > mostSilent {
		c.Unknown = mostSilent
	}
	if c.UDPTo == nil {
		c.UDPTo = netip.Addr.IsLoopback // no other host can forge those
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
	if c.Begun == nil {
		c.Begun = func(Result) {}
	}
	if c.Done == nil {
		c.Done = func(Result) {}
	}
	return c
}

// Serve answers clients of iperf 2 on l, whose connections must be TCP, and on pc. It returns
// nil when ctx ends, and an error if another function closes one of them; it logs other
// failures of Accept and Read, and retries. Either may be nil. Serve closes both, and waits for
// the sessions, which end with ctx.
func Serve(ctx context.Context, l net.Listener, pc net.PacketConn, cfg ServerConfig) error {
	ctx, cancel := context.WithCancel(ctx)
	cfg = cfg.withDefaults()
	s := &server{ServerConfig: cfg, bulk: tcpbulk.New(), unknown: accept.NewCrowd(cfg.Unknown)}
	s.tcp, s.udp = newPlaces(s.ServerConfig), newPlaces(s.ServerConfig)
	stop := context.AfterFunc(ctx, func() {
		if l != nil {
			_ = l.Close() // only ends Accept
		}
		if pc != nil {
			_ = pc.Close()
		}
	})
	defer s.running.Wait()
	defer stop()
	defer cancel()
	failed := make(chan error, 2)
	serving := 0
	if l != nil {
		serving++
		go func() { failed <- panics.Call(func() error { return s.serveTCP(ctx, l) }) }()
	}
	if pc != nil {
		serving++
		go func() { failed <- panics.Call(func() error { return s.serveUDP(ctx, pc) }) }()
	}
	var err error
	for ; serving > 0; serving-- {
		if e := <-failed; e != nil && ctx.Err() == nil {
			err = e
			cancel()
		}
	}
	return err
}

// server is one call of Serve.
type server struct {
	ServerConfig
	bulk    *tcpbulk.Engine
	running sync.WaitGroup
	// Forged datagrams can take all UDP places, so TCP has its own.
	tcp, udp *places
	proven   proofs
	// unknown holds TCP connections that have not sent their header: they take no place from
	// those that have.
	unknown *accept.Crowd
	guests  guests
}

func (s *server) logf(format string, args ...any) { s.Log(fmt.Sprintf(format, args...)) }

// source returns the address that counts as one client: an IPv4 address, or an IPv6 /64, all of
// whose addresses one host has.
func source(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if network, err := a.Prefix(64); err == nil && a.Is6() {
		return network.Addr()
	}
	return a
}

// places limit the clients. They are safe for concurrent use.
type places struct {
	most, perClient int

	mu      sync.Mutex
	total   int
	clients map[netip.Addr]int
}

func newPlaces(c ServerConfig) *places {
	return &places{most: c.Sessions, perClient: c.PerClient, clients: map[netip.Addr]int{}}
}

// admit takes a place for a client; release gives it back.
func (p *places) admit(a netip.Addr) error {
	a = source(a)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.lacks(a); err != nil {
		return err
	}
	p.total++
	p.clients[a]++
	return nil
}

// errPerClient reports that a client has all the places that one client may have.
var errPerClient = errors.New("its limit")

// lacks returns an error if there is no place for a source.
func (p *places) lacks(source netip.Addr) error {
	switch {
	case p.clients[source] >= p.perClient:
		return fmt.Errorf("the client has %d sessions already, %w", p.perClient, errPerClient)
	case p.total >= p.most:
		return fmt.Errorf("all %d sessions are taken", p.most)
	}
	return nil
}

// full returns an error if a client would get no place.
func (p *places) full(a netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lacks(source(a))
}

func (p *places) release(a netip.Addr) {
	a = source(a)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total--
	if p.clients[a]--; p.clients[a] == 0 {
		delete(p.clients, a)
	}
}

func (s *server) serveTCP(ctx context.Context, l net.Listener) error {
	return accept.Loop(ctx, l, s.Log, func(c net.Conn) {
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			_ = c.Close()
			s.logf("accepted a %T: only TCP carries iperf 2", c)
			return
		}
		from := tcp.RemoteAddr().(*net.TCPAddr).AddrPort()
		began := time.Now()
		place := s.unknown.Enter(from.Addr(), func() { _ = tcp.Close() })
		s.goGuarded(from, func() {
			defer tcp.Close() // no effect if it was closed before
			defer place.Leave()
			r := Result{Peer: from}
			if s.handle(ctx, tcp, place, &r) {
				r.Took = time.Since(began)
				s.Done(r)
			}
		})
	})
}

// mostSilent is how many connections may be open without having sent their header.
const mostSilent = 256

// errCrowded ends a connection that was dropped for another one.
var errCrowded = errors.New("made room for others: too many connections have sent no header yet")

// goGuarded runs f, which serves the client at from, in a goroutine that Serve waits for. A
// panic in f ends only that client.
func (s *server) goGuarded(from netip.AddrPort, f func()) {
	s.running.Go(func() { accept.Guard(s.Log, "client "+from.String(), f) })
}
