package main

import (
	"bytes"
	"context"
	"crypto/rand"
	ctls "crypto/tls"
	"encoding/base64"
	endian "encoding/binary"
	"errors"
	mathrand "math/rand/v2"
	"net"
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
		h.hold(ctx, c)
	}
}

// dripped sends b slowly, a byte every quarter second, until the server hangs up.
func (h *hostile) dripped(ctx context.Context, c net.Conn, b []byte) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.hold(ctx, c)
	}()
	defer func() { <-ended }()
	defer func() { _ = c.SetReadDeadline(time.Now().Add(15 * time.Second)) }()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for i := range b {
		if _, err := c.Write(b[i : i+1]); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (h *hostile) drip(ctx context.Context) {
	if c := h.dial(ctx, "own"); c != nil {
		h.dripped(ctx, c, append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 500)...))
	}
}

func (h *hostile) halfRecord(ctx context.Context) {
	c := h.dial(ctx, "own")
	if c == nil {
		return
	}
	b := make([]byte, 16<<10) // a ClientHello that claims 64 KiB, the most that TLS allows
	copy(b, []byte{0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff})
	_, _ = c.Write(b)
	h.hold(ctx, c)
}

// secure makes a TLS connection like a client's; nil if the server refuses.
func (h *hostile) secure(ctx context.Context) net.Conn {
	raw := h.dial(ctx, "own")
	if raw == nil {
		return nil
	}
	c := ctls.Client(raw, &ctls.Config{InsecureSkipVerify: true, NextProtos: []string{"linerate"}, MinVersion: ctls.VersionTLS13})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil
	}
	return c
}

// inTLS makes a TLS connection, calls write and holds the connection.
func (h *hostile) inTLS(ctx context.Context, write func(ctx context.Context, c net.Conn)) {
	c := h.secure(ctx)
	if c == nil {
		return
	}
	if write != nil {
		write(ctx, c)
	}
	h.hold(ctx, c)
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
	c, err := h.session(ctx, l)
	switch {
	case err == nil: // an open server needs no secret
		h.reached()
		_, _ = c.Close(ctx)
	case strings.Contains(err.Error(), "the secret is wrong"):
		h.reached()
	}
}

// session opens a session from the client's own address.
func (h *hostile) session(ctx context.Context, l tls.Link) (*session.Client, error) {
	c := h.secure(ctx)
	if c == nil {
		return nil, errors.New("no connection")
	}
	secret, err := base64.RawURLEncoding.DecodeString(l.Secret)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return session.Open(ctx, wire.Peer{Control: c, Name: h.Server, DataHost: h.Server, Secret: secret},
		session.Options{Host: model.Far, Version: "v0.0.0"})
}

// preambleOf returns a data connection's preamble with an unknown token.
func preambleOf() []byte {
	b := append([]byte("lr-data1"), make([]byte, 36)...)
	_, _ = rand.Read(b[8:40])
	return b
}

func (h *hostile) wrongToken(ctx context.Context) {
	if c := h.dial(ctx, "own"); c != nil {
		_, _ = c.Write(preambleOf())
		h.hold(ctx, c)
	}
}

func (h *hostile) halfPreamble(ctx context.Context) {
	if c := h.dial(ctx, "own"); c != nil {
		h.dripped(ctx, c, preambleOf())
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
			h.reached() // the test checks whether the server has read it
		}
	}
}

// forgedGreeting sends greetings for the victim, in every form that ever existed.
func (h *hostile) forgedGreeting(ctx context.Context) {
	var all [][]byte
	for _, magic := range []string{"lr-udp-1", "lr-udp-2"} {
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

// forgedUDPSTP asks a UDPSTP server for flows in the victim's name, and activates them at
// ports that it guesses, downstream at the highest row (docs/wire/udpstp.md).
func (h *hostile) forgedUDPSTP(ctx context.Context) {
	setup := make([]byte, 56)
	activation := make([]byte, 104)
	copy(activation, "\xAC\xE2\x00\x14\x02\x00\x00\x1e\x00\x5a\x00\x32\x00\x3c\x00\x00\x04\x80")
	var all [][]byte
	for index := range byte(16) {
		copy(setup, "\xAC\xE1\x00\x14")
		setup[4], setup[5], setup[8], setup[14] = index, 16, 1, 1
		_, _ = rand.Read(setup[6:8])
		all = append(all, bytes.Clone(setup))
	}
	h.forge(ctx, "udpstp", append(all, activation)...)
	d := net.ListenConfig{}
	c, err := d.ListenPacket(ctx, "udp", net.JoinHostPort(h.Victim.String(), "0"))
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	for range 1000 {
		to := &net.UDPAddr{IP: net.ParseIP(h.Server), Port: 32768 + mathrand.IntN(28232)} // ip-sysctl, ip_local_port_range
		if n, err := c.WriteTo(activation, to); err == nil {
			atomic.AddInt64(&h.done.Forged, int64(n))
		}
	}
}

// firstWords returns the first bytes of real clients, by listener.
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
		h.hold(ctx, c)
	}
}

func (h *hostile) dripOpening(ctx context.Context) {
	listener := h.some()
	if c := h.dial(ctx, listener); c != nil {
		h.dripped(ctx, c, firstWords()[listener])
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
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	h.hold(ctx, c)
}

// greedy has the right secret, or needs none, and asks for everything.
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
		if _, err := c.Prepare(ctx, p); !errors.Is(err, session.ErrLost) && ctx.Err() == nil {
			h.reached()
		}
	}
	<-ctx.Done()
}
