package main

import (
	"bytes"
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

// order says what a crowd of bad clients does.
type order struct {
	Attack  string
	Clients int
	Time    time.Duration
	Rate    int               // attempts a second of all clients together
	Server  string            // its address
	Ports   map[string]string // by listener: own, iperf3, iperf2, netpipe, udpstp
	Sources netip.Prefix      // each client has its own address in it, or a /64 of IPv6
	Victim  netip.Addr        // forged sender address
	Link    string            // for clients that have the secret
}

// tally counts what a crowd did.
type tally struct {
	Tries   int64            // attempts: connections or datagrams
	Forged  int64            // bytes sent in the victim's name
	Reached map[string]int64 // by attack, attempts that came as far as intended, shown by the server's answer
}

// hostile is one bad client of a crowd.
type hostile struct {
	order
	from   netip.Addr
	done   *tally
	pace   <-chan struct{}
	mu     *sync.Mutex // of done.Reached
	attack string      // the current one
}

// reached records that the server's behaviour shows that it has handled the attack.
func (h *hostile) reached() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done.Reached[h.attack]++
}

// attacks returns the attacks of a crowd, by name. Each makes one attempt and returns; those that
// hold something return when ctx ends or the server hangs up.
func attacks() map[string]func(h *hostile, ctx context.Context) {
	all := map[string]func(*hostile, context.Context){
		"silence":          (*hostile).silence,
		"drip":             (*hostile).drip,
		"half a record":    (*hostile).halfRecord,
		"tls and silence":  func(h *hostile, ctx context.Context) { h.inTLS(ctx, nil) },
		"noise in tls":     func(h *hostile, ctx context.Context) { h.inTLS(ctx, randomBytes) },
		"wrong secrets":    (*hostile).wrongSecret,
		"wrong tokens":     (*hostile).wrongToken,
		"half a preamble":  (*hostile).halfPreamble,
		"forged greetings": (*hostile).forgedGreeting,
		"forged iperf2":    (*hostile).forgedIperf2,
		"forged udpstp":    (*hostile).forgedUDPSTP,
		"openings":         (*hostile).opening,
		"drip openings":    (*hostile).dripOpening,
		"never reads":      (*hostile).neverReads,
		"greedy":           (*hostile).greedy,
	}
	for name, frames := range framesOfSessions() {
		all[name] = func(h *hostile, ctx context.Context) { h.inHTTP2(ctx, frames) }
	}
	for name, calls := range callsOfSessions() {
		all[name] = func(h *hostile, ctx context.Context) { h.calling(ctx, calls) }
	}
	return all
}

// attackNames returns the names of all attacks, in order.
func attackNames() []string {
	var names []string
	for name := range attacks() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// crowd runs the order in crowdVar and prints a tally.
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
	done := tally{Reached: map[string]int64{}}
	var mu sync.Mutex
	var clients sync.WaitGroup
	from := o.Sources.Addr()
	for range o.Clients {
		from = neighbour(from)
		h := &hostile{order: o, from: from, done: &done, pace: pace, mu: &mu}
		clients.Go(func() {
			for h.next(ctx) {
				name := o.Attack
				if name == "everything" {
					name = names[mathrand.IntN(len(names))]
				}
				h.attack = name
				all[name](h, ctx)
			}
		})
	}
	clients.Wait()
	return json.NewEncoder(os.Stdout).Encode(done)
}

// neighbour returns the next address that counts as another source.
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

// some returns one of the server's ports.
func (h *hostile) some() string {
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range h.Ports {
			if n != "udpstp" && !yield(n) { // it has no TCP
				return
			}
		}
	})
	return names[mathrand.IntN(len(names))]
}

// dial connects to a listener from the client's own address; nil if the server refuses.
func (h *hostile) dial(ctx context.Context, listener string) net.Conn {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: h.from.AsSlice()}, Timeout: 3 * time.Second}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(h.Server, h.Ports[listener]))
	if err != nil {
		return nil
	}
	context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return c
}

// hold keeps c until the server closes it, which shows that it has handled the client, or ctx
// ends.
func (h *hostile) hold(ctx context.Context, c net.Conn) {
	err := untilHungUp(c)
	if ctx.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		h.reached()
	}
}

// untilHungUp reads from c until that fails, and closes it.
func untilHungUp(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	_ = c.Close()
	return err
}

// friend opens sessions with the link in crowdVar until it is interrupted, and prints how long
// each took to get the host's facts, as JSON.
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
	p, err := tls.Dial(ctx, l, model.Egress{})
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
