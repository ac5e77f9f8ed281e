package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"connectrpc.com/connect"

	"linerate/internal/core/units"
)

// Bounds of a request, besides maxRequest.
const (
	maxHeaderFields = 32 // an honest controller sends about ten
	envelopeHead    = 5  // of a stream's message: flags (1 byte), length (4 bytes)
	// freeRequest is what a request may cost before the session's budget is charged: the
	// calls that control a run fit into it, even when the run has taken all of the session's
	// memory.
	freeRequest units.Bytes = 64 << 10
)

// The media types of requests: of the one call that answers with a stream, and of all others.
// Connect also registers Protocol Buffers, gRPC and gRPC-Web; none of these is accepted.
const (
	mediaUnary  = "application/json"
	mediaStream = "application/connect+json"
)

// framing is how the body of a request is framed.
type framing struct {
	media string // the only media type that the call has
	head  int    // bytes before the message
}

// framingOf returns how the call at path is framed.
func framingOf(path string) framing {
	if path == runCall {
		return framing{mediaStream, envelopeHead}
	}
	return framing{mediaUnary, 0}
}

// message returns the message in a body.
func (f framing) message(body []byte) ([]byte, error) {
	switch {
	case len(body) > maxRequest+f.head:
		return nil, fmt.Errorf("%w: a request of more than %d bytes", ErrInvalid, maxRequest)
	case f.head > 0 && (len(body) < f.head || body[0] != 0 || int64(binary.BigEndian.Uint32(body[1:])) != int64(len(body)-f.head)):
		return nil, fmt.Errorf("%w: the request is not one plain message", ErrInvalid)
	}
	return body[f.head:], nil
}

// intake reads and decodes the requests of one session, one at a time. It charges their cost
// to the session's budget before it reads or decodes them.
type intake struct {
	shapes
	requests map[string]reflect.Type // types of the calls, by path
	turn     chan struct{}           // holds one element while a request is read and decoded
	now      *request                // the request whose turn it is
	charge   func(units.Bytes) (give func(), err error)
	timeout  time.Duration // of reading one request
}

// newIntake returns an intake that charges with charge; nil charges nothing.
func newIntake(charge func(units.Bytes) (func(), error), timeout time.Duration) *intake {
	if charge == nil {
		charge = func(units.Bytes) (func(), error) { return func() {}, nil }
	}
	return &intake{requests: map[string]reflect.Type{}, turn: make(chan struct{}, 1), charge: charge, timeout: timeout}
}

// handler returns an HTTP handler that passes only requests within the bounds to next. It
// answers everything else with a status, before it reads the body.
func (in *intake) handler(next http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := in.refusedStatus(r); status != 0 {
			w.WriteHeader(status)
			return
		}
		req, err := in.begin(r.Context())
		if err != nil {
			return // the connection has ended
		}
		defer req.end()
		body, err := req.read(w, r)
		if err != nil {
			_ = refusals.Write(w, r, outgoing(err)) // a controller that has hung up does not need it
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// refusedStatus returns the status for a request that is refused by its headers alone; 0 means
// that it is accepted.
func (in *intake) refusedStatus(r *http.Request) int {
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	f := framingOf(r.URL.Path)
	switch {
	case in.requests[r.URL.Path] == nil:
		return http.StatusNotFound
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed
	case fields > maxHeaderFields:
		return http.StatusRequestHeaderFieldsTooLarge
	case !only(r.Header, "Content-Type", f.media),
		!only(r.Header, "Content-Encoding", "", "identity"), !only(r.Header, "Connect-Content-Encoding", "", "identity"):
		return http.StatusUnsupportedMediaType
	case len(r.Trailer) > 0:
		return http.StatusBadRequest
	case r.ContentLength > int64(maxRequest+f.head):
		return http.StatusRequestEntityTooLarge
	}
	return 0
}

// only reports whether a header has one of the allowed values, once; "" allows it to be missing.
func only(h http.Header, name string, allowed ...string) bool {
	values := h.Values(name)
	for _, a := range allowed {
		if a == "" && len(values) == 0 || len(values) == 1 && values[0] == a {
			return true
		}
	}
	return false
}

// request is one request from its turn until its call has returned.
type request struct {
	in    *intake
	leave func() // lets the next request have its turn

	free  units.Bytes // what it may still cost uncharged
	gives []func()
}

// begin waits for the turn of a request.
func (in *intake) begin(ctx context.Context) (*request, error) {
	select {
	case in.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r := &request{in: in, free: freeRequest}
	r.leave = sync.OnceFunc(func() {
		in.now = nil
		<-in.turn
	})
	in.now = r
	return r, nil
}

// end returns what the request was charged, and its turn.
func (r *request) end() {
	r.leave()
	for _, give := range r.gives {
		give()
	}
}

// cost charges n bytes to the session until the call returns. Its error wraps that of the
// session's charge.
func (r *request) cost(n units.Bytes) error {
	if r.free >= n {
		r.free -= n
		return nil
	}
	give, err := r.in.charge(n - r.free)
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	r.free = 0
	r.gives = append(r.gives, give)
	return nil
}

// read reads the body of hr, one message, within the timeout and charges what decoding it takes.
// The error wraps ErrInvalid, or that of the session's charge.
func (r *request) read(w http.ResponseWriter, hr *http.Request) ([]byte, error) {
	c := http.NewResponseController(w)
	if err := c.SetReadDeadline(time.Now().Add(r.in.timeout)); err != nil {
		return nil, err
	}
	body, err := r.bytes(hr.Body)
	_ = c.SetReadDeadline(time.Time{}) // it would end the call even if nothing is read
	if err != nil {
		return nil, err
	}
	message, err := framingOf(hr.URL.Path).message(body)
	if err != nil {
		return nil, err
	}
	n, err := r.in.scan(message, r.in.requests[hr.URL.Path])
	if err != nil {
		return nil, err
	}
	return body, r.cost(n)
}

// bytes reads a body, whose first bytes are not charged.
func (r *request) bytes(body io.Reader) ([]byte, error) {
	const little, most = 8 << 10, maxRequest + envelopeHead + 1
	b, err := io.ReadAll(io.LimitReader(body, little))
	if err == nil && len(b) == little {
		// This buffer while it grows, and connect's copy of it.
		if err := r.cost(3 * most); err != nil {
			return nil, err
		}
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(body, most-little))
		b = append(b, rest...)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the request did not arrive: %w", ErrInvalid, err)
	}
	return b, nil
}
