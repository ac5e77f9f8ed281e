package main

import (
	"context"
	"crypto/rand"
	ctls "crypto/tls"
	"encoding/base64"
	endian "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
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

// crowdVar holds the order, as JSON, of the role "crowd".
const crowdVar = "LINERATE_TEST_CROWD"

// order is what a crowd of bad clients shall do.
type order struct {
	Attack  string
	Clients int
	Time    time.Duration
	Rate    int               // tries a second of all clients together
	Server  string            // its address
	Ports   map[string]string // by listener: own, iperf3, iperf2, netpipe
	Sources netip.Prefix      // each client comes from an address of its own in it, or a /64 of IPv6
	Victim  netip.Addr        // whose address is forged
	Link    string            // for clients that have the secret
}

// tally is what a crowd did.
type tally struct {
	Tries  int64 // connections or datagrams
	Forged int64 // bytes sent in the victim's name
}

// hostile is one bad client of a crowd.
type hostile struct {
	order
	from netip.Addr
	done *tally
	pace <-chan struct{}
}

// attacks are the ways of a crowd, by name. Each does one try and returns; those
// that hold something return when ctx ends or the server hangs up.
func attacks() map[string]func(h *hostile, ctx context.Context) {
	return map[string]func(*hostile, context.Context){
		"silence":          (*hostile).silence,
		"drip":             (*hostile).drip,
		"half a record":    (*hostile).halfRecord,
		"tls and silence":  func(h *hostile, ctx context.Context) { h.inTLS(ctx, nil) },
		"bodies":           func(h *hostile, ctx context.Context) { h.inTLS(ctx, bodies) },
		"continuations":    func(h *hostile, ctx context.Context) { h.inTLS(ctx, continuations) },
		"rapid resets":     func(h *hostile, ctx context.Context) { h.inTLS(ctx, rapidResets) },
		"pings":            func(h *hostile, ctx context.Context) { h.inTLS(ctx, pings) },
		"noise in tls":     func(h *hostile, ctx context.Context) { h.inTLS(ctx, randomBytes) },
		"wrong secrets":    (*hostile).wrongSecret,
		"wrong tokens":     (*hostile).wrongToken,
		"half a preamble":  (*hostile).halfPreamble,
		"forged greetings": (*hostile).forgedGreeting,
		"forged iperf2":    (*hostile).forgedIperf2,
		"openings":         (*hostile).opening,
		"drip openings":    (*hostile).dripOpening,
		"never reads":      (*hostile).neverReads,
		"greedy":           (*hostile).greedy,
	}
}

// attackNames are all ways by name, in order.
func attackNames() []string {
	var names []string
	for name := range attacks() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// crowd does what crowdVar says and prints a tally.
func crowd(ctx context.Context) error {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(crowdVar)), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Time)
	defer cancel()
	all := attacks()
	names := attackNames()
	if _, ok := all[o.Attack]; !ok && o.Attack != "everything" {
		return fmt.Errorf("no attack %q", o.Attack)
	}
	pace := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second / time.Duration(o.Rate))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			select {
			case pace <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	var done tally
	var clients sync.WaitGroup
	from := o.Sources.Addr()
	for range o.Clients {
		from = neighbour(from)
		h := &hostile{order: o, from: from, done: &done, pace: pace}
		clients.Go(func() {
			for h.next(ctx) {
				name := o.Attack
				if name == "everything" {
					name = names[mathrand.IntN(len(names))]
				}
				all[name](h, ctx)
			}
		})
	}
	clients.Wait()
	return json.NewEncoder(os.Stdout).Encode(done)
}

// neighbour is the next address that counts as somebody else.
func neighbour(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a.Next()
	}
	b := a.As16()
	endian.BigEndian.PutUint64(b[:8], endian.BigEndian.Uint64(b[:8])+1)
	b[15] = 1
	return netip.AddrFrom16(b)
}

// next waits for the client's turn; false ends it.
func (h *hostile) next(ctx context.Context) bool {
	select {
	case <-h.pace:
		atomic.AddInt64(&h.done.Tries, 1)
		return true
	case <-ctx.Done():
		return false
	}
}

// some is one of the server's ports.
func (h *hostile) some() string {
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range h.Ports {
			if !yield(n) {
				return
			}
		}
	})
	return names[mathrand.IntN(len(names))]
}

// dial connects to a listener from the client's own address; nil where the
// server does not want it.
func (h *hostile) dial(ctx context.Context, listener string) net.Conn {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: h.from.AsSlice()}, Timeout: 3 * time.Second}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(h.Server, h.Ports[listener]))
	if err != nil {
		return nil
	}
	context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return c
}

// hold keeps c until the server closes it or ctx ends.
func hold(c net.Conn) {
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

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

// friend opens sessions with the link in crowdVar until it is interrupted, and
// prints how long each took until the host's facts were there, as JSON.
func friend(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	l, err := tls.ParseLink(os.Getenv(crowdVar))
	if err != nil {
		return err
	}
	took := []time.Duration{}
	for ctx.Err() == nil {
		began := time.Now()
		if err := visit(context.WithoutCancel(ctx), l); err != nil {
			return fmt.Errorf("after %v: %w", time.Since(began), err)
		}
		took = append(took, time.Since(began))
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return json.NewEncoder(os.Stdout).Encode(took)
}

// visit opens a session, reads the host's facts and closes it.
func visit(ctx context.Context, l tls.Link) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	p, err := tls.Dial(ctx, l)
	if err != nil {
		return err
	}
	c, err := session.Open(ctx, p, session.Options{Host: model.Far, Version: "v0.0.0"})
	if err != nil {
		return err
	}
	_, err = c.Facts(ctx, "")
	_, closing := c.Close(ctx)
	return errors.Join(err, closing)
}
