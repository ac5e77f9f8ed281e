package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"linerate/internal/core/model"
)

// Prepare begins to open the connections of a run, and returns the TCP port where the agent
// accepts them; 0 for none. It does not wait until they are open: the run's Ready event reports
// that. A session with more than the usual patience asks its agent for the same.
func (c *Client) Prepare(ctx context.Context, p Preparation) (port int, err error) {
	if p.Within == 0 && c.Patience() > 1 {
		p.Within = min(c.timeouts.Call, MaxPrepare)
	}
	r, err := ask[acceptedAt](ctx, c, "prepare run", 1, "Prepare", p)
	if err == nil {
		c.mu.Lock()
		c.allowed = map[uint64]*allowance{p.Run: newAllowance(p.Flow)}
		c.mu.Unlock()
	}
	return r.Port, err
}

// Start begins the traffic of a run that is ready.
func (c *Client) Start(ctx context.Context, run uint64) error {
	_, err := ask[nothing](ctx, c, "start run", 1, "Start", runNumber{run})
	return err
}

// Stop asks a started run to end, and drops one that was only prepared.
func (c *Client) Stop(ctx context.Context, run uint64) error {
	_, err := ask[nothing](ctx, c, "stop run", 1, "Stop", runNumber{run})
	return err
}

// Run follows a prepared run. It calls each with the run's events in order, in this goroutine,
// up to the result, which is the last. It returns an error if there is no result; when ctx ends,
// the agent closes the run. If an agent sends more than the run allows, the session is cut.
func (c *Client) Run(ctx context.Context, run uint64, each func(Event)) error {
	const op = "run"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := calling[Event, runNumber](c, "Run").CallServerStream(ctx, connect.NewRequest(&runNumber{run}))
	if err != nil {
		return c.failed(ctx, op, err)
	}
	defer func() { _ = stream.Close() }()
	allowed := c.allowance(run)
	for last := Ready - 1; stream.Receive(); {
		e := *stream.Msg()
		if (e.Kind == Ready) != (last < Ready) {
			return c.failed(ctx, op, fmt.Errorf("%w: a run is ready once, before it reports traffic", ErrInvalid))
		}
		last = max(last, e.Kind)
		if err := allowed.take(e, time.Now()); err != nil {
			c.cut(err)
			return c.failed(ctx, op, err)
		}
		each(e)
		if e.Kind == Result {
			return nil
		}
	}
	err = stream.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && c.conn.Err() == nil {
		err = fmt.Errorf("%w: the run ended without a result", ErrInvalid)
	}
	return c.failed(ctx, op, err)
}

// allowance returns the allowance of a run; that of a flow of no particular kind if this client
// did not prepare it.
func (c *Client) allowance(run uint64) *allowance {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.allowed[run]; a != nil {
		return a
	}
	return newAllowance(model.Flow{})
}
