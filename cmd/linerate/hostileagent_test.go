package main

import (
	"bytes"
	"context"
	be "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/stdio"
	"linerate/internal/core/model"
)

// hostileManner is the behaviour of a hostile agent. It stands between the controller and an
// honest agent, and passes on their messages, except for what it changes.
type hostileManner string

const (
	floodsSamples  hostileManner = "samples"  // without end, as soon as a run is ready
	floodsMeasured hostileManner = "measured" // the same event without end
	floodsParts    hostileManner = "parts"    // a message of a megabyte that is half a million messages
	floodsBody     hostileManner = "body"     // an endless answer
	floodsStderr   hostileManner = "stderr"   // endless output beside the protocol
	floodsStdout   hostileManner = "stdout"   // endless output instead of the protocol
	drips          hostileManner = "drips"    // an answer one byte at a time
	neverEnds      hostileManner = "endless"  // a run that does not end
	paints         hostileManner = "paints"   // escapes in every text, as the protocol allows them
	paintsRaw      hostileManner = "raw"      // escapes in every text, which the protocol forbids
)

// hostileTarget returns a HOST whose agent is hostile.
func hostileTarget(m hostileManner) string {
	return fmt.Sprintf("exec:127.0.0.1 env %s=hostile=%s %s", roleVar, m, os.Args[0])
}

// Texts with terminal commands, or that mislead a reader.
const (
	paintFair = "\u202egpj\u2066\u200e\u061c\u200b\ufeff\nlinerate: everything is fine\n"
	paintRaw  = paintFair + "\x1b]0;owned\x07\x1b[2J\u009b31m\x9b31m\r\x08\x00\x7f"
)

// hostileAgent serves one session on standard input and output.
func hostileAgent(ctx context.Context, m hostileManner) error {
	switch m {
	case floodsStdout:
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat(paintRaw, 1000)); err != nil {
				return nil // the controller has given up
			}
		}
	case floodsStderr:
		go func() {
			for {
				if _, err := os.Stderr.WriteString(strings.Repeat(paintRaw, 1000)); err != nil {
					return
				}
			}
		}()
	case paints, paintsRaw:
		fmt.Fprint(os.Stderr, paintRaw)
	default: // hostile in its answers
	}
	state, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	honest, err := stdio.Start(ctx, []string{os.Args[0], "agent", "--state", state}, stdio.Options{
		Env: []string{roleVar + "=", "LINERATE_TEST_MAIN=1"},
	})
	if err != nil {
		return err
	}
	defer honest.Close()
	conn, done := wire.Join(os.Stdin, os.Stdout)
	if err := hostileGreeting(conn, honest.Control, m); err != nil {
		return err
	}
	l := &onlyConn{Conn: conn, done: done}
	l.first.Store(true)
	var prior http.Protocols
	prior.SetUnencryptedHTTP2(true) // RFC 9113 section 3.3
	between := hostileProxy{m, &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return honest.Control, nil },
		Protocols:   &prior, DisableCompression: true,
	}}
	err = (&http.Server{Handler: between, Protocols: &prior, ReadHeaderTimeout: time.Minute}).Serve(l)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// hostileGreeting passes on the greeting of both ends; see session/greeting.go.
func hostileGreeting(controller, honest net.Conn, m hostileManner) error {
	const hello, reply = len("lr-hello"), len("lr-reply") + 1
	body, err := greeting(controller, hello)
	if err != nil {
		return err
	}
	head := be.BigEndian.AppendUint16([]byte("lr-hello"), uint16(len(body)))
	if _, err := honest.Write(append(head, body...)); err != nil {
		return err
	}
	if body, err = greeting(honest, reply); err != nil {
		return err
	}
	var welcome session.Welcome
	if m == paints && json.Unmarshal(body, &welcome) == nil {
		welcome.Version += paintFair
		if body, err = json.Marshal(welcome); err != nil {
			return err
		}
	}
	head = be.BigEndian.AppendUint16([]byte("lr-reply\x00"), uint16(len(body)))
	_, err = controller.Write(append(head, body...))
	return err
}

// onlyConn is a listener with one connection.
type onlyConn struct {
	net.Conn
	first atomic.Bool
	done  <-chan struct{} // closed when the connection has ended
}

// Accept returns the connection, then waits for its end.
func (l *onlyConn) Accept() (net.Conn, error) {
	if l.first.CompareAndSwap(true, false) {
		return l.Conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Addr returns the connection's own address.
func (l *onlyConn) Addr() net.Addr { return l.LocalAddr() }

// hostileProxy is between a controller and an honest agent.
type hostileProxy struct {
	manner hostileManner
	honest http.RoundTripper
}

// ServeHTTP passes on one call.
func (h hostileProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ask := r.Clone(r.Context())
	ask.URL.Scheme, ask.URL.Host, ask.RequestURI = "http", "session.linerate.invalid", ""
	answer, err := h.honest.RoundTrip(ask)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	for key, values := range answer.Header {
		if key != "Content-Length" {
			w.Header()[key] = values
		}
	}
	w.WriteHeader(answer.StatusCode)
	flush(w)
	call := path.Base(r.URL.Path)
	switch {
	case call == "Run":
		h.stream(w, answer.Body)
	case call == "Facts" && h.manner == floodsBody:
		for endless := bytes.Repeat([]byte(" "), 1<<17); r.Context().Err() == nil; { // within seconds more than the controller may keep
			if _, err := w.Write(endless); err != nil {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	case call == "Facts" && h.manner == floodsParts:
		_, _ = w.Write(append([]byte(`{"nics":[`), bytes.Repeat([]byte("{},"), (1<<20-16)/3)...))
		_, _ = w.Write([]byte("{}]}"))
	case call == "Facts" && h.manner == drips:
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			flush(w)
			<-time.After(time.Second)
		}
	default:
		body, err := io.ReadAll(answer.Body)
		if err == nil {
			_, _ = w.Write(h.paint(answer.StatusCode, body))
		}
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// stream passes on the events of a run: frames of five bytes and a message.
func (h hostileProxy) stream(w http.ResponseWriter, from io.Reader) {
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		body := make([]byte, be.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		if head[0]&2 == 0 { // not the trailer
			var e session.Event
			if json.Unmarshal(body, &e) == nil && h.event(w, e, body) {
				return
			}
			body = h.paint(http.StatusOK, body)
		}
		if !hostileFrame(w, head[0], body) {
			return
		}
	}
}

// event changes an event as the manner says; body is its message. It returns true after it has
// sent everything that the run will ever send.
func (h hostileProxy) event(w http.ResponseWriter, e session.Event, body []byte) bool {
	samples := func(n int) []byte {
		one := model.Sample{Host: model.Far, Direction: model.To, Metric: model.Goodput, Length: 1, Value: 1}
		b, _ := json.Marshal(session.Event{Kind: session.Samples, Samples: slices.Repeat(session.Block{one}, n)})
		return b
	}
	var more []byte
	switch h.manner {
	case neverEnds:
		for e.Kind == session.Measured || e.Kind == session.Result {
			<-time.After(time.Second)
			if !hostileFrame(w, 0, samples(1)) {
				return true
			}
		}
	case floodsMeasured:
		more = []byte(`{"kind":"measured"}`)
	case floodsSamples:
		more = samples(session.MaxSamples)
	default: // hostile elsewhere
	}
	if more == nil {
		return false
	}
	for ok := hostileFrame(w, 0, body); ok; {
		ok = hostileFrame(w, 0, more)
	}
	return true
}

// hostileFrame sends one message of a stream.
func hostileFrame(w http.ResponseWriter, flags byte, body []byte) bool {
	head := append([]byte{flags}, be.BigEndian.AppendUint32(nil, uint32(len(body)))...)
	_, err := w.Write(append(head, body...))
	flush(w)
	return err == nil
}

// paint puts escapes into every text of an answer, or into the text of a refusal.
func (h hostileProxy) paint(status int, body []byte) []byte {
	if h.manner != paints && h.manner != paintsRaw {
		return body
	}
	if status != http.StatusOK {
		// In JSON the text begins after the key.
		return bytes.Replace(body, []byte(`"message":"`), []byte(`"message":"`+"\\u001b[2J\\u009b31m\\u202e\\nlinerate: everything is fine\\n"), 1)
	}
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&m) != nil {
		return body
	}
	var e session.Event
	if json.Unmarshal(body, &e) == nil && e.Kind == session.Samples {
		for i := range e.Samples {
			e.Samples[i].Of += h.escapes()
		}
		m["samples"] = e.Samples
	}
	h.paintAll(m)
	painted, err := json.Marshal(m)
	if err != nil {
		return body
	}
	return painted
}

// escapes returns the text that is appended.
func (h hostileProxy) escapes() string {
	if h.manner == paintsRaw {
		return strings.ToValidUTF8(paintRaw, "\u009b") // JSON would replace it by other characters
	}
	return paintFair
}

// paintAll appends escapes to every text, except words of the protocol and significant names.
func (h hostileProxy) paintAll(v any) any {
	switch v := v.(type) {
	case string:
		return v + h.escapes()
	case []any:
		for i := range v {
			v[i] = h.paintAll(v[i])
		}
	case map[string]any:
		for name, value := range v {
			if !slices.Contains([]string{"metric", "knob", "host", "kind", "direction", "role", "state", "change", "time"}, name) {
				v[name] = h.paintAll(value)
			}
		}
	}
	return v
}
