package netpipe

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/accept/accepttest"
	"linerate/internal/measure/budget"
	"linerate/internal/must"
)

// TestTransmittersWaitForTheirTurn lets several come at once, with resets, so
// that each connects many times. Each has an address of its own: two that
// connect from one address in the same moment cannot be told apart.
func TestTransmittersWaitForTheirTurn(t *testing.T) {
	s := tiny()
	s.Reset = true
	port, log := serve(t, New(), s, Limits{})
	var all sync.WaitGroup
	for i := range 5 {
		local := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(10+i))}}
		first, err := local.DialContext(t.Context(), "tcp4", "127.0.0.1:"+port)
		if err != nil {
			t.Skipf("this system has one loopback address: %v", err)
		}
		from := func(ctx context.Context) (*net.TCPConn, error) {
			c := first
			if first = nil; c != nil {
				return c.(*net.TCPConn), nil
			}
			c, err := local.DialContext(ctx, "tcp4", "127.0.0.1:"+port)
			if err != nil {
				return nil, err
			}
			return c.(*net.TCPConn), nil
		}
		all.Go(func() {
			// Its turn may come late.
			points, err := New().Transmit(t.Context(), from, Options{Settings: s, Repeats: 3}, func(model.Point) {})
			must.True(t, err == nil && len(points) == 2, "%d points, %v", len(points), err)
		})
	}
	all.Wait()
	for _, line := range awaitLog(t, 5, log) {
		must.Contain(t, line, "2 sizes, complete", "log")
	}
}

// TestQueueIsBounded: who comes when too many wait is closed at once.
func TestQueueIsBounded(t *testing.T) {
	port, _ := serve(t, New(), tiny(), Limits{Waiting: 1})
	active := dial(t, port)
	must.Get(active.Write([]byte("SyncMe")))(t)
	answer := make([]byte, SyncBytes)
	must.Do(t, must.Err(active.Read(answer))) // it has its turn
	// One waits, and one may be the reconnection of who has its turn.
	closed := make(chan bool, 3)
	for range 3 {
		c := dial(t, port)
		must.Get(c.Write([]byte("SyncMe")))(t)
		go func() {
			_, err := c.Read(make([]byte, 1))
			closed <- err != nil
		}()
	}
	select {
	case end := <-closed:
		must.True(t, end, "one that should wait was answered first")
	case <-time.After(soon):
		t.Error("all three wait")
	}
}

// TestSilentTransmittersKeepNobodyOut: while 256 hold on, drip, or come back, the
// next one has its turn. On a busy machine it may be taken for a silent one before it
// speaks, and has to come again. TestTurnsComeSoon holds how soon.
func TestSilentTransmittersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{"nothing": "", "half a sync": "Syn"} {
		t.Run(name, func(t *testing.T) {
			port, _ := serve(t, New(), tiny(), Limits{})
			defer accepttest.Besiege(t.Context(), "127.0.0.1:"+port, 256, []byte(says))()
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			for {
				points, err := quick().Transmit(ctx, dialer(port), Options{Settings: tiny(), Repeats: 5}, func(model.Point) {})
				if err == nil {
					checkPoints(t, tiny(), points)
					return
				}
				must.Dof(t, ctx.Err(), "never had its turn: %v", err)
			}
		})
	}
}

// TestSilentTurnIsShortWhileOthersWait: one that syncs and then says nothing has
// its turn for a short time while another client waits.
func TestSilentTurnIsShortWhileOthersWait(t *testing.T) {
	t.Parallel()
	port, _ := serve(t, New(), tiny(), Limits{})
	bad := dial(t, port)
	must.Get(bad.Write([]byte("SyncMe")))(t)
	must.Do(t, must.Err(bad.Read(make([]byte, SyncBytes)))) // it has its turn
	must.Get(New().Transmit(t.Context(), dialer(port), Options{Settings: tiny(), Repeats: 5}, func(model.Point) {}))(t)
}

// TestTurnsStayWithinTheBudget: memory and sessions come from the ledger, and come
// back.
func TestTurnsStayWithinTheBudget(t *testing.T) {
	b := budget.New(budget.Config{Anonymous: budget.Part{Session: budget.Limits{Memory: 1000}}})
	port, log := serve(t, quick(), tiny().withUpper(4096), Limits{Budget: b})
	_, err := quick().Transmit(t.Context(), dialer(port), Options{Settings: tiny().withUpper(4096), Repeats: 3}, func(model.Point) {})
	must.True(t, err != nil, "4 KiB of a buffer came from 1000 B")
	lines := awaitLog(t, 1, log)
	must.True(t, strings.Contains(lines[0], "memory") && strings.Contains(lines[0], "1000 B"), "log %q", lines)
	transmit(t, port, tiny())
	awaitLog(t, 2, log)
	for _, k := range b.Usage().Kinds {
		must.True(t, k.Kind != budget.Sessions && k.Kind != budget.Memory && k.Kind != budget.Descriptors || k.Used() == 0, "%d of %v did not come back", k.Used(), k.Kind)
	}
}

// TestTurnEndsWithTheLifetime: a transmitter that goes on is ended when a session of
// anonymous clients is over, and the ledger has its session back.
func TestTurnEndsWithTheLifetime(t *testing.T) {
	b := budget.New(budget.Config{Anonymous: budget.Part{Lifetime: 300 * time.Millisecond}})
	s := Settings{Start: 1, Upper: 1 << 20}
	port, log := serve(t, New(), s, Limits{Budget: b})
	_, err := New().Transmit(t.Context(), dialer(port), Options{Settings: s, Repeats: 1_000_000}, func(model.Point) {})
	must.True(t, err != nil, "a turn of many seconds was whole")
	lines := awaitLog(t, 1, log)
	must.True(t, strings.Contains(lines[0], "the lifetime of a session is over"), "log %q", lines)
	must.Equal(t, b.Usage().Kinds[budget.Sessions].Used(), 0, "sessions did not come back")
}
