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

// Closed says that data connections were prepared and did not open.
type Closed struct {
	Acceptor string // name of the end that waited for them
	Addr     string // host:port where they were to go
	Why      error  // what the connecting end says; nil where nothing came back in time
}

// Error says it in a sentence.
func (c *Closed) Error() string {
	if c.Why == nil {
		return fmt.Sprintf("nothing came back from %s", c.Addr)
	}
	return fmt.Sprintf("no data connection to %s: %v", c.Addr, c.Why)
}

// Unwrap returns what the connecting end says.
func (c *Closed) Unwrap() error { return c.Why }

// Knock opens the data connections of s within limit, as Run does, and closes them
// without having sent anything but their handshakes. Several may knock at once. The
// error is a *Closed where both ends were willing and no connection was made.
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

// because returns c with what the connecting end says, or that alone where it is not
// about the path.
func (c *Closed) because(ctx context.Context, err error) error {
	for _, other := range []error{session.ErrRefused, session.ErrBusy, session.ErrLost, session.ErrState, session.ErrInvalid, session.ErrGreedy, fs.ErrPermission, errors.ErrUnsupported} {
		if errors.Is(err, other) || ctx.Err() != nil {
			return err
		}
	}
	c.Why = err
	return c
}

// RoundTrip is how long the slower of both agents takes to answer over its session.
func (r *Runner) RoundTrip(ctx context.Context) (longest time.Duration, err error) {
	for _, c := range r.ends {
		began := time.Now()
		if err := c.Stop(ctx, r.runs.Add(1)); err != nil { // a run that there is not
			return 0, err
		}
		longest = max(longest, time.Since(began))
	}
	return longest, nil
}
