package peer

import (
	"cmp"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
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
	// share a path measure each other. A client beyond it gets ACCESS_DENIED.
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

	// Event, where it is not nil, is told what happens. It is called from
	// several goroutines and must not block.
	Event func(Event)
	// Bulk moves TCP payload; nil is a tcpbulk engine of the server's own.
	Bulk engine.Engine
	// LinkRate is the rate of the interface, where it is known.
	LinkRate fact.Of[units.BitRate]

	limits limits
}

// Access is who may test. Tokens in both paddings are taken, unless Paddings
// says otherwise; a server that takes PKCS #1 v1.5 can be used to decrypt what
// was encrypted with its key by whoever can measure its time to answer, so the
// key should serve nothing else.
type Access struct {
	Key      *rsa.PrivateKey
	Users    map[string]string // of iperf3.ParseUsers
	Paddings []iperf3.Padding  // nil is OAEP and PKCS1v15
	Skew     time.Duration     // between the clocks; 0 is iperf3.DefaultClockSkew
}

// check returns iperf3.ErrRefused unless token is of a known user.
func (a *Access) check(token string, now time.Time) error {
	paddings := a.Paddings
	if paddings == nil {
		paddings = []iperf3.Padding{iperf3.OAEP, iperf3.PKCS1v15}
	}
	refused := iperf3.ErrRefused
	for _, padding := range paddings {
		who, err := iperf3.OpenToken(a.Key, token, padding)
		if err == nil {
			err = who.Check(a.Users, now, cmp.Or(a.Skew, iperf3.DefaultClockSkew))
		}
		if err == nil {
			refused = nil
		}
	}
	return refused
}

// Event is one thing that happened at a server.
type Event struct {
	Remote string        // address of the client
	Params iperf3.Params // what it asked for; the token is removed
	// Begun is true when data begins to flow, and false when the client is gone.
	Begun bool
	// Own and Theirs are what the ends say, of a test that was completed.
	Own, Theirs model.EndReport
	// Err is why a test was refused or broken off; nil for a complete one.
	Err error
	// Note, where it is not empty, is a line on the server itself, and all there
	// is: accepting fails, or works again, or handling a client panicked.
	Note string
}

// maxGreetings is how many connections may be between accept and cookie: a
// connection that says nothing holds its place for as long as it may.
const maxGreetings = 256

// server is the listener and the tests that run.
type server struct {
	ServerConfig
	accepted uint64 // connections so far
	greeting chan struct{}
	udp      *greeter

	mu    sync.Mutex
	tests []*session
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
	s := &server{ServerConfig: c, greeting: make(chan struct{}, maxGreetings)}
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
	select {
	case s.greeting <- struct{}{}:
	default:
		s.tell(Event{Remote: c.RemoteAddr().String(), Err: errors.New("too many connections that have said nothing yet")})
		_ = conn.Close()
		return
	}
	s.wait.Go(func() {
		cookie, err := s.cookie(ctx, conn)
		<-s.greeting
		if err != nil {
			s.tell(Event{Remote: conn.RemoteAddr().String(), Err: err})
			_ = conn.Close()
			return
		}
		s.place(ctx, cookie, arrival{order, conn})
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
	t, created := s.find(cookie)
	switch {
	case t == nil:
		s.tell(Event{Remote: a.conn.RemoteAddr().String(), Err: ErrBusy})
		deny(a.conn)
	case !created:
		if !t.take(a) {
			deny(a.conn)
		}
	default:
		defer s.forget(t)
		t.ctl = control{a.conn, s.limits.wait()}
		t.serve(ctx)
	}
}

// find returns the test that cookie names; a new one where there is none and
// room for it; nil where there is no room.
func (s *server) find(cookie iperf3.Cookie) (t *session, created bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tests {
		if t.cookie.Equal(cookie) {
			return t, false
		}
	}
	if len(s.tests) >= s.Tests {
		return nil, false
	}
	t = &session{server: s, cookie: cookie, arrivals: make(chan arrival, iperf3.MaxStreams)}
	s.tests = append(s.tests, t)
	return t, true
}

func (s *server) forget(t *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
