package main

import (
	"bytes"
	"context"
	"encoding/base64"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"linerate/internal/control/session"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
)

// Attacks on the requests that an agent handles in a session: each greets like a client first,
// with the link's secret if it has one.

const (
	applyCall = "/linerate.session/Apply"
	runCall   = "/linerate.session/Run"
)

// greeted opens TLS and sends the hello; nil if the server does not admit the client.
func (h *hostile) greeted(ctx context.Context) net.Conn {
	l, err := tls.ParseLink(h.Link)
	if err != nil {
		return nil
	}
	secret, err := base64.RawURLEncoding.DecodeString(l.Secret)
	if err != nil {
		return nil
	}
	hello, err := json.Marshal(session.Hello{Protocol: session.Protocol, Version: "v0.0.0", Host: model.Far, Secret: secret})
	if err != nil {
		return nil
	}
	c := h.secure(ctx)
	if c == nil {
		return nil
	}
	head := make([]byte, len("lr-reply")+3)
	_, err = c.Write(append(endian.BigEndian.AppendUint16([]byte("lr-hello"), uint16(len(hello))), hello...))
	if err == nil {
		_, err = io.ReadFull(c, head)
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, c, int64(endian.BigEndian.Uint16(head[len(head)-2:])))
	}
	if err != nil || head[len("lr-reply")] != 0 {
		_ = c.Close()
		return nil
	}
	return c
}

// conversation is handwritten HTTP/2 in a session, with the server's answers.
type conversation struct {
	*http2.Framer
	mu       sync.Mutex
	statuses map[string]int
	acks     int // of pings
	settings int // of the server
	ended    bool
	changed  chan struct{}
}

// inHTTP2 opens HTTP/2 in a session and sends frames. It holds the connection until the server
// has answered all of them or ended it, which is what the attack has to reach.
func (h *hostile) inHTTP2(ctx context.Context, frames func(ctx context.Context, v *conversation) error) {
	c := h.greeted(ctx)
	if c == nil {
		return
	}
	v := &conversation{Framer: http2.NewFramer(c, c), statuses: map[string]int{}, changed: make(chan struct{}, 1)}
	v.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var reading sync.WaitGroup
	reading.Go(v.listen)
	defer reading.Wait()
	defer func() { _ = c.Close() }()
	_, err := io.WriteString(c, http2.ClientPreface)
	if err == nil {
		err = v.WriteSettings()
	}
	if err != nil || !v.until(ctx, func() bool { return v.settings > 0 }) {
		return // the server has not started HTTP/2
	}
	if err = frames(ctx, v); err == nil {
		v.mu.Lock()
		before := v.acks
		v.mu.Unlock()
		_ = v.WritePing(false, [8]byte{'l', 'a', 's', 't'}) // frames are handled in order
		v.until(ctx, func() bool { return v.acks > before })
	}
	v.mu.Lock()
	met := v.ended || v.acks > 0 || len(v.statuses) > 0
	v.mu.Unlock()
	if met && ctx.Err() == nil {
		h.reached()
	}
	select { // hold everything for a moment
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

// listen records the server's frames until the connection ends.
func (v *conversation) listen() {
	for {
		f, err := v.ReadFrame()
		v.mu.Lock()
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			v.statuses[f.PseudoValue("status")]++
		case *http2.PingFrame:
			v.acks++
		case *http2.SettingsFrame:
			v.settings++
		case *http2.GoAwayFrame:
			v.ended = true
		}
		if err != nil {
			v.ended = true
		}
		v.mu.Unlock()
		select {
		case v.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// until waits for the server's frames, for the end of the connection or of ctx, and reports
// whether ok became true.
func (v *conversation) until(ctx context.Context, ok func() bool) bool {
	for {
		v.mu.Lock()
		good, ended := ok(), v.ended
		v.mu.Unlock()
		if good || ended {
			return good
		}
		select {
		case <-v.changed:
		case <-ctx.Done():
			return false
		}
	}
}

// fields returns a header block (RFC 7541).
func fields(list ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i+1 < len(list); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1]})
	}
	return b.Bytes()
}

// opens returns the headers of a call.
func opens(path, kind string, more ...string) []byte {
	return fields(append([]string{
		":method", "POST", ":scheme", "http", ":path", path, ":authority", "session.linerate.invalid", "content-type", kind, "connect-protocol-version", "1",
	}, more...)...)
}

const (
	honestKind   = "application/json"
	honestStream = "application/connect+json"
)

// framesOfSessions returns attacks with frames, by name. An error means that the server ended.
func framesOfSessions() map[string]func(ctx context.Context, v *conversation) error {
	open := func(v *conversation, stream uint32, block []byte, last bool) error {
		return v.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true, EndStream: last})
	}
	const few = 20000
	return map[string]func(context.Context, *conversation) error{
		// As many calls as allowed, with a part of each body.
		"bodies": func(_ context.Context, v *conversation) error {
			for i := range uint32(16) {
				if err := open(v, 2*i+1, opens(applyCall, honestKind), false); err != nil {
					return err
				}
			}
			for i := range uint32(16) {
				if err := v.WriteData(2*i+1, false, make([]byte, 3<<10)); err != nil {
					return err
				}
			}
			return nil
		},
		"continuations": func(ctx context.Context, v *conversation) error {
			block := opens(applyCall, honestKind)
			if err := v.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block}); err != nil {
				return err
			}
			one := append([]byte{0, 1, 'x', 127, 0x81, 0x7f}, make([]byte, 16000)...)
			for n := 0; ctx.Err() == nil && n < few; n++ {
				if err := v.WriteContinuation(1, false, one); err != nil {
					return err
				}
			}
			return nil
		},
		"rapid resets": func(ctx context.Context, v *conversation) error {
			for stream := uint32(1); ctx.Err() == nil && stream < few; stream += 2 {
				if err := open(v, stream, opens(applyCall, honestKind), false); err != nil {
					return err
				}
				if err := v.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
					return err
				}
			}
			return nil
		},
		// Pings, settings and windows, each of which the server has to answer.
		"pings": func(ctx context.Context, v *conversation) error {
			for n := 0; ctx.Err() == nil && n < few; n++ {
				if err := v.WritePing(false, [8]byte{}); err != nil {
					return err
				}
				if err := v.WriteSettings(); err != nil {
					return err
				}
				if err := v.WriteWindowUpdate(0, 1); err != nil {
					return err
				}
			}
			return nil
		},
		"a thousand headers": func(_ context.Context, v *conversation) error {
			var more []string
			for i := range 1000 {
				more = append(more, fmt.Sprintf("x%d", i), "")
			}
			block := opens(applyCall, honestKind, more...)
			return open(v, 1, block[:min(len(block), 16<<10)], true)
		},
		"trailers": func(_ context.Context, v *conversation) error {
			for i := range uint32(16) {
				if err := open(v, 2*i+1, opens(applyCall, honestKind, "trailer", "a"), false); err != nil {
					return err
				}
				if err := open(v, 2*i+1, fields("a", strings.Repeat("x", 4000)), true); err != nil {
					return err
				}
			}
			return nil
		},
		"envelopes": func(_ context.Context, v *conversation) error {
			if err := open(v, 1, opens(runCall, honestStream), false); err != nil {
				return err
			}
			return v.WriteData(1, true, bytes.Repeat([]byte("\x00\x00\x00\x00\x09{\"run\":1}"), 1000))
		},
		"noise in http2": func(_ context.Context, v *conversation) error {
			b := make([]byte, 1<<10)
			for i := range b {
				b[i] = byte(mathrand.IntN(256))
			}
			return v.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, b)
		},
	}
}

// aCall is an attack by a call that keeps the rules of HTTP/2.
type aCall struct {
	path    string
	headers []string
	begin   string // of the body
	again   string // then repeated this many times
	times   int
	end     string
	status  int // status that shows that the server has handled it; 0 is any but 415
}

// callsOfSessions returns attacks with calls, by name: every kind that connect answers, and
// mixtures, with bodies of 32 MiB that are cheap to send and expensive to decode.
func callsOfSessions() map[string][]aCall {
	const much = 32 << 20
	kind := func(path, media, begin, again string, more ...string) aCall {
		return aCall{path: path, headers: append([]string{"Content-Type", media}, more...), begin: begin, again: again, times: much / len(again), status: http.StatusUnsupportedMediaType}
	}
	const begin, part, end = `{"terms":{"within_ns":1000000000},"assignments":[{}`, `,{}`, `]}`
	honest := func(times int, part, end string) []aCall {
		return []aCall{{path: applyCall, headers: []string{"Content-Type", honestKind}, begin: begin, again: part, times: times, end: end}}
	}
	framed := "\x00\x02\x00\x00\x00" // an envelope of 32 MiB
	all := map[string][]aCall{
		"proto":           {kind(applyCall, "application/proto", "", "\x0a\x00")},
		"proto streams":   {kind(runCall, "application/connect+proto", framed, "\x0a\x00")},
		"grpc":            {kind(applyCall, "application/grpc", framed, "\x0a\x00", "Te", "trailers"), kind(applyCall, "application/grpc+json", framed+begin, part, "Te", "trailers")},
		"grpc-web":        {kind(applyCall, "application/grpc-web+proto", framed, "\x0a\x00"), kind(runCall, "application/grpc-web+json", framed+begin, part)},
		"compressed":      {kind(applyCall, honestKind, "\x1f\x8b\x08", "\x00", "Content-Encoding", "gzip"), kind(runCall, honestStream, "\x01", "\x00", "Connect-Content-Encoding", "gzip")},
		"many parts":      honest(255, part, end),
		"large parts":     honest(255, `,{"host":"far","knob":"cmd:x","value":"on","command":{"run":"`+strings.Repeat(`\n`, 400)+`","undo":"x","limit_ns":1}}`, end),
		"too many parts":  honest(80000, part, end),
		"endless message": honest(much/len(part), part, ""),
		"deep":            honest(100000, `,[`, ""),
		"endless text":    honest(250000, `a`, ""),
	}
	var mixture []aCall
	for _, calls := range all {
		mixture = append(mixture, calls...)
	}
	all["all kinds of calls"] = mixture
	return all
}

// calling makes calls in a session, sixteen at a time, until one was handled and some seconds
// have passed.
func (h *hostile) calling(ctx context.Context, calls []aCall) {
	c := h.greeted(ctx)
	if c == nil {
		return
	}
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil },
		Protocols:   &p, DisableCompression: true,
	}
	cc, err := transport.NewClientConn(ctx, "http", "session.linerate.invalid:80")
	if err != nil {
		_ = c.Close()
		return
	}
	defer func() { _ = cc.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				met, err := calls[n%len(calls)].do(ctx, cc)
				if met {
					h.reached()
				}
				if err != nil && ctx.Err() == nil {
					return
				}
			}
		})
	}
	all.Wait()
}

// do makes the call, and reports whether the server has handled it.
func (a aCall) do(ctx context.Context, cc *http.ClientConn) (met bool, err error) {
	again := io.LimitReader(&endless{text: []byte(a.again)}, int64(a.times*len(a.again)))
	body := io.MultiReader(strings.NewReader(a.begin), again, strings.NewReader(a.end))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://session.linerate.invalid"+a.path, body)
	if err != nil {
		return false, err
	}
	for i := 0; i+1 < len(a.headers); i += 2 {
		r.Header.Set(a.headers[i], a.headers[i+1])
	}
	answer, err := cc.RoundTrip(r)
	if err != nil {
		return false, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	_ = answer.Body.Close()
	if a.status == 0 {
		return answer.StatusCode != http.StatusUnsupportedMediaType, nil
	}
	return answer.StatusCode == a.status, nil
}

// endless repeats a text without end.
type endless struct {
	text []byte
	at   int
}

func (r *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(b), nil
}
