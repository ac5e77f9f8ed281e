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
	"linerate/internal/rescue"
)

// ServerConfig bounds what clients of a server may do. The zero value of a
// field is the default named with it.
type ServerConfig struct {
	// Sessions is how many TCP connections are served at once, and how many UDP
	// flows, 64 each.
	Sessions int
	// PerClient is how many of those may come from one address, 32 each.
	PerClient int
	// Time is how long one test may last, an hour. It is then ended.
	Time time.Duration
	// Block is how many bytes one call moves at most, 1 MiB; also the largest
	// bounce-back message.
	Block units.Bytes
	// Rate is the payload rate of one TCP connection in either direction; 0 is
	// no limit.
	Rate units.BitRate
	// UDPRate is the payload rate over UDP in each direction, over all flows of
	// one address. A flow whose client says that it sends more is refused, the
	// flows of one that does are ended, and one that asks for more is answered
	// at the limit. 0 is no limit for what comes, and 1 Gbit/s for what is sent.
	UDPRate units.BitRate
	// UDPTime is how long payload is sent over UDP, a minute: nothing tells
	// whether the client still wants it.
	UDPTime time.Duration
	// Idle is how long a session may move nothing before it is ended, 10 s.
	Idle time.Duration
	// Opening is how long a client may take to send its header, and to listen for a test
	// back, 10 s.
	Opening time.Duration
	// UDPTo says whether UDP payload may be sent to an address on a datagram's
	// word. Its sender can be forged, and with it a server be made to flood
	// somebody else. Nil allows addresses of loopback only. An address from which
	// a TCP connection came within the last minute needs no permission.
	UDPTo func(netip.Addr) bool
	// Budget, where it is not nil, is the ledger of which every address with TCP
	// connections takes a session, as an anonymous client, and each connection descriptors,
	// its buffers and the bytes it is sent. So does one with UDP flows from which a
	// TCP connection came, with the rate at which it is sent to. All other addresses
	// with UDP flows, which can be forged, are one session together.
	Budget *budget.Budget
	// Unknown is how many connections may be open that have not sent their header,
	// 256 at most.
	Unknown int
	// Log gets a line on the server itself, and on clients over UDP that were
	// refused, for people. It must be safe for concurrent use.
	Log func(line string)
	// Begun gets each session that begins, before anything is known of how it ends.
	// It must be safe for concurrent use.
	Begun func(Result)
	// Done gets the outcome of each session, also of TCP connections that got
	// none. It must be safe for concurrent use.
	Done func(Result)
}

// Result is the outcome of one TCP connection with what belongs to it, or of
// one UDP flow.
type Result struct {
	Peer    netip.AddrPort
	Mode    iperf2.Mode
	UDP     bool
	Bounce  bool            // a bounce-back test, which has no mode
	Threads int             // as many connections or flows belong to the client's test; 0 is not told
	Report  model.EndReport // of the server, model.Far
	Took    time.Duration   // since the connection was accepted; 0 over UDP
	Refused bool            // no session began; Err says why
	Err     error           // why it was refused or failed; nil for a whole test
}

// withDefaults fills in what is zero.
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

// Serve answers clients of iperf 2 on l, whose connections must be TCP, and on
// pc, until ctx ends, which is no error, or somebody else closes one of them:
// accepting or reading that fails is told to Log and tried again. Either may be
// nil. Serve closes both, and waits for the sessions, which end with ctx.
func Serve(ctx context.Context, l net.Listener, pc net.PacketConn, cfg ServerConfig) error {
	ctx, cancel := context.WithCancel(ctx)
	cfg = cfg.withDefaults()
	s := &server{ServerConfig: cfg, bulk: tcpbulk.New(), unknown: accept.NewCrowd(cfg.Unknown)}
	s.tcp, s.udp = newPlaces(s.ServerConfig), newPlaces(s.ServerConfig)
	stop := context.AfterFunc(ctx, func() {
		if l != nil {
			_ = l.Close() // it only has to end
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
		go func() { failed <- rescue.Call(func() error { return s.serveTCP(ctx, l) }) }()
	}
	if pc != nil {
		serving++
		go func() { failed <- rescue.Call(func() error { return s.serveUDP(ctx, pc) }) }()
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
	// Forged datagrams can take all places of UDP, so TCP has its own.
	tcp, udp *places
	proven   proofs
	// unknown are TCP connections that have not sent their header: they take no
	// place of those who have.
	unknown *accept.Crowd
	guests  guests
}

func (s *server) logf(format string, args ...any) { s.Log(fmt.Sprintf(format, args...)) }

// source is who counts as one client: an IPv4 address, or an IPv6 network of 64
// bits, of which a host has all addresses.
func source(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if network, err := a.Prefix(64); err == nil && a.Is6() {
		return network.Addr()
	}
	return a
}

// places are what clients may take up. They are safe for concurrent use.
type places struct {
	most, perClient int

	mu      sync.Mutex
	total   int
	clients map[netip.Addr]int
}

func newPlaces(c ServerConfig) *places {
	return &places{most: c.Sessions, perClient: c.PerClient, clients: map[netip.Addr]int{}}
}

// admit takes a place for a client, which release gives back.
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

// errPerClient says that a client has all places that one gets.
var errPerClient = errors.New("its limit")

// lacks says why there is no place for a source.
func (p *places) lacks(source netip.Addr) error {
	switch {
	case p.clients[source] >= p.perClient:
		return fmt.Errorf("the client has %d sessions already, %w", p.perClient, errPerClient)
	case p.total >= p.most:
		return fmt.Errorf("all %d sessions are taken", p.most)
	}
	return nil
}

// full says why a client would get no place.
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
			defer tcp.Close() // once more, where all went well
			defer place.Leave()
			r := Result{Peer: from}
			if s.handle(ctx, tcp, place, &r) {
				r.Took = time.Since(began)
				s.Done(r)
			}
		})
	})
}

// mostSilent is how many connections may not have sent their header yet.
const mostSilent = 256

// errCrowded ends a connection for which there is no place any more.
var errCrowded = errors.New("made room for others: too many connections have sent no header yet")

// goGuarded runs f, which serves the client at from, in a goroutine that Serve
// waits for and whose panic ends that client alone.
func (s *server) goGuarded(from netip.AddrPort, f func()) {
	s.running.Go(func() { accept.Guard(s.Log, "client "+from.String(), f) })
}
