package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// charging is a stub whose sessions have a budget.
type charging struct {
	stub
	charge func(units.Bytes) (func(), error)
	apply  func()
}

func (s charging) Hello(context.Context, Hello) (Welcome, error) {
	return Welcome{Charge: s.charge}, nil
}

func (s charging) Apply(context.Context, []model.Assignment, Terms) ([]model.Change, error) {
	if s.apply != nil {
		s.apply()
	}
	return nil, nil
}

// plainHTTP returns the HTTP/2 connection of an accepted session.
func plainHTTP(t *testing.T, s Service) *http.ClientConn {
	t.Helper()
	conn, _ := serving(t, s, Timeouts{Send: time.Minute})
	return raw(t, conn)
}

// exchangeHTTP sends a request and returns the status and body of the answer.
func exchangeHTTP(t *testing.T, cc *http.ClientConn, method, path string, body io.Reader, headers ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := must.Get(http.NewRequestWithContext(ctx, method, "http://session.linerate.invalid"+path, body))(t)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	answer, err := cc.RoundTrip(r)
	if err != nil {
		t.Errorf("%s %s %q: %v", method, path, headers, err)
		return 0, ""
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	must.Need(t, err == nil || answer.StatusCode != http.StatusOK, "%v", err)
	return answer.StatusCode, string(text)
}

// never returns a body that never arrives.
func never(t *testing.T) io.Reader {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return r
}

// TestOneMediaType: an agent answers requests of every other type with a status before any of
// their body has arrived, and its session goes on.
func TestOneMediaType(t *testing.T) {
	applied := 0
	cc := plainHTTP(t, charging{apply: func() { applied++ }})
	const apply, run = applyCall, runCall
	kinds := []string{
		"", "application/proto", "application/json; charset=utf-8", "application/connect+proto", "application/grpc", "application/grpc+proto",
		"application/grpc+json", "application/grpc-web", "application/grpc-web+proto", "application/grpc-web+json", "application/grpc-web-text",
		"application/proto; charset=utf-8", "APPLICATION/JSON", "application/connect+json; a=b", "text/plain", "application/x-www-form-urlencoded",
	}
	for path, other := range map[string]string{apply: mediaStream, run: mediaUnary} {
		for _, kind := range append(kinds, other) {
			status, _ := exchangeHTTP(t, cc, http.MethodPost, path, never(t), "Content-Type", kind)
			must.True(t, status == http.StatusUnsupportedMediaType, "%s as %q: status %d", path, kind, status)
		}
	}
	long := func(n int) (h []string) {
		for i := range n {
			h = append(h, fmt.Sprintf("x-%d", i), "")
		}
		return append(h, "Content-Type", mediaUnary)
	}
	for name, c := range map[string]struct {
		method, path string
		headers      []string
		status       int
	}{
		"gzip":            {http.MethodPost, apply, []string{"Content-Type", mediaUnary, "Content-Encoding", "gzip"}, http.StatusUnsupportedMediaType},
		"identity, twice": {http.MethodPost, apply, []string{"Content-Type", mediaUnary, "Content-Encoding", "identity", "Content-Encoding", "identity"}, http.StatusUnsupportedMediaType},
		"two types":       {http.MethodPost, apply, []string{"Content-Type", mediaUnary, "Content-Type", "application/proto"}, http.StatusUnsupportedMediaType},
		"gzip of a call":  {http.MethodPost, run, []string{"Content-Type", mediaStream, "Connect-Content-Encoding", "gzip"}, http.StatusUnsupportedMediaType},
		"zstd of a call":  {http.MethodPost, run, []string{"Content-Type", mediaStream, "Connect-Content-Encoding", "zstd"}, http.StatusUnsupportedMediaType},
		"GET":             {http.MethodGet, apply + "?encoding=json&message=%7B%7D&connect=v1", nil, http.StatusMethodNotAllowed},
		"PUT":             {http.MethodPut, apply, []string{"Content-Type", mediaUnary}, http.StatusMethodNotAllowed},
		"no such call":    {http.MethodPost, "/linerate.session/Hello2", []string{"Content-Type", mediaUnary}, http.StatusNotFound},
		"another service": {http.MethodPost, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", []string{"Content-Type", mediaUnary}, http.StatusNotFound},
		"many headers":    {http.MethodPost, apply, long(maxHeaderFields), http.StatusRequestHeaderFieldsTooLarge},
	} {
		status, _ := exchangeHTTP(t, cc, c.method, c.path, never(t), c.headers...)
		must.True(t, status == c.status, "%s: status %d, want %d", name, status, c.status)
	}
	must.Equal(t, applied, 0, "of them were heard")
	status, text := exchangeHTTP(t, cc, http.MethodPost, apply, bytes.NewReader(applyOf(t, 1)), "Content-Type", mediaUnary)
	must.True(t, status == http.StatusOK && applied == 1, "an honest call after them: status %d, %s", status, text)
}

// applyOf returns a valid request with n assignments.
func applyOf(t *testing.T, n int) []byte {
	t.Helper()
	r := applyRequest{Terms: Terms{Within: time.Minute}}
	for i := range n {
		r.Assignments = append(r.Assignments, model.Assignment{Host: model.Far, Knob: model.KnobID(fmt.Sprintf("knob-%d", i)), Value: strings.Repeat("1", 64)})
	}
	return must.Get(json.Marshal(r))(t)
}

// applyCall is a call whose answer is one message.
const applyCall = callPath + "Apply"

// sized is a reader whose length net/http does not know.
type sized struct{ io.Reader }

// envelope frames a message of a stream.
func envelope(flags byte, length uint32, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, length), b...)
}

// TestRequestIsOneBoundedMessage: a body with valid headers that is not one message within the
// bounds fails only its own call, with the reason.
func TestRequestIsOneBoundedMessage(t *testing.T) {
	cc := plainHTTP(t, stub{})
	const apply, run = applyCall, runCall
	one := []byte(`{"run":1}`)
	blanks := bytes.Repeat([]byte(" "), maxRequest)
	for name, c := range map[string]struct {
		path string
		body []byte
		says string
	}{
		"nothing":                {apply, nil, "no JSON"},
		"Protocol Buffers":       {apply, bytes.Repeat([]byte{0x0a, 0}, 1000), "no JSON"},
		"many parts":             {apply, []byte(`{"assignments":[` + strings.Repeat("{},", 80000) + `{}]}`), "more than 256 entries"},
		"deep":                   {apply, []byte(strings.Repeat("[", 200000)), "no JSON"},
		"deep and whole":         {apply, []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000)), "not of its type"},
		"blanks":                 {apply, blanks, "no JSON"},
		"more than fits":         {apply, append(slices.Clone(blanks), ' '), "more than 262144 bytes"},
		"without end":            {apply, make([]byte, 4*maxRequest), "more than 262144 bytes"},
		"a compressed envelope":  {run, envelope(1, 9, one), "not one plain message"},
		"an end of stream":       {run, envelope(2, 2, []byte("{}")), "not one plain message"},
		"two envelopes":          {run, append(envelope(0, 9, one), envelope(0, 9, one)...), "not one plain message"},
		"an envelope of 4 GiB":   {run, envelope(0, 1<<32-1, one), "not one plain message"},
		"half an envelope":       {run, []byte{0, 0}, "not one plain message"},
		"an envelope of nothing": {run, envelope(0, maxRequest, blanks), "no JSON"},
	} {
		kind := framingOf(c.path).media
		status, text := exchangeHTTP(t, cc, http.MethodPost, c.path, sized{bytes.NewReader(c.body)}, "Content-Type", kind)
		must.True(t, strings.Contains(text, c.says), "%s: status %d, %.200q", name, status, text)
	}
	status, text := exchangeHTTP(t, cc, http.MethodPost, run, bytes.NewReader(envelope(0, 9, one)), "Content-Type", mediaStream)
	must.True(t, status == http.StatusOK, "an honest call after them: status %d, %s", status, text)
	status, _ = exchangeHTTP(t, cc, http.MethodPost, apply, bytes.NewReader(make([]byte, maxRequest+1)), "Content-Type", mediaUnary)
	must.True(t, status == http.StatusRequestEntityTooLarge, "a length that is too much: status %d", status)
	trailed := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://session.linerate.invalid"+apply, sized{strings.NewReader("")}))(t)
	trailed.Header.Set("Content-Type", mediaUnary)
	trailed.Trailer = http.Header{"X": {"1"}}
	answer := must.Get(cc.RoundTrip(trailed))(t)
	must.True(t, answer.StatusCode == http.StatusBadRequest, "a trailer: %+v", answer)
}

// TestRequestsAreReadOneAtATime: while the body of one request arrives no other one is read, and
// a body that never arrives ends only its own call.
func TestRequestsAreReadOneAtATime(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			in := newIntake(nil, time.Minute)
			in.requests[applyCall] = reflect.TypeFor[nothing]()
			release := make(chan struct{})
			handed := 0
			next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handed++ })
			serve := func(b io.Reader) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, applyCall, b)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", mediaUnary)
				in.handler(next).ServeHTTP(&deadlines{header: http.Header{}}, r)
			}
			go serve(readerFunc(func(b []byte) (int, error) {
				<-release
				if !arrives {
					return 0, os.ErrDeadlineExceeded
				}
				return copy(b, "{}"), io.EOF
			}))
			synctest.Wait()
			go serve(strings.NewReader("{}"))
			synctest.Wait()
			must.Equal(t, handed, 0, "were read beside the first")
			close(release)
			synctest.Wait()
			want := map[bool]int{true: 2, false: 1}[arrives]
			must.True(t, handed == want && len(in.turn) == 0 && in.now == nil, "arrives %v: %d of two were handed on", arrives, handed)
		})
	}
}

// TestLargeRequestsAtOnce: as many calls as a connection allows, each with the largest body, do
// not block each other: their bodies fit into the windows of the connection.
func TestLargeRequestsAtOnce(t *testing.T) {
	cc := plainHTTP(t, stub{})
	var all sync.WaitGroup
	for range maxCalls {
		all.Go(func() {
			body := sized{bytes.NewReader(bytes.Repeat([]byte(" "), maxRequest))}
			status, text := exchangeHTTP(t, cc, http.MethodPost, applyCall, body, "Content-Type", mediaUnary)
			must.True(t, status == http.StatusBadRequest && strings.Contains(text, "no JSON"), "status %d, %s", status, text)
		})
	}
	all.Wait()
}

// TestRequestMustArrive: a body that does not arrive in time ends its call, with an error.
func TestRequestMustArrive(t *testing.T) {
	conn, _ := serving(t, stub{}, Timeouts{Send: 100 * time.Millisecond})
	status, text := exchangeHTTP(t, raw(t, conn), http.MethodPost, applyCall, never(t), "Content-Type", mediaUnary)
	must.True(t, status == http.StatusBadRequest && strings.Contains(text, "did not arrive"), "status %d, %s", status, text)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// deadlines is a response that accepts deadlines and discards everything else.
type deadlines struct{ header http.Header }

func (d *deadlines) Header() http.Header             { return d.header }
func (*deadlines) Write(b []byte) (int, error)       { return len(b), nil }
func (*deadlines) WriteHeader(int)                   {}
func (*deadlines) SetReadDeadline(_ time.Time) error { return nil }

// TestRequestsAreCharged: a large request is charged until its call has returned; if the budget
// has no room the call fails with that reason, and small calls go on.
func TestRequestsAreCharged(t *testing.T) {
	var mu sync.Mutex
	var held, most, inApply units.Bytes
	full := false
	s := charging{
		charge: func(n units.Bytes) (func(), error) {
			mu.Lock()
			defer mu.Unlock()
			if full {
				return func() {}, fmt.Errorf("%w: no memory", ErrBusy)
			}
			held += n
			most = max(most, held)
			return func() { mu.Lock(); defer mu.Unlock(); held -= n }, nil
		},
		apply: func() { mu.Lock(); defer mu.Unlock(); inApply = held },
	}
	conn, _ := serving(t, s, Timeouts{Send: time.Minute})
	c := mustOpen(t, conn)
	var as []model.Assignment
	for i := range 256 {
		as = append(as, model.Assignment{Host: model.Far, Knob: model.KnobID(fmt.Sprintf("knob-%d", i)), Value: strings.Repeat("1", 100)})
	}
	must.Get(c.Apply(t.Context(), as, time.Minute))(t)
	mu.Lock()
	must.True(t, inApply >= 256<<10 && held == 0, "charged %v in the call, %v after it", inApply, held)
	full, most = true, 0
	mu.Unlock()
	must.Is(t, must.Err(c.Apply(t.Context(), as, time.Minute)), ErrBusy, "no room")
	err := errors.Join(c.Start(t.Context(), 1), c.Stop(t.Context(), 1), c.Verify(t.Context()))
	must.True(t, err == nil && most == 0, "small calls: %v, charged %v", err, most)
}

// TestRefusalIsBounded: a controller reads no more of the answer to a failed call than a
// sentence takes.
func TestRefusalIsBounded(t *testing.T) {
	body := readerFunc(func(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("[],"), len(b)/3+1)), nil })
	answer := bounded(&http.Response{StatusCode: http.StatusBadRequest, Body: io.NopCloser(body)})
	n, err := io.Copy(io.Discard, answer.Body)
	must.True(t, n == maxRefusal && err == nil, "%d bytes, %v", n, err)
	answer = bounded(&http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", 2*maxRefusal)))})
	n, err = io.Copy(io.Discard, answer.Body)
	must.True(t, n == 2*maxRefusal && err == nil, "of a good answer %d bytes, %v", n, err)
}
