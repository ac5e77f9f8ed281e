package mdns

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"linerate/internal/panics"
)

const (
	// asksEvery is a little longer than a server's pause between two answers.
	asksEvery = answersEvery + 100*time.Millisecond
	// others is how long Find waits for further servers of the same name after the first one: a
	// forged answer must not win by coming first.
	others = 300 * time.Millisecond
)

// Find returns the servers that claim this name, ignoring case, within the time of ctx. It
// returns soon after the first answer, with all answers until then. Finding none is not an
// error.
func Find(ctx context.Context, name string) ([]Server, error) {
	now, err := networks()
	if err != nil {
		return nil, err
	}
	text, err := question()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heard := make(chan Server)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	for _, n := range now {
		conn, err := n.open()
		if err != nil {
			continue
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		all.Go(panics.From(cancel, func() { listen(ctx, conn, n, heard) }))
		all.Go(panics.From(cancel, func() { ask(ctx, conn, n.group(), text) }))
	}
	var out []Server
	var enough <-chan time.Time
	for {
		select {
		case s := <-heard:
			if !strings.EqualFold(s.Name, name) || slices.Contains(out, s) {
				continue
			}
			if out = append(out, s); enough == nil {
				enough = time.After(others)
			}
			if len(out) == maxRecords {
				return out, nil
			}
		case <-enough:
			return out, nil
		case <-ctx.Done():
			return out, nil
		}
	}
}

// ask sends the question repeatedly until ctx ends.
func ask(ctx context.Context, conn *net.UDPConn, to *net.UDPAddr, text []byte) {
	for {
		_, _ = conn.WriteToUDP(text, to) // a network that refuses it has no servers
		select {
		case <-time.After(asksEvery):
		case <-ctx.Done():
			return
		}
	}
}

// listen passes on the answers of a network's servers, until conn is closed.
func listen(ctx context.Context, conn *net.UDPConn, n network, heard chan<- Server) {
	b := make([]byte, maxMessage+1)
	for {
		size, from, err := conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		// Answers come from the port of the protocol (RFC 6762 section 6).
		addr := from.Addr().Unmap()
		if _, ok := n.has(addr); !ok || size > maxMessage || from.Port() != port {
			continue
		}
		for _, s := range read(b[:size], addr) {
			select {
			case heard <- s:
			case <-ctx.Done():
				return
			}
		}
	}
}
