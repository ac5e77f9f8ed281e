package pingpong

import (
	"net"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/plane"
	"linerate/internal/must"
)

// TestBothEndsCountWhatTheySend, whichever way they wait: as much as the other end
// receives.
func TestBothEndsCountWhatTheySend(t *testing.T) {
	for name, open := range map[string]func(*net.TCPConn, bool) (*plane.Link, error){
		"chosen": plane.New,
		"poller": func(c *net.TCPConn, _ bool) (*plane.Link, error) { return plane.NewPoller(c), nil },
	} {
		for _, mode := range []string{"", sizes.Both, sizes.Stream} {
			w := enginetest.NewWire(t)
			sent := w.Counters()
			e := New(nil)
			e.share = 20 * time.Millisecond
			var mu sync.Mutex // both ends prepare at once
			var links []*plane.Link
			e.open = func(c *net.TCPConn, spin bool) (*plane.Link, error) {
				l, err := open(c, spin)
				mu.Lock()
				defer mu.Unlock()
				links = append(links, l)
				return l, err
			}
			near, far := enginetest.Prepare(t, e, w, sweepOf(model.To, sizes.Params{Mode: mode}, 1, 70_000))
			conduct(t, near, far)
			must.Need(t, len(links) == 2 && sent(model.Near) != nil && sent(model.Far) != nil, "%s: %d links, or an end without counters", name, len(links))
			var sum, got int64
			for _, l := range links {
				got += l.Received()
			}
			for _, h := range []model.Host{model.Near, model.Far} {
				sum += sent(h)()
			}
			must.True(t, sum == got && sum >= 70_000, "%s %s: both ends sent %d bytes and received %d", name, mode, sum, got)
		}
	}
}
