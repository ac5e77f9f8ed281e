// Package tls carries sessions over TLS 1.3 to a linerate serve: a server with
// one port, TCP for control and data, UDP for data.
//
// The first byte of a connection identifies it: 0x16 begins a TLS record (RFC 8446 section 5.1)
// and so a session, data.FirstByte a data connection of a waiting run. Anything else is closed.
//
// A client verifies the server by the pin of its key, and presents the secret of the join link
// inside TLS. An anonymous client costs one connection for the duration of a handshake, and
// nothing else.
package tls

import (
	"cmp"
	"context"
	ctls "crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/session"
	"linerate/internal/control/wire/data"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
)

// Defaults of servers; the limits of anonymous clients are budget.AnonymousRun.
const (
	defaultIdle  = 10 * time.Minute
	defaultHello = 3 * time.Second // to send the hello, after TLS is set up
)

// slowRefusal is how long a wrong secret waits for its answer. A guesser is limited by the
// number of connections that may wait at a time, and slows no other client down. The secret has
// 256 bits, so this only keeps the noise down.
const slowRefusal = 500 * time.Millisecond

// firstRecord is the content type of a TLS handshake record.
const firstRecord = 0x16

// Config configures a server. Identity and Agent are required.
type Config struct {
	Identity Identity
	// Open lets any client measure, without a secret but with limits.
	Open bool
	// Agent is the agent of every session, unless Welcome changes it. The server replaces its
	// Admit and Data; its Limits may be tighter than the server's, not wider.
	Agent agent.Config
	// Budget is shared by all sessions, and with other servers of this process; nil is
	// unlimited. It alone decides which sessions may run at the same time. On an open server,
	// sessions without a key are anonymous clients'.
	Budget *budget.Budget
	// Find, if set, looks up the accepted secrets; nil accepts Identity's secret, as
	// DefaultKey.
	Find Find
	// Welcome, if set, is called for each admitted session before its first call, and adapts c
	// to that session, for example c.Facts to its path. The server's limits still apply.
	Welcome func(v Visitor, c *agent.Config)
	// Unknown is how many unidentified connections may be open at a time, and Friends how many
	// from addresses with a session; 0 is 1024 and 512. These are all the descriptors that the
	// server uses besides those that Budget gives to sessions, its ports and a spare one.
	Unknown, Friends int
	// Peers are hosts that sessions may measure with, besides the addresses that they come from.
	Peers []netip.Prefix
	// Web, if set, answers HTTPS requests on the port. It calls Admit for those whose client it
	// knows, before it reads a body.
	Web http.Handler
	// MPTCP accepts Multipath TCP (RFC 8684) from clients that request it.
	MPTCP bool
	// Handshake is how long a connection may take to identify itself; 0 is 10 s.
	Handshake time.Duration
	// Log, if set, receives the server's own problems, one line each.
	Log func(line string)
	// Refused, if set, is called for each client that was turned away, by its hello or a failed
	// TLS handshake, with the reason.
	Refused func(from netip.Addr, err error)
	// Dropped, if set, is called for each connection that was closed before it identified
	// itself, with the reason, one of few errors. Anonymous clients can cause any number of
	// these. It must not block.
	Dropped func(from netip.Addr, why error)
	// Ended, if set, is called with the outcome of each admitted session; err is nil if it
	// ended well.
	Ended func(v Visitor, took time.Duration, err error)
}

// Visitor is the client of a session.
type Visitor struct {
	// Number counts the sessions that this server has admitted, from 1.
	Number uint64
	Key    Key
	Addr   netip.Addr // where the session comes from

	// Secret is the secret that it presented: that of Key, or whatever an anonymous client of an
	// open server sent.
	Secret []byte
}

// Server is a listening linerate serve.
type Server struct {
	config   Config
	listener net.Listener
	tls      *ctls.Config
	router   data.Router
	udp      *data.UDPRouter
	find     Find
	port     int
	door     *door
	gate     *gate
	running  sync.WaitGroup
	admitted atomic.Uint64 // sessions
	web      *web          // nil without Config.Web
}

// Listen opens the server's port at addr, "host:port". The caller calls Serve.
func Listen(ctx context.Context, addr string, c Config) (*Server, error) {
	if len(c.Identity.Certificate.Certificate) == 0 || len(c.Identity.Secret) == 0 && c.Find == nil {
		return nil, errors.New("listen: the server has no identity")
	}
	if c.Handshake <= 0 {
		c.Handshake = handshakeTimeout
	}
	l, udp, err := bind(ctx, addr, c.MPTCP)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: limited(c), listener: l, udp: udp, port: udp.Port(),
		gate: newGate(runtime.GOMAXPROCS(0) / 2), // the other half of the CPUs is for runs
		tls: &ctls.Config{
			MinVersion: ctls.VersionTLS13, Certificates: []ctls.Certificate{c.Identity.Certificate},
			NextProtos: []string{alpn}, SessionTicketsDisabled: true,
		},
	}
	if c.Web != nil {
		s.tls.NextProtos, s.tls.ClientAuth = append(s.tls.NextProtos, alpnWeb), ctls.RequestClientCert
	}
	s.door = newDoor(s.config.Unknown, s.config.Friends, s.dropped)
	if s.find = c.Find; s.find == nil {
		s.find = only(c.Identity.Secret)
	}
	return s, nil
}

// portTries is how often the system is asked for a port number.
const portTries = 16

// bind opens addr for TCP and UDP on the same port, so that one firewall rule covers both. If
// the system chooses the port, bind asks again if the number is taken for UDP.
func bind(ctx context.Context, addr string, mptcp bool) (net.Listener, *data.UDPRouter, error) {
	lc := net.ListenConfig{}
	lc.SetMultipathTCP(mptcp) // not by default: it lacks options that data connections use
	for tries := 1; ; tries++ {
		l, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return nil, nil, fmt.Errorf("listen: %w", err)
		}
		udp, err := data.ListenUDP(ctx, l.Addr().String())
		if err == nil {
			return l, udp, nil
		}
		defer l.Close() // not earlier, or the system could choose it again
		if !strings.HasSuffix(addr, ":0") || tries == portTries {
			return nil, nil, err
		}
	}
}

// limited returns c with the settings that all sessions share.
func limited(c Config) Config {
	if c.Unknown <= 0 {
		c.Unknown = unknownPlaces
	}
	if c.Friends <= 0 {
		c.Friends = friendPlaces
	}
	if c.Agent.Timeouts.Hello <= 0 {
		c.Agent.Timeouts.Hello = defaultHello
	}
	if c.Agent.Timeouts.Idle <= 0 {
		c.Agent.Timeouts.Idle = defaultIdle
	}
	c.Agent.Knobs = nil
	c.Agent.NoKnobs = cmp.Or(c.Agent.NoKnobs, "linerate serve only measures: it changes no settings of its host")
	return c
}

// limit makes l no wider than the server's limits for key k.
func limit(l *agent.Limits, k Key) {
	longest, streams := session.MaxDuration, session.MaxStreams
	tighter := func(set, most int) int {
		if set <= 0 || set > most {
			return most
		}
		return set
	}
	if k.Anonymous() {
		one := budget.AnonymousRun()
		longest, streams = one.Time, one.Streams
		l.More = "that is fixed for clients without a key: with one, of linerate serve key add NAME there, it allows more"
		l.MaxBlock = units.Bytes(tighter(int(l.MaxBlock), int(one.Block)))
		l.MaxBytes = units.Bytes(tighter(int(l.MaxBytes), int(one.Copy)))
		if l.MaxRate <= 0 || l.MaxRate > one.UDP {
			l.MaxRate = one.UDP
		}
	}
	if k.Rate > 0 {
		l.MaxTCP, l.MaxRate = k.Rate, max(k.Rate, udp.DefaultRate)
	}
	l.MaxStreams = tighter(l.MaxStreams, streams)
	l.MaxTime = time.Duration(tighter(int(l.MaxTime), int(longest)))
	l.NoPaths = true // the right to measure does not include files
}

// Close closes the port of a server that is not serving.
func (s *Server) Close() error { return errors.Join(s.listener.Close(), s.udp.Close()) }

// GiveTo prepares for root to become another user; see data.UDPRouter.GiveTo.
func (s *Server) GiveTo(uid, gid int) error { return s.udp.GiveTo(uid, gid) }

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Link returns the join link for a server that its users reach at any of hosts, with the
// identity's secret if it has one.
func (s *Server) Link(hosts ...string) Link {
	l := Link{Addr: JoinAddrs(hosts, fmt.Sprint(s.port)), Pin: s.config.Identity.Pin()}
	if !s.config.Open && len(s.config.Identity.Secret) > 0 {
		l.Secret = base64.RawURLEncoding.EncodeToString(s.config.Identity.Secret)
	}
	return l
}

// control serves a session: TLS, then the agent.
func (s *Server) control(ctx context.Context, conn *net.TCPConn, addr netip.Addr, at *knocking) {
	defer func() { _ = conn.Close() }()
	raw := &unproven{Conn: conn, head: []byte{firstRecord}, gate: s.gate, source: budget.Source(addr),
		pause: func(waits bool) { s.door.pause(at, waits) }}
	raw.left.Store(handshakeBytes)
	secure := ctls.Server(raw, s.tls)
	if err := raw.handshake(func() error { return secure.HandshakeContext(ctx) }); err != nil {
		if s.door.leave(at) { // else the door has recorded it
			s.refused(addr, fmt.Errorf("handshake: %w", err))
		}
		return // a client that does not speak TLS gets no answer
	}
	protocol := secure.ConnectionState().NegotiatedProtocol
	if protocol != alpn && (s.web == nil || protocol != alpnWeb) {
		s.refused(addr, fmt.Errorf("handshake: it does not speak %s", alpn))
		return
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return
	}
	s.door.come(at, secured)
	if protocol == alpnWeb {
		s.hand(ctx, secure, raw, at)
		return
	}
	c := s.config.Agent
	c.Data = data.Shared{Router: &s.router, Number: s.port, UDP: s.udp, From: s.measuresWith(addr)}
	c.MayConnect = func(to string) error { return s.onlyTo(addr, to) }
	release := func() {}
	var v *Visitor // the admitted client
	began, greeted := time.Now(), false
	c.Admit = func(ctx context.Context, h session.Hello, own *agent.Config) (agent.Grant, error) {
		greeted = true
		k, err := s.known(h.Secret)
		if errors.Is(err, session.ErrRefused) {
			s.door.pause(at, true)
			select {
			case <-time.After(slowRefusal):
			case <-ctx.Done():
			}
		}
		if err != nil {
			s.refused(addr, err)
			return agent.Grant{}, err
		}
		share, err := s.config.Budget.Open(addr, k.Name)
		if err != nil {
			s.refused(addr, err)
			return agent.Grant{}, agent.OverBudget(err)
		}
		unfriend := s.door.befriend(addr)
		release = func() {
			unfriend()
			share.Close()
		}
		raw.left.Store(-1)
		s.door.leave(at)
		v = &Visitor{Number: s.admitted.Add(1), Key: k, Addr: addr.Unmap(), Secret: h.Secret}
		if s.config.Welcome != nil {
			s.config.Welcome(*v, own)
		}
		limit(&own.Limits, k)
		own.Discreet = own.Discreet || k.Anonymous()
		return agent.Grant{Share: share, Over: k.Over}, nil
	}
	err := agent.Serve(ctx, secure, c)
	release()
	switch {
	case greeted || !s.door.leave(at) || ctx.Err() != nil: // the log has it already
	case errors.Is(err, session.ErrVersion):
		s.refused(addr, err)
	default:
		s.dropped(addr, errNoHello)
	}
	if v == nil || s.config.Ended == nil {
		return
	}
	if v.Key.isOver() {
		err = errors.Join(ErrKeyOver, err)
	}
	s.config.Ended(*v, time.Since(began), err)
}

// refused reports a client that was turned away.
func (s *Server) refused(addr netip.Addr, err error) {
	if s.config.Refused != nil {
		s.config.Refused(addr.Unmap(), err)
	}
}

// ErrKeyOver reports that a session was ended because its key is no longer valid.
var ErrKeyOver = errors.New("the key was revoked or has expired")

// measuresWith returns a function that reports whether a session of a controller may exchange
// data with an address: the controller's own, or one of Peers.
func (s *Server) measuresWith(controller netip.Addr) func(netip.Addr) bool {
	return func(a netip.Addr) bool {
		a = a.Unmap().WithZone("")
		return a == controller.Unmap().WithZone("") || slices.ContainsFunc(s.config.Peers, func(p netip.Prefix) bool { return p.Contains(a) })
	}
}

// onlyTo allows data connections only to the controller's address and to peers: otherwise the
// server could be used to reach hosts that the controller cannot.
func (s *Server) onlyTo(controller netip.Addr, to string) error {
	a, err := netip.ParseAddrPort(to)
	if err != nil || !s.measuresWith(controller)(a.Addr()) {
		return fmt.Errorf("%w: this server opens data connections only to %s, where you come from, and to its --peers", session.ErrRefused, controller.Unmap())
	}
	return nil
}
