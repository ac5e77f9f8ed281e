package main

import (
	"context"
	"crypto/rand"
	ctls "crypto/tls"
	"encoding/base64"
	endian "encoding/binary"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	copyflow "linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
)

func (h *hostile) silence(ctx context.Context) {
	if c := h.dial(ctx, h.some()); c != nil {
		hold(c)
	}
}

// dripped sends b slowly, a byte each quarter second.
func dripped(ctx context.Context, c net.Conn, b []byte) {
	defer func() { _ = c.Close() }()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for i := range b {
		if _, err := c.Write(b[i : i+1]); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *hostile) drip(ctx context.Context) {
	if c := h.dial(ctx, "own"); c != nil {
		dripped(ctx, c, append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 500)...))
	}
}

func (h *hostile) halfRecord(ctx context.Context) {
	c := h.dial(ctx, "own")
	if c == nil {
		return
	}
	b := make([]byte, 16<<10) // a ClientHello that says it has 64 KiB, the most that TLS allows
	copy(b, []byte{0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff})
	_, _ = c.Write(b)
	hold(c)
}

// inTLS makes a TLS connection like a client's, sends what write writes and holds it.
func (h *hostile) inTLS(ctx context.Context, write func(ctx context.Context, c net.Conn)) {
	raw := h.dial(ctx, "own")
	if raw == nil {
		return
	}
	c := ctls.Client(raw, &ctls.Config{InsecureSkipVerify: true, NextProtos: []string{"linerate/2"}, MinVersion: ctls.VersionTLS13})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return
	}
	if write != nil {
		write(ctx, c)
	}
	hold(c)
}

// The frames of HTTP/2 (RFC 9113 section 6) that are used here.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameWindow       = 8
	frameContinuation = 9
	endHeaders        = 4
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(endian.BigEndian.AppendUint32(b, stream), payload...)
}

// helloHeaders are the header block of a call of Hello (RFC 7541, literals only).
func helloHeaders() []byte {
	literal := func(b []byte, name, value string) []byte {
		b = append(b, 0, byte(len(name)))
		b = append(b, name...)
		b = append(b, byte(len(value)))
		return append(b, value...)
	}
	var b []byte
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/linerate.session.v1.SessionService/Hello"},
		{":authority", "session.linerate.invalid"}, {"content-type", "application/proto"}, {"connect-protocol-version", "1"},
	} {
		b = literal(b, f[0], f[1])
	}
	return b
}

func begin(c net.Conn) {
	_, _ = c.Write(append([]byte(preface), frame(frameSettings, 0, 0, nil)...))
}

// bodies opens as many calls as may be and sends as much of each body as is taken.
func bodies(ctx context.Context, c net.Conn) {
	begin(c)
	go func() { _, _ = io.Copy(io.Discard, c) }()
	for i := range uint32(16) {
		if _, err := c.Write(frame(frameHeaders, endHeaders, 2*i+1, helloHeaders())); err != nil {
			return
		}
	}
	full := make([]byte, 16<<10)
	for n := uint32(0); ctx.Err() == nil && n < 1024; n++ {
		if _, err := c.Write(frame(frameData, 0, 2*(n%16)+1, full)); err != nil {
			return
		}
	}
}

func continuations(ctx context.Context, c net.Conn) {
	begin(c)
	if _, err := c.Write(frame(frameHeaders, 0, 1, helloHeaders())); err != nil {
		return
	}
	one := append([]byte{0, 1, 'x', 127, 0x81, 0x7f}, make([]byte, 16000)...)
	for ctx.Err() == nil {
		if _, err := c.Write(frame(frameContinuation, 0, 1, one)); err != nil {
			return
		}
	}
}

func rapidResets(ctx context.Context, c net.Conn) {
	begin(c)
	for stream := uint32(1); ctx.Err() == nil && stream < 20000; stream += 2 {
		b := append(frame(frameHeaders, endHeaders, stream, helloHeaders()), frame(frameReset, 0, stream, []byte{0, 0, 0, 8})...)
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// pings asks for signs of life without reading them, with settings and windows
// between, for each of which the server owes an answer.
func pings(ctx context.Context, c net.Conn) {
	begin(c)
	b := slices.Concat(frame(framePing, 0, 0, make([]byte, 8)), frame(frameSettings, 0, 0, nil), frame(frameWindow, 0, 0, []byte{0, 0, 0, 1}))
	for n := 0; ctx.Err() == nil && n < 20000; n++ {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

func randomBytes(_ context.Context, c net.Conn) {
	b := make([]byte, mathrand.IntN(64<<10))
	_, _ = rand.Read(b)
	_, _ = c.Write(b)
}

func (h *hostile) wrongSecret(ctx context.Context) {
	l, err := tls.ParseLink(h.Link)
	if err != nil {
		return
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	l.Secret = base64.RawURLEncoding.EncodeToString(secret)
	if c, err := h.session(ctx, l); err == nil {
		_, _ = c.Close(ctx)
	}
}

// session opens a session from the client's own address.
func (h *hostile) session(ctx context.Context, l tls.Link) (*session.Client, error) {
	raw := h.dial(ctx, "own")
	if raw == nil {
		return nil, errors.New("no connection")
	}
	c := ctls.Client(raw, &ctls.Config{InsecureSkipVerify: true, NextProtos: []string{"linerate/2"}, MinVersion: ctls.VersionTLS13})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	secret, err := base64.RawURLEncoding.DecodeString(l.Secret)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return session.Open(ctx, wire.Peer{Control: c, Name: h.Server, DataHost: h.Server, Secret: secret},
		session.Options{Host: model.Far, Version: "v0.0.0"})
}

// preambleOf is a data connection's first words with a token that nobody has.
func preambleOf() []byte {
	b := append([]byte("lr-data1"), make([]byte, 36)...)
	_, _ = rand.Read(b[8:40])
	return b
}

func (h *hostile) wrongToken(ctx context.Context) {
	if c := h.dial(ctx, "own"); c != nil {
		_, _ = c.Write(preambleOf())
		hold(c)
	}
}

func (h *hostile) halfPreamble(ctx context.Context) {
	if c := h.dial(ctx, "own"); c != nil {
		dripped(ctx, c, preambleOf())
	}
}

// forge sends datagrams in the victim's name.
func (h *hostile) forge(ctx context.Context, listener string, payloads ...[]byte) {
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: h.Victim.AsSlice()}}
	c, err := d.DialContext(ctx, "udp", net.JoinHostPort(h.Server, h.Ports[listener]))
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	for _, b := range payloads {
		if n, err := c.Write(b); err == nil {
			atomic.AddInt64(&h.done.Forged, int64(n))
		}
	}
}

// forgedGreeting says hello for the victim, with every form of hello that there was.
func (h *hostile) forgedGreeting(ctx context.Context) {
	var all [][]byte
	for _, magic := range []string{"lr-udp-1", "lr-udp-2", "lr-udp-3", "lr-udp-4"} {
		for _, size := range []int{36, 52, 60, 68, 84} {
			b := append([]byte(magic), make([]byte, size)...)
			_, _ = rand.Read(b[8:40])
			all = append(all, b)
		}
	}
	h.forge(ctx, "own", all...)
}

// forgedIperf2 asks an iperf 2 server for reverse UDP in the victim's name: the
// header of a datagram (sequence, seconds, microseconds), then the client's
// header with its flags (docs/wire/iperf2.md).
func (h *hostile) forgedIperf2(ctx context.Context) {
	var all [][]byte
	for sequence := range int32(3) {
		for _, flags := range []uint32{0x80000001, 0xc0000000, 0x80000000 | 1<<26, 0xffffffff} {
			b := endian.BigEndian.AppendUint32(nil, uint32(sequence))
			b = append(b, make([]byte, 12)...)
			for _, word := range []uint32{flags, 1, 5001, 1470, 1000000000, 10000, 0, 0} {
				b = endian.BigEndian.AppendUint32(b, word)
			}
			all = append(all, append(b, make([]byte, 1470-len(b))...))
		}
	}
	final := endian.BigEndian.AppendUint32(nil, 0xfffffff0) // a negative number ends a test
	h.forge(ctx, "iperf2", append(all, append(final, make([]byte, 1466)...))...)
}

// firstWords are what real clients say first, by listener.
func firstWords() map[string][]byte {
	params := `{"tcp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":1,"len":131072,"pacing_timer":1000,"client_version":"3.12"}`
	huge := endian.BigEndian.AppendUint32([]byte("abcdefghijklmnopqrstuvwxyz0123456789\x00"), 1<<31-1)
	return map[string][]byte{
		"iperf3":  append([]byte("abcdefghijklmnopqrstuvwxyz0123456789\x00"), append(endian.BigEndian.AppendUint32(nil, uint32(len(params))), params...)...),
		"iperf2":  append([]byte{0x80, 0, 0, 0, 0, 0, 0, 1}, make([]byte, 60)...),
		"netpipe": []byte("SyncMe"),
		"own":     append(huge, strings.Repeat("9", 4<<10)...),
	}
}

func (h *hostile) opening(ctx context.Context) {
	listener := h.some()
	if c := h.dial(ctx, listener); c != nil {
		_, _ = c.Write(firstWords()[listener])
		hold(c)
	}
}

func (h *hostile) dripOpening(ctx context.Context) {
	listener := h.some()
	if c := h.dial(ctx, listener); c != nil {
		dripped(ctx, c, firstWords()[listener])
	}
}

func (h *hostile) neverReads(ctx context.Context) {
	listener := h.some()
	c := h.dial(ctx, listener)
	if c == nil {
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.(*net.TCPConn).SetReadBuffer(1 << 10)
	_, _ = c.Write(firstWords()[listener])
	<-ctx.Done()
}

// greedy has the right secret, or none is asked, and wants all that there is.
func (h *hostile) greedy(ctx context.Context) {
	l, err := tls.ParseLink(h.Link)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c, err := h.session(ctx, l)
	if err != nil {
		return
	}
	defer func() { _, _ = c.Close(context.WithoutCancel(ctx)) }()
	for i, f := range []model.Flow{
		{Engine: "filecopy", Direction: model.From, Streams: 1, Bytes: 6 << 30, Params: traffic.Write(copyflow.Params{Source: copyflow.InMemory, Sink: copyflow.InMemory})},
		{Engine: "filecopy", Direction: model.From, Streams: 1, Params: traffic.Write(copyflow.Params{Source: copyflow.OnDisk, Sink: copyflow.OnDisk})},
		{Engine: "tcpbulk", Direction: model.Both, Streams: 1000, Block: units.Bytes(64 << 20), Duration: time.Hour, Interval: time.Second},
		{Engine: "tcpbulk", Direction: model.To, Streams: 16, Duration: time.Minute, Interval: time.Millisecond},
	} {
		p := session.Preparation{Run: uint64(i) + 1, Flow: f}
		_, _ = rand.Read(p.Token[:])
		_, _ = c.Prepare(ctx, p)
	}
	<-ctx.Done()
}
