package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/model"
	"linerate/internal/panics"
)

// address says which end connects, which accepts, and at what address.
type address struct {
	connector, acceptor *session.Client
	host                string
}

// dataAddress decides which end connects.
func (a *attempt) dataAddress() (address, error) {
	d := address{connector: a.ends[0], acceptor: a.ends[1]}
	if cmp.Or(a.spec.Connector, a.Path.ConnectFrom) == model.Far {
		d.connector, d.acceptor = d.acceptor, d.connector
	}
	d.host = d.acceptor.DataHost()
	if d.acceptor == a.ends[0] {
		d.host = cmp.Or(a.Path.Bind, a.NearHost, d.host)
	}
	if d.host == "" {
		return d, fmt.Errorf("the address of %s for data connections is not known: name it, or let the other end accept", d.acceptor.Name())
	}
	return d, nil
}

// end is one end of a run in progress.
type end struct {
	client   *session.Client
	ready    chan struct{} // closed at Ready
	measured chan struct{} // closed at Measured or Result
	failed   chan struct{} // closed when err is set
	done     chan struct{} // closed when report or err is set
	report   model.EndReport
	err      error
}

// measure opens the connections, generates traffic and stores the reports.
func (a *attempt) measure(ctx context.Context, d address) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	if err := a.prepare(ctx, d); err != nil {
		a.dropBoth(ctx)
		if errors.Is(err, session.ErrBusy) { // another session has the resources, for now
			err = invalid("%w", err)
		}
		return err
	}
	near, far := a.follow(ctx, a.ends[0], &following), a.follow(ctx, a.ends[1], &following)
	if err := bothReady(ctx, near, far); err != nil {
		return lostOrInvalid(ctx, err)
	}
	first, second := far, near // the receiver, then the sender
	if a.flow.Direction == model.From {
		first, second = near, far
	}
	for _, e := range []*end{first, second} {
		if err := e.client.Start(ctx, a.wire); err != nil {
			return lostOrInvalid(ctx, err)
		}
	}
	if err := a.complete(ctx, first, second); err != nil {
		return err
	}
	a.run.Ends = []model.EndReport{near.report, far.report}
	return nil
}

// prepare prepares the acceptor, then the connector.
func (a *attempt) prepare(ctx context.Context, d address) error {
	_, err := a.preparedAt(ctx, d)
	return err
}

// preparedAt is prepare, and returns the acceptor's port.
func (a *attempt) preparedAt(ctx context.Context, d address) (int, error) {
	p := session.Preparation{Run: a.wire, Flow: a.flow, Token: token(), Ports: a.Path.Ports}
	forwarded := d.acceptor.Forwarded()
	if forwarded != nil {
		p.Ports, p.Loopback = model.Ports{First: forwarded.Port, Last: forwarded.Port}, true
	}
	p.Egress = a.egress(d.acceptor)
	port, err := d.acceptor.Prepare(ctx, p)
	if err != nil {
		return 0, err
	}
	fixed := d.acceptor.DataPort()
	if port != 0 && fixed == 0 && !p.Ports.Has(port) {
		return port, fmt.Errorf("%w: %s accepts data connections at port %d instead of %s", session.ErrInvalid, d.acceptor.Name(), port, p.Ports)
	}
	if fixed != 0 {
		port = fixed
	}
	p.Ports, p.Loopback = model.Ports{}, false
	p.Connect = net.JoinHostPort(d.host, strconv.Itoa(port))
	if forwarded != nil {
		p.Connect = forwarded.Addr
	}
	if port == 0 {
		return 0, fmt.Errorf("prepare run on %s: it opened no port for data connections", d.acceptor.Name())
	}
	p.Egress = a.egress(d.connector)
	_, err = d.connector.Prepare(ctx, p)
	return port, err
}

// egress returns the address or device that an end sends its data from.
func (a *attempt) egress(c *session.Client) model.Egress {
	if c == a.ends[0] {
		return a.Path.Egress
	}
	return a.Path.MarkOnly()
}

// dropBoth drops what was prepared on either end.
func (a *attempt) dropBoth(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // each call has its own timeout
	// An end that is out of reach drops it after its own timeout.
	_ = each(a.ends[:], func(c *session.Client) error { return c.Stop(ctx, a.wire) })
}

// follow reads the events of one end until its result, or ctx ends.
func (a *attempt) follow(ctx context.Context, c *session.Client, following *sync.WaitGroup) *end {
	e := &end{client: c, ready: make(chan struct{}), measured: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{})}
	following.Go(func() {
		defer close(e.done)
		var measured sync.Once
		got := false
		onEvent := func(ev session.Event) {
			switch ev.Kind {
			case session.Ready:
				close(e.ready)
				for _, w := range ev.Warnings {
					a.warn("%s: %s", c.Name(), w)
				}
			case session.Samples:
				a.sampled(c.Host(), ev.Samples)
			case session.Measured:
				measured.Do(func() { close(e.measured) })
			case session.Result:
				e.report, got = ev.Report, true
				measured.Do(func() { close(e.measured) })
			}
		}
		err := panics.Call(func() error { return c.Run(ctx, a.wire, onEvent) })
		if !got {
			e.err = err
			close(e.failed)
		}
	})
	return e
}

func (a *attempt) sampled(h model.Host, s []model.Sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.emit != nil {
		a.emit(h, s)
	}
}

// bothReady waits until both ends are ready.
func bothReady(ctx context.Context, ends ...*end) error {
	late := time.NewTimer(2 * openingTime) // an agent gives up long before
	defer late.Stop()
	for _, e := range ends {
		select {
		case <-e.ready:
			continue
		case <-ends[0].done:
		case <-ends[1].done:
		case <-late.C:
			return fmt.Errorf("%s did not get ready", e.client.Name())
		case <-ctx.Done():
			return ctx.Err()
		}
		return firstError(ctx, ends)
	}
	return nil
}

// firstError returns the errors of the ends that have failed so far.
func firstError(ctx context.Context, ends []*end) error {
	var errs []error
	for _, e := range ends {
		select {
		case <-e.done:
			if e.err != nil {
				errs = append(errs, e.err)
			}
		default:
		}
	}
	if err := join(errs...); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("an end finished before it began")
}

// complete waits for the measuring ends, stops the end that still sends and waits for both
// results. first is the receiver of a single direction.
func (a *attempt) complete(ctx context.Context, first, second *end) error {
	ends := []*end{first, second}
	limit := session.MaxDuration
	if a.flow.Duration > 0 {
		limit = a.flow.Length() + overtime
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	waitFor := []<-chan struct{}{first.done}
	if a.flow.Direction == model.Both {
		waitFor = []<-chan struct{}{first.measured, second.measured}
	}
	for _, ch := range waitFor {
		select {
		case <-ch:
			continue
		case <-first.failed:
		case <-second.failed:
		case <-late.C:
			a.warn("the run was stopped: it took %v longer than planned", overtime)
		case <-ctx.Done():
			return ctx.Err()
		}
		break
	}
	if err := greedy(ends); err != nil {
		return err // its connection is cut, and the other end is not needed any more
	}
	if err := each(a.ends[:], func(c *session.Client) error { return c.Stop(ctx, a.wire) }); err != nil {
		return cutOff(ctx, lostOrInvalid(ctx, err), ends)
	}
	grace := time.NewTimer(overtime)
	defer grace.Stop()
	for _, e := range ends {
		select {
		case <-e.done:
		case <-grace.C:
			return fmt.Errorf("%w: %s did not end the run when it was told to", ErrStuck, e.client.Name())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return cutOff(ctx, lostOrInvalid(ctx, join(first.err, second.err)), ends)
}

// lastWords is how long a stopped end may take to report after contact with the other one was
// lost.
const lastWords = 3 * time.Second

// cutOff adds to a loss of contact the warnings about its cause from ends that still report.
func cutOff(ctx context.Context, err error, ends []*end) error {
	if !errors.Is(err, ErrContact) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	for _, e := range ends {
		select {
		case <-e.done:
		case <-ctx.Done(): // the lost one
		}
		select { // the other one has reported meanwhile
		case <-e.done:
			if cut := diagnose.CutOff(e.report); e.err == nil && len(cut) > 0 {
				err = fmt.Errorf("%w; meanwhile on %s: %s", err, e.client.Name(), strings.Join(cut, "; "))
			}
		default:
		}
	}
	return err
}

// greedy returns the error of an end that sent more than its run allows.
func greedy(ends []*end) error {
	for _, e := range ends {
		select {
		case <-e.failed:
			if errors.Is(e.err, ErrGreedy) {
				return e.err
			}
		default:
		}
	}
	return nil
}

// lostOrInvalid returns err unchanged if contact is lost, the agent is not to be trusted, a
// host refuses what the run needs or the caller gave up. Otherwise err becomes the reason why
// the run does not count.
func lostOrInvalid(ctx context.Context, err error) error {
	refused := errors.Is(err, session.ErrRefused) || errors.Is(err, fs.ErrPermission)
	if err == nil || ctx.Err() != nil || refused || errors.Is(err, ErrContact) || errors.Is(err, ErrGreedy) {
		return err
	}
	return invalid("%w", err)
}
