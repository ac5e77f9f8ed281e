package mdns

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/rescue"
)

const (
	// answersEvery is the least time between two answers on one network (RFC 6762
	// section 6).
	answersEvery = time.Second
	// looksEvery is how often new networks are looked for.
	looksEvery = 15 * time.Second
)

// Announce answers those who look for s, on all networks of this host, also those that
// come later, until ctx ends. A network on which that is not possible is passed over.
func Announce(ctx context.Context, s Server) error {
	if err := s.checked(); err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	on := map[int]bool{} // interfaces that are listened on
	for {
		now, err := networks()
		if err != nil {
			return err
		}
		for _, n := range now {
			mu.Lock()
			known := on[n.Index]
			on[n.Index] = true
			mu.Unlock()
			if known {
				continue
			}
			all.Go(rescue.From(cancel, func() {
				serve(ctx, n.Interface, s)
				mu.Lock()
				defer mu.Unlock()
				delete(on, n.Index)
			}))
		}
		select {
		case <-time.After(looksEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// serve answers on one interface until that or ctx ends.
func serve(ctx context.Context, i net.Interface, s Server) {
	conn, err := net.ListenMulticastUDP("udp4", &i, group())
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
		own, ok := towards(i, from.Addr())
		if !ok {
			continue
		}
		text, err := s.answer(own)
		if err != nil {
			return
		}
		last = time.Now()
		_, _ = conn.WriteToUDP(text, group()) // who looks asks again
	}
}

// towards is network.has for the addresses that the interface has now.
func towards(i net.Interface, from netip.Addr) (netip.Addr, bool) {
	now, err := networks()
	if err != nil {
		return netip.Addr{}, false
	}
	for _, n := range now {
		if n.Index == i.Index {
			return n.has(from.Unmap())
		}
	}
	return netip.Addr{}, false
}
