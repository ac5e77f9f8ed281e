package reqresp

import (
	"context"
	"errors"
	"fmt"
	"net"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/plane"
)

// take opens n connections through env.
func (t *test) take(ctx context.Context, env engine.Env, d model.Direction, n int, o engine.SocketOptions) ([]*net.TCPConn, error) {
	opened, err := env.Open(ctx, n, o)
	if err != nil {
		return nil, fmt.Errorf("open %s %s: %w", plain.Count(n, "connection"), d, err)
	}
	if len(opened.Conns) != n {
		err := fmt.Errorf("open connections %s: got %d of %d", d, len(opened.Conns), n)
		for _, c := range opened.Conns {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	t.warnings = append(t.warnings, opened.Warnings...)
	return opened.Conns, nil
}

// lines opens n connections and passes each to the waiter, then to add.
func (t *test) lines(ctx context.Context, env engine.Env, d model.Direction, n int, add func(*plane.Link)) error {
	if n == 0 {
		return nil
	}
	conns, err := t.take(ctx, env, d, n, options(t.spec))
	if err != nil {
		return err
	}
	for i, c := range conns {
		l, err := t.waiter.attach(c)
		if err != nil {
			err = fmt.Errorf("take over connection %d %s: %w", i+1, d, err)
			for _, rest := range conns[i:] {
				err = errors.Join(err, rest.Close())
			}
			return err
		}
		l.Limit(whole, whole)
		add(l)
	}
	return nil
}
