// Package accept keeps a listener open whatever its clients do.
//
// Accepting fails for reasons that pass (no descriptor is free, a connection was
// reset before it was taken), and a server that ends for one of them can be ended
// by anybody. So Loop rests and tries again, Retry does the same for other loops,
// and Guard keeps a panic in the handling of one client from ending all. A Crowd
// bounds the clients that have not yet said what they want, so that the silent
// ones keep nobody out.
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

// The rest after a failure doubles from the first to the last, as that of
// net/http (Server.Serve).
const (
	firstRest = 5 * time.Millisecond
	lastRest  = time.Second
)

// calm is for how long nothing must have failed until a failure counts as over:
// one that comes and goes with every client is told once.
const calm = lastRest

// Loop hands the connections of l to handle, one after the other, until ctx ends,
// which is no error, or l is closed, which is. Any other failure is told to log
// and tried again after a rest. handle must not block; the connection is its own.
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

// Retry is the patience of a loop with an operation that fails now and then. It
// belongs to one goroutine.
type Retry struct {
	What string            // the operation
	Log  func(line string) // told when failing begins and when it is over

	rest     time.Duration // after the last failure; 0 is none since the last success
	failing  bool          // and told so
	failures int           // since failing began
	since    time.Time     // when failing began
	last     time.Time     // the last failure
}

// Failed notes a failure and rests, 5 ms after the first in a row and twice as
// long after each further one, 1 s at most, or until ctx ends.
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

// Noted notes a failure, for who knows better what to do now than to rest.
func (r *Retry) Noted(err error) {
	r.last = time.Now()
	r.failures++
	if !r.failing {
		r.failing, r.failures, r.since = true, 1, r.last
		r.Log(fmt.Sprintf("%s: %v: trying again until it works", r.What, err))
	}
}

// Worked notes a success. It costs nothing where nothing failed before.
func (r *Retry) Worked() {
	r.rest = 0
	if !r.failing || time.Since(r.last) < calm {
		return
	}
	r.failing = false
	r.Log(fmt.Sprintf("%s: works again, after %d failures in %v", r.What, r.failures, r.last.Sub(r.since).Round(time.Millisecond)))
}

// Guard calls f. A panic in it goes no further: log gets a line with what it said,
// whom it concerned and the stack. What f holds it must free by defer. The
// goroutines that f starts need guards of their own.
func Guard(log func(line string), who string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			log(oneLine(fmt.Sprintf("%s: panic, which ends this client only: %v: %s", who, p, debug.Stack())))
		}
	}()
	f()
}

// mostTold is how much of a panic is told, bytes.
const mostTold = 8 << 10

// oneLine is a text with a stack as one line of a log.
func oneLine(s string) string {
	s = strings.TrimSpace(s[:min(len(s), mostTold)])
	return strings.NewReplacer("\n\t", " ", "\n", " | ", "\t", " ", "\r", " ").Replace(s)
}
