package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of the HTTP/2 connection. A session has few calls at a time, with headers of some
// hundred bytes.
const (
	maxHeaderBytes = 8 << 10
	maxCalls       = 16
	// What may arrive before it is read (RFC 9113 section 6.9): on a connection, and for one
	// request. An agent reads one request at a time: those that wait for their turn leave room
	// for the one that has it.
	connWindow    = 1 << 20
	requestWindow = connWindow / maxCalls
)

// onlyHTTP2 is HTTP/2 in cleartext with prior knowledge and nothing else.
func onlyHTTP2() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}

func http2Config(t Timeouts, streamWindow int) *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxCalls,
		MaxReceiveBufferPerConnection: connWindow,
		MaxReceiveBufferPerStream:     streamWindow,
		SendPingTimeout:               t.Ping,
		PingTimeout:                   t.Pong,
		WriteByteTimeout:              t.Ping + t.Pong,
	}
}

// tracked is a connection that reports when it is closed.
type tracked struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func track(c net.Conn) *tracked { return &tracked{Conn: c, closed: make(chan struct{})} }

// Close closes the connection once.
func (t *tracked) Close() error {
	var err error
	t.once.Do(func() {
		err = t.Conn.Close()
		close(t.closed)
	})
	return err
}

// oneConn is a listener that accepts one connection and then waits for its end.
type oneConn struct {
	conn  *tracked
	first chan struct{} // holds one element until Accept took it
}

// Accept returns the connection, and net.ErrClosed once it was closed.
func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case <-l.first:
		return l.conn, nil
	default:
	}
	<-l.conn.closed
	return nil, net.ErrClosed
}

// Close closes the connection.
func (l *oneConn) Close() error { return l.conn.Close() }

// Addr is the connection's own address.
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// calls are the running calls of a connection. They close it after it had none for idle; 0 is
// never. http.Server.IdleTimeout is not used: net/http restarts its timer while it takes down a
// connection with open calls (closeStream in h2_bundle.go), and the timer keeps the session's
// memory for that long.
type calls struct {
	idle time.Duration
	wait sync.WaitGroup

	mu    sync.Mutex // Add must not race with Wait
	open  int
	ended bool
	timer *time.Timer // nil for never
}

func newCalls(idle time.Duration, conn *tracked) *calls {
	c := &calls{idle: idle}
	if idle > 0 {
		c.timer = time.AfterFunc(idle, func() { _ = conn.Close() })
	}
	return c
}

// begin reports whether a call may begin; the caller then calls end.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.open++
	if c.timer != nil {
		c.timer.Stop()
	}
	c.wait.Add(1)
	return true
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 && c.timer != nil && !c.ended {
		c.timer.Reset(c.idle)
	}
	c.wait.Done()
}

// finish lets no more calls begin, and waits for the running ones.
func (c *calls) finish() {
	c.mu.Lock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.wait.Wait()
}

// serveHTTP serves h on conn until conn ends or ctx does, and returns when
// every call of h has returned.
func serveHTTP(ctx context.Context, conn *tracked, h http.Handler, t Timeouts) error {
	calls := newCalls(t.Idle, conn)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !calls.begin() {
				return
			}
			defer calls.end()
			h.ServeHTTP(w, r)
		}),
		Protocols:         onlyHTTP2(),
		HTTP2:             http2Config(t, requestWindow),
		ReadHeaderTimeout: t.Hello,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(io.Discard, "", 0), // a peer's mistakes are not this server's errors
		// The calls of a connection end with it, even while they wait.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	l := &oneConn{conn: conn, first: make(chan struct{}, 1)}
	l.first <- struct{}{}
	err := srv.Serve(l)
	_ = srv.Close()
	calls.finish()
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve session: %w", err)
	}
	return nil
}

// dialHTTP makes an HTTP/2 client of conn, which it closes if it fails.
func dialHTTP(ctx context.Context, conn net.Conn, t Timeouts) (*http.ClientConn, error) {
	transport := &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Protocols:              onlyHTTP2(),
		HTTP2:                  http2Config(t, connWindow),
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
	}
	// The preface is written before a deadline is watched, so close by hand.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	cc, err := transport.NewClientConn(ctx, "http", "session.linerate.invalid:80") // RFC 6761: never a real name
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return cc, nil
}

// oneClient sends requests on the one connection. It follows no redirects.
type oneClient struct{ conn *http.ClientConn }

// maxRefusal is how many bytes of the answer to a failed call are read: a sentence of MaxText
// as JSON, which connect decodes without a bound of its own.
const maxRefusal = 16 << 10

// Do sends r.
func (o oneClient) Do(r *http.Request) (*http.Response, error) {
	answer, err := o.conn.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	return bounded(answer), nil
}

// bounded limits how much of an answer is read, by its status.
func bounded(answer *http.Response) *http.Response {
	if answer.StatusCode != http.StatusOK {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxRefusal), answer.Body}
	}
	return answer
}

// extend gives the next write of a call d to complete.
func extend(w *http.ResponseController, d time.Duration) error {
	return w.SetWriteDeadline(time.Now().Add(d))
}
