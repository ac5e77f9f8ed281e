package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/tcpbulk"
)

// ServerConfig are the limits and rights of a server. The zero value serves
// one test at a time, to anybody, for up to an hour.
type ServerConfig struct {
	// Access, where it is not nil, asks every client for a login.
	Access *Access

	// Tests is how many tests may run at the same time; 0 is 1, as tests that
	// share a path measure each other. A client beyond it gets ACCESS_DENIED. A
	// test in which nothing moves for 2 s gives way to one that is ready.
	Tests int
	// Streams is the most streams of a test in each direction; 0 is
	// iperf3.MaxParallel.
	Streams int
	// Duration is the longest test, warm-up included; 0 is an hour. A test
	// with a byte count ends with it too.
	Duration time.Duration
	// Rate is the most payload that a test may move in bit/s over all streams;
	// 0 is no limit. A test that asks for more is refused, and one that states
	// no rate is ended when it takes more.
	Rate units.BitRate
	// UDPRate is the most payload in bit/s that a UDP test may have in each
	// direction, over all streams; 0 is no limit. A test that asks for more, or
	// states no rate, is refused, and one whose client sends more is ended.
	UDPRate units.BitRate
	// Block is the largest read or write in bytes; 0 is 1 MiB.
	Block units.Bytes

	// Budget, where it is not nil, is the ledger of which every test takes a
	// session, the descriptors and the buffers of its streams, the rate of UDP that
	// it is sent, its time and the bytes it gets: as one who has a key where it has
	// logged in, as an anonymous client else. A test that would pass a limit is refused, or
	// ended, in iperf3's words, and Event gets the number.
	Budget *budget.Budget

	// Unknown is how many connections may be open at a time that no test has taken;
	// 0 is 896.
	Unknown int

	// Event, where it is not nil, is told what happens. It is called from
	// several goroutines and must not block.
	Event func(Event)
	// Sampled, where it is not nil, is told what this end sees of the test of remote as
	// intervals end. It must neither wait nor keep the samples.
	Sampled func(remote netip.AddrPort, samples []model.Sample)
	// Bulk moves TCP payload; nil is a tcpbulk engine of the server's own.
	Bulk engine.Engine
	// LinkRate is the rate of the interface, where it is known.
	LinkRate fact.Of[units.BitRate]

	limits limits
}

// Event is one thing that happened at a server.
type Event struct {
	Remote string        // address of the client
	User   string        // whose login it was; "" is none
	Took   time.Duration // since its connection was accepted
	Params iperf3.Params // what it asked for; the token is removed
	// Begun is true when data begins to flow, and false when the client is gone.
	Begun bool
	// Ran is true at the end of a test whose data flowed.
	Ran bool
	// Own and Theirs are what the ends say, of a test that was completed.
	Own, Theirs model.EndReport
	// Err is why a test was refused or broken off; nil for a complete one.
	Err error
	// Note, where it is not empty, is a line on the server itself, and all there
	// is: accepting fails, or works again, or handling a client panicked.
	Note string
}

// server is the listener and the tests that run.
type server struct {
	ServerConfig
	accepted uint64 // connections so far
	udp      *greeter

	unknown, openings, gathered *accept.Crowd
	login                       chan struct{} // held by who looks at a token

	mu    sync.Mutex
	tests []*session // also those that do not run yet
	slots slots
	wait  sync.WaitGroup
}

// Serve answers clients on l until ctx ends, and then ends all tests and
// returns nil. It closes l. What a client asks for beyond traffic is ignored: the
// CPU to run on, zero copy, the type of service, a flow label, MPTCP. UDP tests
// use the same port; they are refused where the system does not let several
// sockets share one (Windows). Accepting that fails is tried again until l is
// closed by somebody else, which is the error.
func Serve(ctx context.Context, l net.Listener, c ServerConfig) error {
	if c.Bulk == nil {
		c.Bulk = tcpbulk.New()
	}
	c.limits.opening = cmp.Or(c.limits.patience, openingTime)
	c.limits.patience = cmp.Or(c.limits.patience, serverPatience)
	c.Tests = cmp.Or(c.Tests, 1)
	c.Streams = min(cmp.Or(c.Streams, iperf3.MaxParallel), iperf3.MaxParallel)
	c.Duration = cmp.Or(c.Duration, time.Hour)
	s := &server{
		ServerConfig: c, slots: newSlots(), login: make(chan struct{}, 1),
		unknown: crowd(mostSilent, c.Unknown), openings: crowd(mostOpenings, c.Unknown), gathered: crowd(mostGathered, c.Unknown),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer s.wait.Wait()
	defer cancel()
	if err := s.listenUDP(ctx, l); err != nil {
		return errors.Join(err, l.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	return accept.Loop(ctx, l, s.note, func(c net.Conn) { s.admit(ctx, c) })
}

// note tells what concerns no client.
func (s *server) note(line string) { s.tell(Event{Note: line}) }

// admit reads the connection's cookie in a goroutine.
func (s *server) admit(ctx context.Context, c net.Conn) {
	s.accepted++
	order := s.accepted
	conn, ok := c.(*net.TCPConn)
	if !ok {
		s.tell(Event{Remote: c.RemoteAddr().String(), Err: fmt.Errorf("accepted a %T, not a TCP connection", c)})
		_ = c.Close()
		return
	}
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	place := s.unknown.Enter(from, func() { _ = conn.Close() })
	s.goGuarded(conn, func() {
		cookie, err := s.cookie(ctx, conn)
		if !place.Leave() {
			err = errCrowded
		}
		if err != nil {
			s.tell(Event{Remote: conn.RemoteAddr().String(), Err: err})
			_ = conn.Close()
			return
		}
		s.place(ctx, cookie, arrival{order: order, conn: conn, from: from})
	})
}

// goGuarded runs f, which serves conn, in a goroutine that Serve waits for and
// whose panic ends conn alone.
func (s *server) goGuarded(conn net.Conn, f func()) {
	s.wait.Go(func() {
		whole := false
		defer func() {
			if !whole {
				_ = conn.Close()
			}
		}()
		accept.Guard(s.note, conn.RemoteAddr().String(), func() {
			f()
			whole = true
		})
	})
}

func (s *server) cookie(ctx context.Context, conn *net.TCPConn) (iperf3.Cookie, error) {
	ctl := control{conn, s.limits.wait()}
	defer ctl.bind(ctx)()
	if err := ctl.listen(); err != nil {
		return iperf3.Cookie{}, err
	}
	cookie, err := iperf3.ReadCookie(conn)
	if err == nil {
		err = cookie.Validate()
	}
	return cookie, because(ctx, err)
}

// place gives the connection to the test that waits for it, or begins another.
func (s *server) place(ctx context.Context, cookie iperf3.Cookie, a arrival) {
	if t := s.find(cookie); t != nil {
		if !t.take(a) {
			deny(a.conn)
		}
		return
	}
	if s.busy() {
		s.tell(Event{Remote: a.conn.RemoteAddr().String(), Err: ErrBusy})
		deny(a.conn)
		return
	}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &session{
		server: s, cookie: cookie, arrivals: make(chan arrival, iperf3.MaxStreams), since: time.Now(),
		ctl: control{a.conn, s.limits.wait()}, from: a.from, source: budget.Source(a.from), cancel: cancel,
	}
	t.opening = s.openings.Enter(a.from, func() { t.drop(errCrowded) })
	defer t.opening.Leave()
	s.mu.Lock()
	s.tests = append(s.tests, t)
	s.mu.Unlock()
	defer s.forget(t)
	t.serve(own)
}

// find returns the test that cookie names; nil where there is none.
func (s *server) find(cookie iperf3.Cookie) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tests {
		if t.cookie.Equal(cookie) {
			return t
		}
	}
	return nil
}

func (s *server) forget(t *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots.leave(t)
	for i := range s.tests {
		if s.tests[i] == t {
			s.tests = append(s.tests[:i:i], s.tests[i+1:]...)
			return
		}
	}
}

// tell passes e on to who wants to know.
func (s *server) tell(e Event) {
	if s.Event != nil {
		e.Params.AuthToken = ""
		s.Event(e)
	}
}

// deny refuses a connection whose cookie has been read: nothing is left unread,
// so that the word is not overtaken by a reset.
func deny(conn net.Conn) {
	c := control{conn, time.Second}
	// Best effort: the client may be gone.
	_ = c.state(iperf3.AccessDenied)
	_ = conn.Close()
}
