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

// ServerConfig has the limits and rights of a server. The zero value serves one test at a time,
// to any client, for up to an hour.
type ServerConfig struct {
	// Access, if not nil, requires a login from every client.
	Access *Access

	// Tests is how many tests may run at the same time; 0 is 1, since tests that share a path
	// disturb each other. A client beyond it gets ACCESS_DENIED. A test without progress for 2
	// s is ended if another one is ready.
	Tests int
	// Streams is the most streams of a test in each direction; 0 is
	// iperf3.MaxParallel.
	Streams int
	// Duration is the longest test, including warm-up; 0 is an hour. It also limits a test with
	// a byte count.
	Duration time.Duration
	// Rate is the most payload that a test may move in bit/s over all streams; 0 is no limit. A
	// test that requests more is refused, and one without a rate is ended if it exceeds the
	// limit.
	Rate units.BitRate
	// UDPRate is the most payload in bit/s that a UDP test may have in each direction, over all
	// streams; 0 is no limit. A test that requests more, or has no rate, is refused, and one
	// whose client sends more is ended.
	UDPRate units.BitRate
	// Block is the largest read or write in bytes; 0 is 1 MiB.
	Block units.Bytes

	// Budget, if not nil, is the ledger that tests take from: a session, the descriptors and
	// the buffers of the streams, the rate of UDP that the server sends, the time and the bytes
	// sent. A test with a login takes as a client with a key, others as anonymous clients. A
	// test that exceeds a limit is refused, or ended, with iperf3's message, and Event gets the
	// numbers.
	Budget *budget.Budget

	// Unknown is how many connections may be open at a time that belong to no running test; 0
	// is 896.
	Unknown int

	// Event, if not nil, gets the events of the server. It is called from several goroutines
	// and must not block.
	Event func(Event)
	// Sampled, if not nil, gets this end's samples of the test of remote as intervals end. It
	// must neither block nor keep the samples.
	Sampled func(remote netip.AddrPort, samples []model.Sample)
	// Bulk moves TCP payload; if nil, the server creates a tcpbulk engine.
	Bulk engine.Engine
	// LinkRate is the rate of the interface, if known.
	LinkRate fact.Of[units.BitRate]

	limits limits
}

// Event is one event at a server.
type Event struct {
	Remote string        // address of the client
	User   string        // of the login; "" if none
	Took   time.Duration // since its connection was accepted
	Params iperf3.Params // as requested; the token is removed
	// Begun is true when data begins to flow, and false when the client is gone.
	Begun bool
	// Ran is true at the end of a test whose data flowed.
	Ran bool
	// Own and Theirs are the reports of both ends, of a test that was completed.
	Own, Theirs model.EndReport
	// Err is the reason why a test was refused or aborted; nil for a complete one.
	Err error
	// Note, if not empty, is a line about the server itself, and the only field set: Accept
	// fails, or works again, or the handling of a client panicked.
	Note string
}

// server is the listener and the running tests.
type server struct {
	ServerConfig
	accepted uint64 // connections so far
	udp      *greeter

	unknown, openings, gathered *accept.Crowd
	login                       chan struct{} // held while a token is checked

	mu    sync.Mutex
	tests []*session // including those that do not run yet
	slots slots
	wait  sync.WaitGroup
}

// Serve answers clients on l until ctx ends, and then ends all tests and returns nil. It closes
// l. It ignores a client's requests other than for traffic: the CPU to run on, zero copy, the
// type of service, a flow label, MPTCP. UDP tests use the same port; they are refused if the
// system does not let several sockets share one (Windows). It retries a failed Accept until
// another function closes l, and returns that error.
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

// note reports a line about the server itself.
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

// goGuarded runs f, which serves conn, in a goroutine that Serve waits for. A panic in f ends
// conn only.
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

// place passes the connection to the test that waits for it, or begins a new one.
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

// find returns the test that cookie names, or nil.
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

// tell calls Event, if set.
func (s *server) tell(e Event) {
	if s.Event != nil {
		e.Params.AuthToken = ""
		s.Event(e)
	}
}

// deny refuses a connection whose cookie has been read: no unread data is left that would cause
// a reset, which could overtake the message.
func deny(conn net.Conn) {
	c := control{conn, time.Second}
	// Best effort: the client may be gone.
	_ = c.state(iperf3.AccessDenied)
	_ = conn.Close()
}
