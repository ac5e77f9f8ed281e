//go:build truth && linux

package main

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// silentCrowd holds n silent connections to addr, each from an address of its
// own, and makes a new one for each that the server closes, until ctx ends. It
// returns when each has connected once.
func silentCrowd(ctx context.Context, t testing.TB, addr string, n int) (wait func()) {
	t.Helper()
	var all, there sync.WaitGroup
	for i := range n {
		there.Add(1)
		all.Go(func() {
			arrived := sync.OnceFunc(there.Done)
			defer arrived()
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i>>8), byte(i))}, Timeout: 5 * time.Second}
			for ctx.Err() == nil {
				c, err := d.DialContext(ctx, "tcp", addr)
				arrived()
				if err == nil {
					stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
					_ = untilHungUp(c)
					stop()
				}
			}
		})
	}
	there.Wait()
	return all.Wait
}

// TestTruthOfAFullServer: where anonymous clients who say nothing take all descriptors, a
// session that runs gets its data connections within 2 s, who has the secret gets in within
// 2 s, and the server lives.
func TestTruthOfAFullServer(t *testing.T) {
	v := serveJSON(t, fewFiles(t, command(t, "serve", "--json", "--listen", "127.0.0.1:0", "--state", t.TempDir())))
	first := intrude(t, v.Link)
	const files = 96
	door := budget.Divide(files, 0)
	held := func() int { return descriptors(t, v.p) }
	before := held()
	ctx, cancel := context.WithCancel(t.Context())
	wait := silentCrowd(ctx, t, first.addr, 300)
	defer wait()
	defer cancel()
	eventually(t, patience, "anonymous clients at the door", func() bool { return held() >= before+door.Unknown-1 })
	n := held()
	must.True(t, n <= files-door.Sessions, "anonymous clients left %d descriptors of %d, and sessions should have %d", files-n, files, door.Sessions)
	f := model.Flow{Engine: "tcpbulk", Direction: model.To, Streams: 4, Duration: 300 * time.Millisecond, Interval: 100 * time.Millisecond}
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		began := time.Now()
		conns := must.Get(first.prepare(t, f, f.Streams))(try)
		select {
		case <-first.ready:
		case err := <-first.ended:
			try.Fatalf("the run ended: %v", err)
		}
		try.Claim("four data connections", time.Since(began).Seconds(), 0, 2, "s")
		for _, c := range conns {
			_ = c.Close()
		}
		must.OK(try, first.Stop(t.Context(), first.runs))
		began = time.Now()
		must.OK(try, must.Err(tryIntrude(t, v.Link)))
		try.Claim("a new session", time.Since(began).Seconds(), 0, 2, "s")
	})
	cancel()
	wait()
	measured(t, briefly(v.Link), bothWays)
	if strings.Contains(v.p.said(), "panic") {
		t.Error(v.p.said())
	}
}
