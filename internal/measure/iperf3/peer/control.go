package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"linerate/internal/measure/iperf3"
	"linerate/internal/panics"
)

// control is the control connection of a test. Every read and write has a deadline, except the
// read of the next state while data flows, which runs in a goroutine: see follow.
type control struct {
	conn     net.Conn
	patience time.Duration
}

// heard is the next state, or the error of reading it.
type heard struct {
	state iperf3.State
	err   error
}

// say writes b.
func (c control) say(b []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

// state writes one state.
func (c control) state(s iperf3.State) error {
	if err := c.say([]byte{s.Byte()}); err != nil {
		return fmt.Errorf("send %v: %w", s, err)
	}
	return nil
}

// message writes one message, with more after it in the same segment.
func (c control) message(body []byte, more ...byte) error {
	b, err := iperf3.AppendFrame(nil, body)
	if err != nil {
		return err
	}
	return c.say(append(b, more...))
}

// listen sets the deadline of the following reads.
func (c control) listen() error { return c.conn.SetReadDeadline(time.Now().Add(c.patience)) }

// next reads one state.
func (c control) next() (iperf3.State, error) {
	if err := c.listen(); err != nil {
		return 0, err
	}
	return iperf3.ReadState(c.conn)
}

// read reads one message of at most limit bytes.
func (c control) read(limit int) ([]byte, error) {
	if err := c.listen(); err != nil {
		return nil, err
	}
	return iperf3.ReadFrame(c.conn, limit)
}

// follow reads the next state in a goroutine, without a deadline until hurry. Until it has
// arrived, no other function may read.
func (c control) follow() (<-chan heard, error) {
	if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	next := make(chan heard, 1)
	go func() {
		var h heard
		h.err = panics.Call(func() (err error) { h.state, err = iperf3.ReadState(c.conn); return err })
		next <- h
	}()
	return next, nil
}

// hurry sets a deadline for follow and returns the state.
func (c control) hurry(next <-chan heard) (iperf3.State, error) {
	if err := c.listen(); err != nil {
		return 0, err
	}
	h := <-next
	return h.state, h.err
}

// bind ends all waiting on the connection when ctx ends. The returned function undoes that.
func (c control) bind(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
}

// because returns ctx's cause instead of err if ctx has ended, since that caused err.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}
