package responsiveness

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/program"
	"linerate/internal/measure/sockio"
)

// Limits of one client. A client of the draft has at most 16 connections in each direction, and
// opens at most 100 new ones a second, each for one request. Some leave those open, so the
// oldest one without a transfer makes room for a new one.
const (
	mostRefused  = 8         // connections of refused clients that get the reason; more are closed
	mostOfClient = 128       // connections at a time
	connMemory   = 256 << 10 // bytes charged for a connection: buffers of HTTP/2, TLS and copying
	uploadWindow = 4 << 20   // bytes of an upload in flight
	mostStreams  = 32        // requests at a time on a connection
	mostHeader   = 16 << 10  // bytes of a request's header
	silence      = 10 * time.Second
	largest      = 64 << 30 // bytes of the large download: at least 8 GB
	chunk        = 128 << 10
	lateAfter    = 5 * time.Millisecond // of the current rate may wait unsent (draft, "TCP_NOTSENT_LOWAT")
	retryAfter   = "60"                 // seconds
	leastUnsent  = 16 << 10             // bytes: a sender on a slow path need not wake up for every segment
	smallPath    = "/responsiveness/small"
	largePath    = "/responsiveness/large"
	uploadPath   = "/responsiveness/upload"
	octets       = "application/octet-stream"
)

// certificate returns that of the files in the flags, or own.
func certificate(given program.Values, own tls.Certificate) (tls.Certificate, error) {
	cert, key := given[certFlag], given[keyFlag]
	switch {
	case cert == "" && key == "":
		return own, nil
	case cert == "" || key == "":
		return own, fault.WithHint(fault.Usagef("--%s and --%s belong together", certFlag, keyFlag), "give both, or neither for the certificate of linerate serve")
	}
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return c, fault.Usagef("--%s: %w", certFlag, err)
	}
	return c, nil
}

// server serves clients that measure responsiveness.
type server struct {
	host program.Host
	most int // connections of all clients

	mu      sync.Mutex
	conns   int
	refused int // of these, connections of refused clients, which get the reason
	clients map[netip.Addr]*client
}

// client is an address with connections; it is forgotten with its last one.
type client struct {
	server   *server
	from     netip.Addr
	share    *budget.Share
	conns    []*conn // the oldest first
	began    time.Time
	measured bool // a transfer has begun
	sent     atomic.Int64
	received atomic.Int64
	cut      error // why the budget ended it
	refusal  error // why it was refused; it has no share then
}

// listen implements program.Program.Serve.
func listen(_ context.Context, at program.Sockets, h program.Host) (func(context.Context) error, error) {
	cert, err := certificate(h.Given, h.Certificate)
	if err != nil {
		return nil, err
	}
	s := &server{host: h, most: max(mostOfClient, h.Unknown), clients: map[netip.Addr]*client{}}
	web := &http.Server{
		Handler: admitted(s.routes()), ReadHeaderTimeout: silence, IdleTimeout: silence, MaxHeaderBytes: mostHeader,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: mostStreams, MaxReceiveBufferPerConnection: uploadWindow, MaxReceiveBufferPerStream: uploadWindow},
		ErrorLog:  log.New(io.Discard, "", 0), // clients' errors are not ours to log
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c.(*tls.Conn).NetConn())
		},
	}
	return func(ctx context.Context) error {
		web.BaseContext = func(net.Listener) context.Context { return ctx }
		stop := context.AfterFunc(ctx, func() { _ = web.Close() })
		defer stop()
		err := web.ServeTLS(&gate{Listener: at.TCP, server: s}, "", "")
		if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
			err = nil
		}
		return errors.Join(err, web.Close())
	}, nil
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// gate passes on the connections that the budget has room for, and closes the others.
type gate struct {
	net.Listener
	server *server
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			_ = c.Close()
			continue
		}
		own, err := g.server.enter(tcp)
		if err != nil {
			_ = c.Close()
			continue
		}
		return own, nil
	}
}

// conn is a connection of a client.
type conn struct {
	*net.TCPConn
	client *client
	give   func()
	once   sync.Once
	busy   atomic.Int32 // transfers
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() { c.client.server.leave(c) })
	return err
}

// enter charges a new connection to its client.
func (s *server) enter(c *net.TCPConn) (*conn, error) {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return nil, err
	}
	from := at.Addr().Unmap().WithZone("")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns >= s.most {
		return nil, errors.New("too many connections")
	}
	of := s.clients[from]
	if of == nil {
		share, err := s.host.Budget.Open(from, "")
		if err != nil {
			if s.refused >= mostRefused {
				return nil, err
			}
			s.host.Tell(program.Event{Test: program.Test{From: from, Flow: flow(0, 0), Err: err}, Over: true})
			s.refused++
			s.conns++
			return &conn{TCPConn: c, client: &client{server: s, from: from, refusal: err}, give: func() {}}, nil
		}
		of = &client{server: s, from: from, share: share, began: time.Now()}
		s.clients[from] = of
	}
	give, err := of.share.Take(budget.Amounts{Descriptors: 1, Memory: connMemory})
	if err != nil {
		s.forget(of)
		return nil, err
	}
	if len(of.conns) >= mostOfClient {
		i := slices.IndexFunc(of.conns, func(c *conn) bool { return c.busy.Load() == 0 })
		if i < 0 {
			give()
			return nil, errors.New("too many connections of one client")
		}
		_ = of.conns[i].TCPConn.Close() // its owner notices, and leaves
		of.conns = slices.Delete(of.conns, i, i+1)
	}
	own := &conn{TCPConn: c, client: of, give: give}
	of.conns = append(of.conns, own)
	s.conns++
	return own, nil
}

// leave gives back what a connection held.
func (s *server) leave(c *conn) {
	c.give()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns--
	if c.client.refusal != nil {
		s.refused--
		return
	}
	c.client.conns = slices.DeleteFunc(c.client.conns, func(o *conn) bool { return o == c })
	s.forget(c.client)
}

// forget removes a client without connections. s is locked.
func (s *server) forget(c *client) {
	if len(c.conns) > 0 || s.clients[c.from] != c {
		return
	}
	delete(s.clients, c.from)
	c.share.Close()
	if !c.measured {
		return
	}
	sent, received := units.Bytes(c.sent.Load()), units.Bytes(c.received.Load())
	took := time.Since(c.began)
	t := program.Test{From: c.from, Flow: flow(sent, received), Took: took, Err: c.cut, Ends: []model.EndReport{{Host: model.Far, Flows: []model.FlowReport{
		{Direction: model.To, Role: model.Receiver, Bytes: received, Window: took}, {Direction: model.From, Role: model.Sender, Bytes: sent, Window: took},
	}}}}
	s.host.Keep(t)
	s.host.Tell(program.Event{Test: t, Began: true, Over: true})
}

// flow returns what a client measured, as far as the server knows.
func flow(sent, received units.Bytes) model.Flow {
	f := model.Flow{Engine: Name, Direction: model.Both}
	switch {
	case sent == 0 && received > 0:
		f.Direction = model.To
	case received == 0:
		f.Direction = model.From
	}
	return f
}

// routes handles the requests.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, path := range configPaths() {
		mux.HandleFunc("GET "+path, s.configuration)
	}
	mux.HandleFunc("GET "+smallPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", octets)
		_, _ = w.Write([]byte{0}) // fails if the client has gone
	})
	mux.HandleFunc("GET "+largePath, s.transfer(s.download))
	mux.HandleFunc("POST "+uploadPath, s.transfer(s.upload))
	return mux
}

// admitted answers a client that the budget refused with the reason.
func admitted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.Context().Value(connKey{}).(*conn).client.refusal; err != nil {
			refuse(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// refuse answers that the server is busy (draft, "Configuration"), with the reason.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// configuration sends the URLs of the transfers, with the host name that the client used.
func (s *server) configuration(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if host == "" || strings.ContainsAny(host, "/\\@?#\"<> ") {
		http.Error(w, "no host", http.StatusBadRequest)
		return
	}
	at := func(path string) string { return "https://" + host + path }
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(config{Version: 1, URLs: addresses{ // fails if the client has gone
		Small: at(smallPath), Large: at(largePath), Upload: at(uploadPath), OldSmall: at(smallPath), OldLarge: at(largePath), OldPost: at(uploadPath),
	}})
}

// transfer returns a handler that the budget limits.
func (s *server) transfer(move func(w http.ResponseWriter, r *http.Request, c *conn) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*conn)
		if err := c.client.share.Spend(0); err != nil {
			refuse(w, err)
			return
		}
		until := time.Now().Add(budget.AnonymousRun().Time)
		if ends := c.client.share.Ends(); !ends.IsZero() && ends.Before(until) {
			until = ends
		}
		// On HTTP/1 for the connection, on HTTP/2 for the stream. Both kinds of writers support
		// it.
		_, _ = http.NewResponseController(w).SetReadDeadline(until), http.NewResponseController(w).SetWriteDeadline(until)
		c.busy.Add(1)
		defer c.busy.Add(-1)
		c.client.begin()
		if err := move(w, r, c); errors.Is(err, budget.ErrSpent) {
			s.mu.Lock()
			c.client.cut = err
			s.mu.Unlock()
			panic(http.ErrAbortHandler) // aborts the stream, or the connection
		}
	}
}

// begin reports a client's first transfer.
func (c *client) begin() {
	c.server.mu.Lock()
	first := !c.measured
	c.measured = true
	c.server.mu.Unlock()
	if first {
		c.server.host.Tell(program.Event{Test: program.Test{From: c.from, Flow: flow(0, 0)}, Began: true})
	}
}

// download sends until the client closes.
func (s *server) download(w http.ResponseWriter, _ *http.Request, c *conn) error {
	w.Header().Set("Content-Type", octets)
	w.Header().Set("Content-Length", fmt.Sprint(int64(largest)))
	block := plane.Payload(chunk)
	began, since := time.Now(), int64(0)
	last := began
	for sent := int64(0); sent < largest; sent += chunk {
		n, err := w.Write(block)
		c.client.sent.Add(int64(n))
		if err != nil {
			return err
		}
		if err := c.client.share.Spend(units.Bytes(n)); err != nil {
			return err
		}
		since += int64(n)
		if now := time.Now(); now.Sub(last) >= 100*time.Millisecond {
			if err := c.client.share.Use(now.Sub(last)); err != nil {
				return err
			}
			sockio.KeepUnsent(c.TCPConn, max(leastUnsent, int(float64(since)*lateAfter.Seconds()/now.Sub(last).Seconds())))
			last, since = now, 0
		}
	}
	return nil
}

// upload reads what the client sends.
func (s *server) upload(w http.ResponseWriter, r *http.Request, c *conn) error {
	b := make([]byte, chunk)
	last := time.Now()
	for {
		n, err := r.Body.Read(b)
		c.client.received.Add(int64(n))
		now := time.Now()
		if used := c.client.share.Use(now.Sub(last)); used != nil {
			return used
		}
		last = now
		if errors.Is(err, io.EOF) {
			w.WriteHeader(http.StatusOK)
			return nil
		}
		if err != nil {
			return err
		}
	}
}
