package mdns

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/panics"
)

const (
	// answersEvery is the shortest time between two answers on one network (RFC 6762 section 6).
	answersEvery = time.Second
	// looksEvery is how often the host is checked for new networks.
	looksEvery = 15 * time.Second
)

// Announce answers queries for s on all networks of this host, including later ones, until ctx
// ends. It skips networks on which that is not possible.
func Announce(ctx context.Context, s Server) error {
	if err := s.checked(); err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	type place struct {
		index int
		six   bool
	}
	on := map[place]bool{} // networks that are served
	for {
		now, err := networks()
		if err != nil {
			return err
		}
		for _, n := range now {
			mu.Lock()
			at := place{n.Index, n.six}
			known := on[at]
			on[at] = true
			mu.Unlock()
			if known {
				continue
			}
			all.Go(panics.From(cancel, func() {
				serve(ctx, n, s)
				mu.Lock()
				defer mu.Unlock()
				delete(on, at)
			}))
		}
		select {
		case <-time.After(looksEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// serve answers on one network until the network goes away or ctx ends.
func serve(ctx context.Context, n network, s Server) {
	conn, err := n.open()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	b := make([]byte, maxMessage+1)
	var last time.Time
	for {
		size, from, err := conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if time.Since(last) < answersEvery || size > maxMessage || !asks(b[:size]) {
			continue
		}
		own, ok := n.towards(from.Addr())
		if !ok {
			continue
		}
		text, err := s.answer(own)
		if err != nil {
			return
		}
		last = time.Now()
		_, _ = conn.WriteToUDP(text, n.group()) // the client asks again
	}
}

// towards is network.has with the interface's current addresses.
func (n network) towards(from netip.Addr) (netip.Addr, bool) {
	now, err := networks()
	if err != nil {
		return netip.Addr{}, false
	}
	for _, one := range now {
		if one.Index == n.Index && one.six == n.six {
			return one.has(from.Unmap())
		}
	}
	return netip.Addr{}, false
}
