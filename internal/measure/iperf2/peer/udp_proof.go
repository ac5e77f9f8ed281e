package peer

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/sockio"
)

// The sender of a datagram can be forged, and iperf 2's protocol has no answer
// over UDP that only a client at its address could give. What is proof is a TCP
// connection: its handshake comes from where the client is. linerate's own
// client opens one for that (section 10).
const (
	proofTime  = time.Minute // for which a connection is one
	mostProven = 1024        // addresses that are remembered
	showTime   = time.Second // that showing may take
)

// mostAnswer is how many times the bytes that came from an unproven address may
// be sent to it (RFC 9000 section 8).
const mostAnswer = 3

// proofs are the addresses from which TCP connections came. They are safe for
// concurrent use.
type proofs struct {
	mu   sync.Mutex
	came map[netip.Addr]time.Time
}

// note keeps that a connection came from a.
func (p *proofs) note(a netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.came == nil {
		p.came = map[netip.Addr]time.Time{}
	}
	if len(p.came) >= mostProven {
		for known, at := range p.came {
			if time.Since(at) > proofTime {
				delete(p.came, known)
			}
		}
	}
	if a = a.Unmap(); len(p.came) >= mostProven {
		if _, known := p.came[a]; !known {
			for any := range p.came { // one at random: nobody can keep others out
				delete(p.came, any)
				break
			}
		}
	}
	p.came[a] = time.Now()
}

// has reports whether a connection came from a, not long ago.
func (p *proofs) has(a netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.came[a.Unmap()]
	return known && time.Since(at) <= proofTime
}

// mayLoad reports whether payload may be sent to a.
func (s *server) mayLoad(a netip.Addr) bool { return s.UDPTo(a.Unmap()) || s.proven.has(a) }

// mayAnswer counts an answer of n bytes, and reports whether the flow's address
// may get it.
func (u *udpServer) mayAnswer(f *udpFlow, n int) bool {
	if f.gave+int64(n) > mostAnswer*f.got && !u.mayLoad(f.from.Addr()) {
		return false
	}
	f.gave += int64(n)
	return true
}

// show opens a TCP connection to the server, so that it knows where the client
// is. It returns when the server has seen it, or does not want to: one of
// another maker listens on UDP alone.
func (u *udpClient) show(ctx context.Context) {
	if u.mode == iperf2.Forward {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, showTime)
	defer cancel()
	c, err := sockio.Dial(ctx, net.Dialer{}, "tcp", u.addr, engine.SocketOptions{NoDelay: true, Egress: u.Egress})
	if err != nil {
		return
	}
	defer c.Close()
	until, _ := ctx.Deadline()
	if c.(*net.TCPConn).CloseWrite() == nil && c.SetReadDeadline(until) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c, someWord)) // until the server hangs up
	}
}
