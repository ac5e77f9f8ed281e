package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"sync"
	"time"

	"linerate/internal/control/session"
)

// Closed reports that data connections were prepared but did not open.
type Closed struct {
	Acceptor string // name of the end that waited for them
	Addr     string // host:port that the other end tried
	Why      error  // error of the connecting end; nil if nothing came back in time
}

// Error describes the failure in one sentence.
func (c *Closed) Error() string {
	if c.Why == nil {
		return fmt.Sprintf("nothing came back from %s", c.Addr)
	}
	return fmt.Sprintf("no data connection to %s: %v", c.Addr, c.Why)
}

// Unwrap returns the error of the connecting end.
func (c *Closed) Unwrap() error { return c.Why }

// Knock opens the data connections of s within limit, as Run does, and closes them after their
// handshakes without sending data. Several calls may run at once. The error is a *Closed if
// both ends were ready and no connection was made.
func (r *Runner) Knock(ctx context.Context, s Spec, limit time.Duration) error {
	r.busy.RLock()
	defer r.busy.RUnlock()
	a := &attempt{Runner: r, spec: s, flow: s.Flow, wire: r.runs.Add(1)}
	d, err := a.dataAddress()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	defer a.dropBoth(ctx)
	port, err := a.preparedAt(ctx, d)
	if err != nil {
		return err
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	connector, acceptor := a.follow(ctx, d.connector, &following), a.follow(ctx, d.acceptor, &following)
	closed := &Closed{Acceptor: d.acceptor.Name(), Addr: net.JoinHostPort(d.host, strconv.Itoa(port))}
	for _, e := range []*end{connector, acceptor} {
		select {
		case <-e.ready:
		case <-connector.failed:
			return closed.because(ctx, connector.err)
		case <-acceptor.failed:
			return acceptor.err
		case <-late.C:
			return closed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// because returns c with the error of the connecting end, or that error alone if it is not about
// the path.
func (c *Closed) because(ctx context.Context, err error) error {
	for _, other := range []error{session.ErrRefused, session.ErrBusy, session.ErrLost, session.ErrState, session.ErrInvalid, session.ErrGreedy, fs.ErrPermission, errors.ErrUnsupported} {
		if errors.Is(err, other) || ctx.Err() != nil {
			return err
		}
	}
	c.Why = err
	return c
}

// RoundTrip returns the longer of the two agents' response times over their sessions.
func (r *Runner) RoundTrip(ctx context.Context) (longest time.Duration, err error) {
	for _, c := range r.ends {
		began := time.Now()
		if err := c.Stop(ctx, r.runs.Add(1)); err != nil { // a run that does not exist
			return 0, err
		}
		longest = max(longest, time.Since(began))
	}
	return longest, nil
}
