// Package accepttest provides misbehaving clients for the tests of listeners.
package accepttest

import (
	"context"
	"net"
	"sync"
	"time"
)

// Besiege keeps n connections open to the TCP address addr until end is called. Each client
// sends say and then nothing, and reconnects when the server closes its connection. Besiege
// returns when all n connections are open.
func Besiege(ctx context.Context, addr string, n int, say []byte) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	came := make(chan struct{}, 4*n)
	for range n {
		all.Go(func() { besiege(ctx, addr, say, came) })
	}
	for range n {
		<-came
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func besiege(ctx context.Context, addr string, say []byte, came chan<- struct{}) {
	for ctx.Err() == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		_, _ = c.Write(say)
		select {
		case came <- struct{}{}:
		default:
		}
		_, _ = c.Read(make([]byte, 10)) // until the server closes the connection
		stop()
		_ = c.Close()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
