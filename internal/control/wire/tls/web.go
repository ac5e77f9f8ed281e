package tls

import (
	"context"
	"crypto/ecdsa"
	ctls "crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/accept"
)

// alpnWeb is HTTP/1.1 (RFC 7301 section 6): a hub's agents hold one request open each.
const alpnWeb = "http/1.1"

// Limits of HTTP requests. An anonymous client has the places and bytes of the door.
const (
	webHeader = 8 << 10
	webIdle   = 2 * time.Minute
	webKnown  = 2048 // connections of clients that showed who they are
)

// web hands connections of the port to an HTTP server.
type web struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	addr   net.Addr
	known  chan struct{} // a place for each
}

// Accept implements net.Listener.
func (w *web) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; end closes it.
func (w *web) Close() error { return nil }

// Addr implements net.Listener.
func (w *web) Addr() net.Addr { return w.addr }

// visit is a connection that speaks HTTP.
type visit struct {
	*ctls.Conn
	gone  func()
	admit func() error
}

// Close implements net.Conn.
func (v *visit) Close() error {
	defer v.gone()
	return v.Conn.Close()
}

type visitKey struct{}

// serveWeb starts to answer HTTP requests; the returned function ends it and its connections.
func (s *Server) serveWeb() (end func()) {
	if s.config.Web == nil {
		return func() {}
	}
	s.web = &web{conns: make(chan net.Conn), closed: make(chan struct{}), addr: s.listener.Addr(), known: make(chan struct{}, webKnown)}
	s.web.server = &http.Server{
		Handler: s.config.Web, ReadHeaderTimeout: s.config.Handshake, IdleTimeout: webIdle, MaxHeaderBytes: webHeader,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, visitKey{}, c) },
	}
	var answering sync.WaitGroup
	answering.Go(func() {
		accept.Guard(s.log, "HTTPS", func() { _ = s.web.server.Serve(s.web) }) // ends with the listener
	})
	return func() {
		close(s.web.closed)
		_ = s.web.server.Close()
		answering.Wait()
	}
}

// hand gives a connection to the HTTP server and waits for its end.
func (s *Server) hand(ctx context.Context, c *ctls.Conn, raw *unproven, at *knocking) {
	gone := make(chan struct{})
	taken := false
	v := &visit{Conn: c, gone: sync.OnceFunc(func() { close(gone) })}
	v.admit = func() error {
		if taken {
			return nil
		}
		select {
		case s.web.known <- struct{}{}:
		default:
			return errors.New("too many connections")
		}
		taken = true
		raw.left.Store(-1)
		s.door.leave(at)
		return nil
	}
	select {
	case s.web.conns <- v:
		<-gone
	case <-ctx.Done():
	}
	if taken {
		<-s.web.known
	}
}

// Admit lets the client of a request read and write as much as its handler does, for as long as
// the connection lasts. Call it once the client has shown who it is.
func Admit(r *http.Request) error {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		return v.admit()
	}
	return nil
}

// PeerPin returns the pin of the key that the client of a request has proved to own; "" for none.
func PeerPin(r *http.Request) string {
	state := r.TLS
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		s := v.ConnectionState()
		state = &s
	}
	if state == nil || len(state.PeerCertificates) == 0 {
		return ""
	}
	return pin(state.PeerCertificates[0])
}

// Web returns an HTTP client of the server of a link, whatever the URL says, that proves to own
// an identity; the zero Identity proves nothing. public, if not nil, gets the server's key at
// each connection. Several addresses may be equal servers: the identity decides which one is asked
// first, so that many clients spread over them.
func Web(l Link, own Identity, public func(*ecdsa.PublicKey)) *http.Client {
	addrs := l.Addrs()
	if own.Certificate.PrivateKey != nil {
		first := int(own.Pin()[0]) % len(addrs)
		addrs = slices.Concat(addrs[first:], addrs[:first])
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		c := clientConfig(alpnWeb, exactly(l.Pin))
		if own.Certificate.PrivateKey != nil {
			c.Certificates = []ctls.Certificate{own.Certificate}
		}
		var worst error
		for i, addr := range addrs {
			limit := handshakeTimeout
			if i < len(addrs)-1 { // it may not answer at all
				limit = nextAfter
			}
			each, cancel := context.WithTimeout(ctx, limit)
			_, conn, err := connect(each, addr, model.Egress{}, c)
			cancel()
			if err != nil {
				if worst == nil || errors.Is(err, ErrPin) {
					worst = err
				}
				continue
			}
			if key, ok := conn.ConnectionState().PeerCertificates[0].PublicKey.(*ecdsa.PublicKey); ok && public != nil {
				public(key)
			}
			return conn, nil
		}
		return nil, worst
	}
	return &http.Client{
		Transport:     &http.Transport{DialTLSContext: dial, DisableCompression: true, IdleConnTimeout: webIdle / 2, MaxResponseHeaderBytes: webHeader},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
