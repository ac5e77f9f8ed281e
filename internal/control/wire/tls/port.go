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

// What a connection was closed for before it had shown what it is; see also
// errCrowded.
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
		default: // out of memory, or of descriptors of the whole system: that passes
			s.door.shed() // those without a name go first
			patience.Failed(ctx, err)
			reserve.hold()
		}
	}
}

// acceptLast serves a connection that has taken the spare descriptor. An anonymous client
// at the door makes room for it; where there is none it is closed at once unless it
// comes from where a session does. So nobody stands in the listen queue before the
// data connections of running sessions.
func (s *Server) acceptLast(ctx context.Context, c net.Conn, reserve *spare) {
	switch addr := remote(c); {
	case reserve.hold(): // one has become free since
		s.accept(ctx, c)
	case s.door.shed():
		s.accept(ctx, c)
		for range looks { // what was closed is free in a moment
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

// How often, and after what time, a descriptor that was closed is looked for.
const (
	looks = 20
	soon  = 100 * time.Microsecond
)

// spare is a descriptor that is held for the moment in which there is no other.
type spare struct{ file *os.File }

// hold takes the descriptor where it is not held, and reports whether it is now.
func (s *spare) hold() bool {
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull) // else without one, until the next time
	}
	return s.file != nil
}

func (s *spare) held() bool { return s.file != nil }

// free gives it back, and reports whether it was held.
func (s *spare) free() bool {
	if s.file == nil {
		return false
	}
	_ = s.file.Close()
	s.file = nil
	return true
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// remote is the address that c comes from; the zero Addr where it has none.
func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// log tells of the server's own troubles.
func (s *Server) log(line string) {
	if s.config.Log != nil {
		s.config.Log(line)
	}
}

// dropped tells of a connection that had not shown what it is.
func (s *Server) dropped(from netip.Addr, why error) {
	if s.config.Dropped != nil {
		s.config.Dropped(from.Unmap(), why)
	}
}

// accept serves c in a goroutine, as soon as there is a place for it.
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

// serve finds out what a connection is. It waits at the door until then.
func (s *Server) serve(ctx context.Context, conn *net.TCPConn, addr netip.Addr, k *knocking) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	drop := func(why error) {
		// Told before it is closed: who sees the end finds it in the log.
		if s.door.leave(k) && ctx.Err() == nil { // else the door has told of it
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
		if s.router.Handle(conn, first[:], s.config.Handshake) != nil { // else it is its run's now
			drop(errNoRun)
		}
	case firstRecord:
		s.control(ctx, conn, addr, k)
	default:
		drop(errForeign)
	}
}
