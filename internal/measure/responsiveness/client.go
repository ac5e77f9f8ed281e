package responsiveness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpinfo"
	"linerate/internal/panics"
)

// patience is the timeout of answers that do not depend on the rate: the configuration, and a
// probe.
const patience = 10 * time.Second

// peer is a server from a client's point of view.
type peer struct {
	host     string // with a port, for the configuration
	insecure bool   // accept any certificate
	egress   model.Egress
	urls     addresses
}

// line is one connection to a server for requests: HTTP/2 if the server supports it.
type line struct {
	http   *http.Client
	conn   atomic.Pointer[counted]
	ready  atomic.Bool // it carries a transfer
	closed atomic.Bool
	asked  atomic.Int32 // probes on it that wait for answers
}

// counted is a TCP connection that counts the bytes the program wrote.
type counted struct {
	*net.TCPConn
	written atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// unacknowledged returns the bytes that were written and have not arrived, 0 if the system does
// not report it.
func (c *counted) unacknowledged() int64 {
	info, err := tcpinfo.Read(c.TCPConn)
	acked, known := info.BytesAcked.Get()
	if err != nil || !known {
		return 0
	}
	return max(0, c.written.Load()-int64(acked))
}

// newLine prepares a connection, which the first request opens.
func (p *peer) newLine() *line {
	l := &line{}
	// A window must not be the limit: 16 MiB carry 1.3 Gbit/s at 100 ms.
	const window = 16 << 20
	l.http = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: patience,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: p.insecure}, //nolint:gosec // by the user's wish
			HTTP2:           &http.HTTP2Config{MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: window},
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := sockio.Dial(ctx, net.Dialer{Timeout: patience}, network, addr, engine.SocketOptions{NoDelay: true, Egress: p.egress})
				if err != nil {
					return nil, err
				}
				tcp, ok := c.(*net.TCPConn)
				if !ok {
					return nil, errors.Join(fmt.Errorf("%T is not TCP", c), c.Close())
				}
				own := &counted{TCPConn: tcp}
				l.conn.Store(own)
				if l.closed.Load() { // package http may still dial for an abandoned request
					return nil, errors.Join(net.ErrClosed, own.Close())
				}
				return own, nil
			},
		},
	}
	return l
}

func (l *line) close() {
	l.closed.Store(true)
	l.http.CloseIdleConnections()
	if c := l.conn.Load(); c != nil {
		_ = c.Close() // package http may have closed it
	}
}

// do sends a request and returns the answer if its status is OK.
func (l *line) do(ctx context.Context, method, url string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "linerate")
	if body != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		err := fmt.Errorf("%s %s: the server answers %s", method, req.URL.Path, resp.Status)
		if after := resp.Header.Get("Retry-After"); after != "" {
			err = fmt.Errorf("%w, and asks to come back after %.20s s", err, after)
		}
		return nil, err
	}
	return resp, nil
}

// configure asks a server for the URLs of its transfers.
func (p *peer) configure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l := p.newLine()
	defer l.close()
	var first error
	for _, path := range configPaths() {
		resp, err := l.do(ctx, http.MethodGet, "https://"+p.host+path, nil)
		if err == nil {
			var b []byte
			b, err = io.ReadAll(io.LimitReader(resp.Body, mostConfig))
			_ = resp.Body.Close()
			if err == nil {
				p.urls, err = parseConfig(b)
			}
		}
		if err == nil || first == nil {
			first = err
		}
		if err == nil {
			return nil
		}
	}
	return first
}

// fetch requests one byte over l, reads the answer, and returns the version of HTTP.
func (p *peer) fetch(ctx context.Context, l *line) (version int, err error) {
	resp, err := l.do(ctx, http.MethodGet, p.urls.Small, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, selfBytes))
	return resp.ProtoMajor, err
}

// stamps are the times of a new connection. They have a lock because package http may continue
// after the request has ended.
type stamps struct {
	mu                  sync.Mutex
	dialed, shook, sent time.Time
	tcp, tls            time.Duration
	rounds              time.Duration // of TLS
}

func (s *stamps) note(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// foreign sends a probe over a new connection.
func (p *peer) foreign(ctx context.Context) (probe, error) {
	l := p.newLine()
	defer l.close()
	s := &stamps{rounds: 1}
	trace := &httptrace.ClientTrace{
		ConnectStart:      func(string, string) { s.note(func() { s.dialed = time.Now() }) },
		ConnectDone:       func(string, string, error) { s.note(func() { s.tcp = time.Since(s.dialed) }) },
		TLSHandshakeStart: func() { s.note(func() { s.shook = time.Now() }) },
		TLSHandshakeDone: func(c tls.ConnectionState, _ error) {
			s.note(func() {
				if s.tls = time.Since(s.shook); c.Version < tls.VersionTLS13 {
					s.rounds = 2 // RFC 5246 section 7.3
				}
			})
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { s.note(func() { s.sent = time.Now() }) },
	}
	_, err := p.fetch(httptrace.WithClientTrace(ctx, trace), l)
	var out probe
	s.note(func() { out = probe{tcp: s.tcp, tls: s.tls / s.rounds, http: time.Since(s.sent)} })
	return out, err
}

// self sends a probe over a load connection. It returns errOther if the server has no HTTP/2,
// and errBusy if the probe went over another connection.
func (p *peer) self(ctx context.Context, l *line) (out probe, err error) {
	defer l.asked.Add(-1)
	if l.asked.Add(1) > mostAsked {
		return out, errBusy
	}
	var reused atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused.Store(c.Reused) }}
	began := time.Now()
	version, err := p.fetch(httptrace.WithClientTrace(ctx, trace), l)
	switch {
	case err != nil:
	case version < 2:
		err = errOther
	case !reused.Load():
		err = errBusy
	}
	return probe{self: true, http: time.Since(began)}, err
}

// mostAsked bounds the probes that wait at a time on one connection: servers limit its streams,
// and one more would open another connection.
const mostAsked = 6

var errBusy = errors.New("this connection takes no more requests")

var errOther = errors.New("a request beside a transfer does not use its connection: the server has no HTTP/2")

// load fills the path in one direction.
type load struct {
	peer      *peer
	direction model.Direction
	running   sync.WaitGroup
	moved     atomic.Int64 // bytes read, or accepted for sending

	mu    sync.Mutex
	lines []*line
	err   error // of the first transfer that ended by itself
}

// add starts one more transfer, until ctx ends.
func (l *load) add(ctx context.Context) {
	n := l.peer.newLine()
	l.mu.Lock()
	l.lines = append(l.lines, n)
	l.mu.Unlock()
	l.running.Go(panics.From(l.fail, func() {
		defer n.close()
		if err := l.transfer(ctx, n); ctx.Err() == nil {
			l.fail(fmt.Errorf("a transfer %s ended: %w", l.direction, err))
		}
	}))
}

// fail keeps the first error.
func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

func (l *load) transfer(ctx context.Context, n *line) error {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { n.ready.Store(true) }})
	if l.direction == model.To {
		resp, err := n.do(ctx, http.MethodPost, l.peer.urls.Upload, &source{moved: &l.moved})
		if err != nil {
			return err
		}
		return errors.Join(errors.New("the server answered before the end"), resp.Body.Close())
	}
	resp, err := n.do(ctx, http.MethodGet, l.peer.urls.Large, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b := make([]byte, 256<<10)
	for {
		m, err := resp.Body.Read(b)
		l.moved.Add(int64(m))
		if err != nil {
			return err
		}
	}
}

// carried returns the bytes of payload that have arrived.
func (l *load) carried() int64 {
	n := l.moved.Load()
	if l.direction == model.From {
		return n
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if c := line.conn.Load(); c != nil {
			n -= c.unacknowledged()
		}
	}
	return n
}

// one returns a connection of the load for probe number i, nil if none is open yet.
func (l *load) one(i int) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.lines[i%len(l.lines)]; n.ready.Load() {
		return n
	}
	return nil
}

func (l *load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// source is endless payload. Its content does not matter: TLS encrypts it.
type source struct{ moved *atomic.Int64 }

func (s *source) Read(b []byte) (int, error) {
	s.moved.Add(int64(len(b)))
	return len(b), nil
}
