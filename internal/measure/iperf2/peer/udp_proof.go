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

// Source addresses can be forged, and iperf 2's UDP protocol has no answer that only a client
// at its address could give. A TCP connection is proof: its handshake completes only with the
// real host. linerate's own client opens one for that (section 10).
const (
	proofTime  = time.Minute // how long a connection counts as proof
	mostProven = 1024        // addresses remembered
	showTime   = time.Second // timeout of opening the proof connection
)

// mostAnswer is how many times the bytes received from an unverified address may be sent to it
// (RFC 9000 section 8).
const mostAnswer = 3

// proofs are the addresses with recent TCP connections. They are safe for concurrent use.
type proofs struct {
	mu   sync.Mutex
	came map[netip.Addr]time.Time
}

// note records a connection from a.
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
			for any := range p.came { // one at random, so that no client can lock others out
				delete(p.came, any)
				break
			}
		}
	}
	p.came[a] = time.Now()
}

// has reports whether a connection came from a recently.
func (p *proofs) has(a netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.came[a.Unmap()]
	return known && time.Since(at) <= proofTime
}

// mayLoad reports whether payload may be sent to a.
func (s *server) mayLoad(a netip.Addr) bool { return s.UDPTo(a.Unmap()) || s.proven.has(a) }

// mayAnswer counts an answer of n bytes, and reports whether it may be sent to the flow's
// address.
func (u *udpServer) mayAnswer(f *udpFlow, n int) bool {
	if f.gave+int64(n) > mostAnswer*f.got && !u.mayLoad(f.from.Addr()) {
		return false
	}
	f.gave += int64(n)
	return true
}

// show opens a TCP connection to the server, so that it knows where the client is. It returns
// when the server has accepted it, or refused it: other iperf 2 servers may listen on UDP
// alone.
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
		_, _ = io.Copy(io.Discard, io.LimitReader(c, someWord)) // until the server closes
	}
}
