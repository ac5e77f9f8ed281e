// Package peer speaks iperf 2 with foreign programs, as the client of their
// server and as the server of their clients, over TCP and UDP.
//
// docs/wire/iperf2.md describes the protocol; "section" in this package is a section of that
// text. Package tcpbulk moves the payload of a stream that has its connection to itself and no
// rate; package peer does it if both ends send on one connection, or at a rate.
//
// The client's end is model.Near and the server's model.Far at both ends, so
// that model.To always means from client to server.
//
// iperf 2 does not report TCP results to the peer. A client therefore computes what the server
// received: the bytes it sent, over the time until all of them were acknowledged. A server's
// own figure agrees, except for the header, which iperf 2.1 counts as payload (60 bytes per
// connection).
package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// Timeouts of a peer.
const (
	connectTime = 10 * time.Second // to accept a connection
	eachTime    = time.Second / 2  // more for each of several connections
	openTime    = 10 * time.Second // to send a header
	ackTime     = time.Second      // to ack one; 2.0 never does
	backTime    = 10 * time.Second // a server, to connect back
	settleTime  = 5 * time.Second  // to acknowledge what is still in flight at the end
	slack       = 10 * time.Second // beyond the time of its test, to end it
	idleTime    = 30 * time.Second // to move a byte
)

// Reasons for this end to abort a test.
var (
	errIdle    = errors.New("no byte moved for too long")
	errOverrun = errors.New("the test lasted too long")
	errTooMuch = errors.New("the peer sends far more than was asked for")
)

// options are the socket options of f.
func options(f model.Flow) engine.SocketOptions {
	return engine.SocketOptions{Window: int(f.Window), MSS: f.MSS, NoDelay: !f.Nagle, Congestion: f.Congestion}
}

// dial opens n TCP connections to addr, and returns them with the warnings about o. If one
// fails, it closes the others.
func dial(ctx context.Context, addr string, n int, o engine.SocketOptions) ([]*net.TCPConn, []string, error) {
	var (
		conns    []*net.TCPConn
		warnings []string
	)
	// Each may take long, but not all of them.
	ctx, cancel := context.WithTimeout(ctx, connectTime+time.Duration(n)*eachTime)
	defer cancel()
	for range n {
		c, err := sockio.Dial(ctx, net.Dialer{Timeout: connectTime}, "tcp", addr, o)
		if err != nil {
			closeAll(conns)
			return nil, nil, fmt.Errorf("connect to iperf 2 at %s: %w", addr, err)
		}
		tcp := c.(*net.TCPConn)
		conns = append(conns, tcp)
		w, err := sockio.Apply(tcp, o)
		if err != nil {
			closeAll(conns)
			return nil, nil, fmt.Errorf("prepare connection to %s: %w", addr, err)
		}
		warnings = append(warnings, w...)
	}
	return conns, warnings, nil
}

func closeAll(conns []*net.TCPConn) {
	for _, c := range conns {
		_ = c.Close() // it is abandoned, whatever its state
	}
}

// twins returns second descriptors of conns (sockio.Twin), or conns themselves.
func twins(conns []*net.TCPConn) []*net.TCPConn {
	out := make([]*net.TCPConn, len(conns))
	for i, c := range conns {
		out[i] = c
		if twin, err := sockio.Twin(c); err == nil {
			out[i] = twin
		}
	}
	return out
}

// settle closes conns, on which this end has sent everything, and reports whether the peer
// acknowledged it all within limit. Once ctx has ended it closes them at once.
func settle(ctx context.Context, conns []*net.TCPConn, limit time.Duration) bool {
	if ctx.Err() != nil {
		closeAll(conns)
		return false
	}
	all := make([]bool, len(conns))
	var running panics.Group
	for i, c := range conns {
		running.Go(func() { all[i] = settleOne(c, limit) })
	}
	running.Wait()
	for _, done := range all {
		if !done {
			return false
		}
	}
	return true
}

// acceptFrom accepts n connections on l from host, and closes others.
func acceptFrom(ctx context.Context, l *net.TCPListener, host net.IP, n int, limit time.Duration) ([]*net.TCPConn, error) {
	if err := l.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, fmt.Errorf("wait for the server's connection: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = l.SetDeadline(time.Unix(1, 0)) // fails only if the listener is closed already
	})
	defer stop()
	var conns []*net.TCPConn
	for len(conns) < n {
		c, err := l.AcceptTCP()
		if err != nil {
			closeAll(conns)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, fmt.Errorf("wait for the server to connect back (%d of %d did; an address translator or a firewall on the way prevents it): %w",
				len(conns), n, err)
		}
		if !hostOf(c.RemoteAddr()).Equal(host) {
			_ = c.Close() // from another host
			continue
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// hostOf returns the address without port of a TCP or UDP address.
func hostOf(a net.Addr) net.IP {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP
	case *net.UDPAddr:
		return a.IP
	default:
		return nil
	}
}

// listenTCP listens on local with o, which accepted connections inherit.
func listenTCP(local *net.TCPAddr, o engine.SocketOptions) (*net.TCPListener, error) {
	// Listening does not block, so there is nothing to cancel.
	l, err := (&net.ListenConfig{Control: sockio.Control(o)}).Listen(context.Background(), "tcp", local.String())
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}
