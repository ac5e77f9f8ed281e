package main

import (
	"bytes"
	"context"
	be "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/stdio"
)

// hostileManner is what a hostile agent does. Between the controller and an honest
// agent, it passes on what both say, but for what it does to them.
type hostileManner string

const (
	floodsSamples  hostileManner = "samples"  // without end, as soon as a run is ready
	floodsMeasured hostileManner = "measured" // the same event without end
	floodsParts    hostileManner = "parts"    // a message of a megabyte that is half a million messages
	floodsBody     hostileManner = "body"     // an answer without end
	floodsStderr   hostileManner = "stderr"   // words without end beside the protocol
	floodsStdout   hostileManner = "stdout"   // words without end instead of the protocol
	drips          hostileManner = "drips"    // an answer one byte at a time
	neverEnds      hostileManner = "endless"  // a run that is not over when it is over
	paints         hostileManner = "paints"   // escapes in every text, as the protocol allows them
	paintsRaw      hostileManner = "raw"      // escapes in every text, which it does not
)

// hostileTarget is a HOST whose agent is hostile.
func hostileTarget(m hostileManner) string {
	return fmt.Sprintf("exec:127.0.0.1 env %s=hostile=%s %s", roleVar, m, os.Args[0])
}

// Texts that a terminal would obey, or a reader misread.
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
				return nil // the controller has had enough
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
	default: // hostile in what it answers
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

// hostileGreeting passes on what both ends say before HTTP/2; see session/greeting.go.
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
	var welcome sessionpb.HelloResponse
	if m == paints && proto.Unmarshal(body, &welcome) == nil {
		welcome.Version += paintFair
		if body, err = proto.Marshal(&welcome); err != nil {
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
	done  <-chan struct{} // the connection has ended
}

// Accept returns the connection, then waits for its end.
func (l *onlyConn) Accept() (net.Conn, error) {
	if l.first.CompareAndSwap(true, false) {
		return l.Conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Addr is the connection's own.
func (l *onlyConn) Addr() net.Addr { return l.LocalAddr() }

// hostileProxy stands between a controller and an honest agent.
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
	words := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	call := words[len(words)-1]
	switch {
	case call == "Run":
		h.stream(w, answer.Body)
	case call == "Facts" && h.manner == floodsBody:
		for endless := bytes.Repeat([]byte{0x0a}, 1<<16); ; {
			if _, err := w.Write(endless); err != nil {
				return
			}
		}
	case call == "Facts" && h.manner == floodsParts:
		// Fields 1 and 20 of FactsResponse and HostFacts: the facts, an interface.
		one := protowire.AppendBytes(protowire.AppendTag(nil, hostileNics(), protowire.BytesType), nil)
		facts := bytes.Repeat(one, (1<<20-16)/len(one))
		_, _ = w.Write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), facts))
	case call == "Facts" && h.manner == drips:
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte{0x0a})
			flush(w)
			<-time.After(time.Second)
		}
	default:
		body, err := io.ReadAll(answer.Body)
		if err == nil {
			_, _ = w.Write(h.paint(words, answer.StatusCode, body))
		}
	}
}

// hostileNics is the number of the field that holds the interfaces of a host.
func hostileNics() protowire.Number {
	return (&sessionpb.HostFacts{}).ProtoReflect().Descriptor().Fields().ByName("nics").Number()
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
			var e sessionpb.RunResponse
			if proto.Unmarshal(body, &e) == nil {
				if h.event(w, &e) {
					return
				}
				body, _ = proto.Marshal(&e)
			}
		}
		if !hostileFrame(w, head[0], body) {
			return
		}
	}
}

// event does what the manner demands to an event. It reports true when it sent all
// that the run will ever send.
func (h hostileProxy) event(w http.ResponseWriter, e *sessionpb.RunResponse) bool {
	var more *sessionpb.RunResponse
	switch h.manner {
	case paints, paintsRaw:
		h.paintAll(e.ProtoReflect())
	case neverEnds:
		for e.GetMeasured() != nil || e.GetResult() != nil {
			<-time.After(time.Second)
			one := &sessionpb.Sample{Direction: sessionpb.Direction_DIRECTION_TO, Metric: "goodput", LengthNs: 1, Value: 1}
			body, _ := proto.Marshal(&sessionpb.RunResponse{Event: &sessionpb.RunResponse_Samples{Samples: &sessionpb.Samples{Samples: []*sessionpb.Sample{one}}}})
			if !hostileFrame(w, 0, body) {
				return true
			}
		}
	case floodsMeasured:
		more = &sessionpb.RunResponse{Event: &sessionpb.RunResponse_Measured{Measured: &sessionpb.Measured{}}}
	case floodsSamples:
		list := &sessionpb.Samples{}
		for range 4096 {
			list.Samples = append(list.Samples, &sessionpb.Sample{Direction: sessionpb.Direction_DIRECTION_TO, Metric: "goodput", LengthNs: 1, Value: 1})
		}
		more = &sessionpb.RunResponse{Event: &sessionpb.RunResponse_Samples{Samples: list}}
	default: // hostile elsewhere
	}
	if more == nil {
		return false
	}
	first, _ := proto.Marshal(e)
	body, _ := proto.Marshal(more)
	for ok := hostileFrame(w, 0, first); ok; {
		ok = hostileFrame(w, 0, body)
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

// paint puts escapes into every text of an answer, or into the words of a refusal.
func (h hostileProxy) paint(path []string, status int, body []byte) []byte {
	if h.manner != paints && h.manner != paintsRaw {
		return body
	}
	if status != http.StatusOK {
		// JSON, in which a text begins after the key.
		return bytes.Replace(body, []byte(`"message":"`), []byte(`"message":"`+"\\u001b[2J\\u009b31m\\u202e\\nlinerate: everything is fine\\n"), 1)
	}
	service, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(path[0]))
	if err != nil {
		return body
	}
	method := service.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(path[1]))
	kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
	if err != nil {
		return body
	}
	m := kind.New()
	if proto.Unmarshal(body, m.Interface()) != nil {
		return body
	}
	h.paintAll(m)
	painted, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m.Interface())
	if err != nil {
		return body
	}
	return painted
}

// paintAll puts escapes behind every text of m but names that mean something: the
// raw ones only into what people read.
func (h hostileProxy) paintAll(m protoreflect.Message) {
	text := paintFair
	if h.manner == paintsRaw {
		text = strings.ToValidUTF8(paintRaw, "\u009b") // Protocol Buffers would refuse more
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				h.paintAll(v.List().Get(i).Message())
			}
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			for i := range v.List().Len() {
				v.List().Set(i, protoreflect.ValueOfString(v.List().Get(i).String()+text))
			}
		case f.IsList(), f.IsMap():
		case f.Message() != nil:
			h.paintAll(v.Message())
		case f.Kind() == protoreflect.StringKind && f.Name() != "metric" && f.Name() != "id" && f.Name() != "knob":
			m.Set(f, protoreflect.ValueOfString(v.String()+text))
		}
		return true
	})
}
