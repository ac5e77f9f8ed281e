// Package accept keeps a listener open whatever its clients do.
//
// Accept fails for temporary reasons, such as no free descriptor or a connection reset before
// it was accepted. A server that exits on such an error can be stopped by any client. So Loop
// rests and retries, Retry does the same for other loops, and Guard keeps a panic in one
// client's handler from ending the server. A Crowd limits the clients that have not yet sent a
// request, so that silent clients do not lock out others. A Socket is the one of a server of UDP.
package accept

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"time"
)

// The rest after a failure doubles from firstRest to lastRest, as in net/http (Server.Serve).
const (
	firstRest = 5 * time.Millisecond
	lastRest  = time.Second
)

// calm is how long an operation must succeed before its failure counts as over, so that a
// failure that recurs with every client is logged once.
const calm = lastRest

// Loop passes each connection of l to handle until ctx ends, which returns nil, or l is closed,
// which returns an error. It logs any other failure and retries after a rest. handle owns the
// connection and must not block.
func Loop(ctx context.Context, l net.Listener, log func(line string), handle func(net.Conn)) error {
	r := Retry{What: "accept", Log: log}
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			r.Worked()
			Guard(log, "accept "+c.RemoteAddr().String(), func() { handle(c) })
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		default:
			r.Failed(ctx, err)
		}
	}
}

// Retry logs the failures of a loop's operation and waits between retries. It belongs to one
// goroutine.
type Retry struct {
	What string            // the operation
	Log  func(line string) // called when failing begins and when it is over

	rest     time.Duration // after the last failure; 0 if none since the last success
	failing  bool          // and logged
	failures int           // since failing began
	since    time.Time     // when failing began
	last     time.Time     // the last failure
}

// Failed records a failure and rests until ctx ends or the rest is over: 5 ms after the first
// failure in a row, then twice as long each time, at most 1 s.
func (r *Retry) Failed(ctx context.Context, err error) {
	r.Noted(err)
	r.rest = min(max(2*r.rest, firstRest), lastRest)
	t := time.NewTimer(r.rest)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Noted records a failure without resting.
func (r *Retry) Noted(err error) {
	r.last = time.Now()
	r.failures++
	if !r.failing {
		r.failing, r.failures, r.since = true, 1, r.last
		r.Log(fmt.Sprintf("%s: %v: trying again until it works", r.What, err))
	}
}

// Worked records a success. It costs nothing if nothing failed before.
func (r *Retry) Worked() {
	r.rest = 0
	if !r.failing || time.Since(r.last) < calm {
		return
	}
	r.failing = false
	r.Log(fmt.Sprintf("%s: works again, after %d failures in %v", r.What, r.failures, r.last.Sub(r.since).Round(time.Millisecond)))
}

// Guard calls f and recovers a panic in it: log gets one line with the panic's message, who,
// and the stack. f must release what it holds by defer. Goroutines that f starts need guards of
// their own.
func Guard(log func(line string), who string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			log(oneLine(fmt.Sprintf("%s: panic, which ends this client only: %v: %s", who, p, debug.Stack())))
		}
	}()
	f()
}

// mostTold is the most of a panic that is logged, in bytes.
const mostTold = 8 << 10

// oneLine joins a text with a stack into one line for a log.
func oneLine(s string) string {
	s = strings.TrimSpace(s[:min(len(s), mostTold)])
	return strings.NewReplacer("\n\t", " ", "\n", " | ", "\t", " ", "\r", " ").Replace(s)
}
