package reqresp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/plane"
	"linerate/internal/panics"
)

// answerer is the answering end of one direction.
type answerer struct {
	direction model.Direction
	spec      spec
	waiter    waiter
	channel   *channel
	door      *door // for connections per request

	desks   []*desk
	marks   chan mark // from the asking end; closed when it ended
	broken  error     // reason for closing marks; nil if the asking end just ended
	running sync.WaitGroup
	fail    func(error) // ends the run because of a bug; set before begin
	closed  sync.Once
	failure error // error of close
}

// desk answers on one connection.
type desk struct {
	*answerer
	line     *plane.Link
	request  []byte
	reply    []byte
	_        [128]byte // each worker counts in a cache line of its own
	inWindow int64     // requests in the window
	sent     counter
	_        [128]byte
	reason   error // reason for an early end
}

func newAnswerer(d model.Direction, spec spec, p waiter, c *channel) *answerer {
	return &answerer{direction: d, spec: spec, waiter: p, channel: c, marks: make(chan mark, 2)}
}

// add adds a desk for a connection.
func (a *answerer) add(l *plane.Link) {
	a.desks = append(a.desks, &desk{
		answerer: a, line: l,
		request: make([]byte, a.spec.Block), reply: plane.Payload(int(a.spec.Requests.Reply)),
	})
}

// greet sends hello, with a port if the flow uses fresh connections.
func (a *answerer) greet(ctx context.Context) error {
	var h hello
	if a.spec.Requests.Connect {
		// Read of crypto/rand never fails.
		_, _ = rand.Read(h.cookie[:])
		var err error
		if a.door, err = openDoor(ctx, a, h.cookie); err != nil {
			return err
		}
		h.port = a.door.port()
	}
	err := a.channel.bounded(ctx, writePatience, func() error {
		_, err := a.channel.conn.Write(h.encode())
		return err
	})
	if err != nil {
		return fmt.Errorf("greet the asking end %s: %w", a.direction, err)
	}
	return nil
}

// begin starts to answer, announces it, and reads the asking end's marks.
func (a *answerer) begin() error {
	for _, d := range a.desks {
		a.running.Go(panics.From(a.fail, func() { a.waiter.work(func() { d.reason = d.serve() }) }))
	}
	if a.door != nil {
		a.running.Go(panics.From(a.fail, a.door.serve))
	}
	a.running.Go(panics.From(a.fail, a.listen))
	if err := a.channel.write(mark{kind: markReady}); err != nil {
		return fmt.Errorf("greet the asking end %s: %w", a.direction, err)
	}
	return nil
}

// listen forwards the marks of the asking end.
func (a *answerer) listen() {
	defer close(a.marks)
	// An asking end sends two: that the window opened, and that it is over.
	for range cap(a.marks) {
		m, err := a.channel.readMark(a.spec.Duration)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.broken = err
			}
			return
		}
		a.marks <- m
		if m.kind == markClose {
			return
		}
	}
}

// serve answers until the peer closes or it is stopped.
func (d *desk) serve() error {
	for {
		if err := d.line.Receive(d.request); err != nil {
			return d.ending(err)
		}
		measured, err := counted(d.request[0])
		if err != nil {
			return err
		}
		if measured {
			d.inWindow++
		}
		if err := d.line.Send(d.reply); err != nil {
			return d.ending(err)
		}
		d.sent.add(len(d.reply))
	}
}

// counted reports whether a request with that first byte is of the window.
func counted(first byte) (bool, error) {
	switch first {
	case asideByte:
		return false, nil
	case windowByte:
		return true, nil
	}
	return false, fmt.Errorf("a request begins with %q, which the protocol does not know", first)
}

// ending returns err, or nil if that is a normal end of a connection.
func (d *desk) ending(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// halt stops all desks and waits for them.
func (a *answerer) halt() {
	a.channel.interrupt()
	for _, d := range a.desks {
		d.line.Interrupt()
	}
	if a.door != nil {
		a.door.shut()
	}
	a.running.Wait()
}

// flow returns this end's report of the direction: the requests in the window, whose length the
// asking end sends.
func (a *answerer) flow(m mark) model.FlowReport {
	r := model.FlowReport{Direction: a.direction, Role: model.Receiver, Window: m.window}
	for _, d := range a.desks {
		r.Streams = append(r.Streams, units.Bytes(d.inWindow)*a.spec.Block)
	}
	if a.door != nil {
		// The wire does not say to which of the asking end's workers a connection belongs.
		r.Streams = []units.Bytes{units.Bytes(a.door.inWindow.Load()) * a.spec.Block}
	}
	for _, n := range r.Streams {
		r.Bytes += n
	}
	return r
}

// faults returns the errors of connections that ended early.
func (a *answerer) faults() []error {
	var all []error
	for _, d := range a.desks {
		if d.reason != nil {
			all = append(all, d.reason)
		}
	}
	return all
}

// close closes the connections.
func (a *answerer) close() error {
	a.closed.Do(func() {
		errs := []error{a.channel.close()}
		for _, d := range a.desks {
			errs = append(errs, d.line.Close())
		}
		if a.door != nil {
			a.door.shut()
		}
		a.failure = errors.Join(errs...)
	})
	return a.failure
}
