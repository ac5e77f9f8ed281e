package tls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"linerate/internal/control/wire/data"
	"linerate/internal/measure/accept"
)

// Why a connection was closed before it identified itself; see also errCrowded.
var (
	errSilent  = errors.New("said nothing in time")
	errLeft    = errors.New("closed it before it said anything")
	errForeign = errors.New("spoke another protocol")
	errNoRun   = errors.New("a data connection that no run waits for")
	errNoHello = errors.New("no valid hello inside its TLS session")
)

// Serve serves until ctx ends, then ends all sessions and waits for them.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() { _ = s.udp.Close() }()
	defer s.running.Wait()
	defer s.serveWeb()()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = s.listener.Close() })()
	patience := accept.Retry{What: "accept", Log: s.log}
	var reserve spare
	defer reserve.free()
	reserve.hold()
	for {
		c, err := s.listener.Accept()
		switch {
		case err == nil && !reserve.held():
			s.acceptLast(ctx, c, &reserve)
		case err == nil:
			patience.Worked()
			s.accept(ctx, c)
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		case errors.Is(err, syscall.EMFILE) && reserve.free():
			patience.Noted(err)
		default: // out of memory or system-wide descriptors: that passes
			s.door.shed() // anonymous clients go first
			patience.Failed(ctx, err)
			reserve.hold()
		}
	}
}

// acceptLast serves a connection that has taken the spare descriptor. It closes an anonymous
// client at the door to make room. If there is none, it closes the new connection at once, unless
// a session comes from the same address. So no connection blocks the listen queue for the data
// connections of running sessions.
func (s *Server) acceptLast(ctx context.Context, c net.Conn, reserve *spare) {
	switch addr := remote(c); {
	case reserve.hold(): // one has become free since
		s.accept(ctx, c)
	case s.door.shed():
		s.accept(ctx, c)
		for range looks { // a closed one is free in a moment
			if reserve.hold() {
				return
			}
			pause(ctx, soon)
		}
	case s.door.friendly(addr):
		s.accept(ctx, c)
		reserve.hold()
	default:
		_ = c.Close()
		s.dropped(addr, errNoFiles)
		reserve.hold()
	}
}

// How often, and at what interval, to check for a freed descriptor.
const (
	looks = 20
	soon  = 100 * time.Microsecond
)

// spare is a descriptor that is kept for the moment when all others are in use.
type spare struct{ file *os.File }

// hold opens the descriptor unless it is open, and reports whether it is open now.
func (s *spare) hold() bool {
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull) // else without one, until the next time
	}
	return s.file != nil
}

func (s *spare) held() bool { return s.file != nil }

// free closes the descriptor, and reports whether it was open.
func (s *spare) free() bool {
	if s.file == nil {
		return false
	}
	_ = s.file.Close()
	s.file = nil
	return true
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// remote returns the address that c comes from; the zero Addr if it has none.
func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// log reports the server's own problems.
func (s *Server) log(line string) {
	if s.config.Log != nil {
		s.config.Log(line)
	}
}

// dropped reports a connection that was closed before it identified itself.
func (s *Server) dropped(from netip.Addr, why error) {
	if s.config.Dropped != nil {
		s.config.Dropped(from.Unmap(), why)
	}
}

// accept serves c in a goroutine, once there is a place for it.
func (s *Server) accept(ctx context.Context, c net.Conn) {
	conn, ok := c.(*net.TCPConn)
	if !ok {
		_ = c.Close()
		return
	}
	addr := remote(conn)
	k := s.door.enter(conn, addr)
	for ; k == nil; k = s.door.enter(conn, addr) {
		if pause(ctx, retry); ctx.Err() != nil {
			_ = conn.Close()
			return
		}
	}
	s.running.Go(func() {
		defer s.door.leave(k)
		accept.Guard(s.log, addr.String(), func() { s.serve(ctx, conn, addr, k) })
	})
}

// serve identifies a connection, which waits at the door until then.
func (s *Server) serve(ctx context.Context, conn *net.TCPConn, addr netip.Addr, k *knocking) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	drop := func(why error) {
		// Report before closing: a client that sees the end finds it in the log.
		if s.door.leave(k) && ctx.Err() == nil { // else the door has reported it
			s.dropped(addr, why)
		}
		_ = conn.Close()
	}
	var first [1]byte
	_ = conn.SetDeadline(time.Now().Add(s.config.Handshake)) // a connection without deadlines is closed: it fails below
	_, err := io.ReadFull(conn, first[:])
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		drop(errSilent)
		return
	case err != nil:
		drop(errLeft)
		return
	}
	s.door.come(k, spoke)
	switch first[0] {
	case data.FirstByte:
		if s.router.Handle(conn, first[:], s.config.Handshake) != nil { // else it belongs to its run now
			drop(errNoRun)
		}
	case firstRecord:
		s.control(ctx, conn, addr, k)
	default:
		drop(errForeign)
	}
}
