package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"linerate/internal/control/session"
	"linerate/internal/control/wire/data"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// dialing is how many connections are opened at a time: few enough for any
// listen queue.
const dialing = 16

// control is how many connections a run may open before its engine asks for them, besides its
// streams: control and probe connections.
const control = 8

// ahead returns how many connections the other end may be ahead of this end's engine. Engines
// open them in the same order at both ends, one direction after the other; one end may finish
// its calls before the other begins the next.
func ahead(f model.Flow) int {
	return min(max(1, f.Streams)*len(f.Direction.Parts())+control, data.MaxConns)
}

// opener returns the function with which r's engine opens its connections. On an accepting end
// it sends the port to ports as soon as it is known.
func (a *agent) opener(r *run, p session.Preparation, ports chan<- int) func(context.Context, int, engine.SocketOptions) (engine.Opened, error) {
	next := 0 // index of the first connection of the next call
	return func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		if n < 0 || next+n > data.MaxConns {
			return engine.Opened{}, fmt.Errorf("open %d connections: at most %d in a run", n, data.MaxConns)
		}
		ctx, cancel := context.WithTimeout(ctx, a.within(p))
		defer cancel()
		o.Egress = p.Egress
		first := next
		next += n
		var conns []*net.TCPConn
		var warnings []string
		var err error
		if p.Connect != "" {
			conns, warnings, err = dialAll(ctx, p, first, n, o)
		} else {
			conns, warnings, err = a.acceptAll(ctx, r, p, first, n, o, ports)
		}
		if err != nil {
			return engine.Opened{}, err
		}
		slices.Sort(warnings)
		warnings = slices.Compact(warnings) // the same for every connection
		r.mu.Lock()
		r.warnings = append(r.warnings, warnings...)
		r.mu.Unlock()
		return engine.Opened{Conns: conns, Warnings: warnings}, nil
	}
}

// udpOpener returns the function with which a run's engine opens its UDP sockets. It uses open
// for the connection over which both ends agree that the sockets are ready.
func (a *agent) udpOpener(p session.Preparation, open func(context.Context, int, engine.SocketOptions) (engine.Opened, error)) func(context.Context, int) ([]*net.UDPConn, error) {
	next := 0 // index of the first socket of the next call
	return func(ctx context.Context, n int) ([]*net.UDPConn, error) {
		if n < 1 || next+n > data.MaxSockets {
			return nil, fmt.Errorf("open %d UDP sockets: 1 to %d in a run", n, data.MaxSockets)
		}
		first := next
		next += n
		ctx, cancel := context.WithTimeout(ctx, a.within(p))
		defer cancel()
		var sockets *data.Sockets
		if p.Connect == "" {
			var err error
			if sockets, err = data.For(a.Data, p.Ports, acceptAt(p)).OpenUDP(ctx, p.Token, first, n); err != nil {
				return nil, err
			}
			defer func() { _ = sockets.Close() }() // those not taken
		}
		rendezvous, err := open(ctx, 1, engine.SocketOptions{NoDelay: true})
		if err != nil {
			return nil, err
		}
		defer func() { _ = rendezvous.Conns[0].Close() }()
		if sockets == nil {
			return data.DialUDP(ctx, rendezvous.Conns[0], p.Token, first, n, p.Egress)
		}
		conns, err := sockets.Take(ctx, rendezvous.Conns[0])
		for _, c := range conns {
			// The device follows from the address of the rendezvous.
			if failed := sockio.MarkDSCP(c, p.Egress.DSCP); failed != nil {
				err = failed
			}
		}
		return conns, err
	}
}

// acceptAt returns the address at which an accepting end listens, "" for all.
func acceptAt(p session.Preparation) string {
	if p.Loopback {
		return "127.0.0.1"
	}
	return p.Egress.Bind
}

func (a *agent) acceptAll(ctx context.Context, r *run, p session.Preparation, first, n int, o engine.SocketOptions, ports chan<- int) ([]*net.TCPConn, []string, error) {
	r.mu.Lock()
	port := r.port
	r.mu.Unlock()
	if port == nil {
		opened, err := data.For(a.Data, p.Ports, acceptAt(p)).Open(ctx, p.Token, ahead(p.Flow), o)
		if err != nil {
			return nil, nil, err
		}
		port = &opened
		r.mu.Lock()
		r.port = port
		r.mu.Unlock()
		ports <- port.Number
	}
	return port.Take(ctx, first, n, o)
}

// dialAll opens n connections, several at a time, ordered by index.
func dialAll(ctx context.Context, p session.Preparation, first, n int, o engine.SocketOptions) ([]*net.TCPConn, []string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conns := make([]*net.TCPConn, n)
	warnings := make([][]string, n)
	slots := make(chan struct{}, dialing)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(panics.From(cancel, func() {
			defer func() { <-slots }()
			var err error
			conns[i], warnings[i], err = data.Dial(ctx, p.Connect, p.Token, first+i, o)
			if err != nil {
				cancel(err) // the first error counts
			}
		}))
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("open data connections to %s: %w", p.Connect, err)
		}
		return nil, nil, err
	}
	return conns, slices.Concat(warnings...), nil
}
