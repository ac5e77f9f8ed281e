// Package member makes this machine a host of a fleet: a server to which other members measure
// with tickets of the hub, and a client of the hub, which orders what this host measures itself.
package member

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/app/serve"
	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/session"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fleet"
	"linerate/internal/core/lists"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
)

// Config says how to take part.
type Config struct {
	Hub    tls.Link
	Name   string // that this host would like to have; "" is its own
	Limits fleet.Limits
	Rejoin bool // makes a new key, for a copy of a host that takes part
	Serve  serve.Config
	// Simulate is for tests of many hosts on one machine: it returns the runs of an order in the
	// place of traffic, in a session with the far host.
	Simulate func(ctx context.Context, o wirefleet.Order, far *session.Client) ([]fleet.Run, error)
}

// Member is a host of a fleet whose ports are open.
type Member struct {
	env    app.Env
	c      Config
	server *serve.Server
	hub    wirefleet.Client
	guard  *guard
	spool  spool
	boot   string
	lost   atomic.Int64
	wake   chan struct{} // results wait

	mu     sync.Mutex
	seen   map[int64]int64 // orders that were taken, with the ends of their windows
	timers sync.WaitGroup
}

// spoolDir holds results that wait for the hub, below the state directory.
const spoolDir = "fleet"

// Open opens the port for other members. The caller calls Run.
func Open(ctx context.Context, env app.Env, c Config) (*Member, error) {
	if c.Hub.Pin == "" {
		return nil, fault.WithHint(fault.Usagef("--hub: the link has no pin"), "use the whole link that linerate hub prints")
	}
	if c.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fault.WithHint(err, "name this host: --name NAME")
		}
		c.Name = name
	}
	dir, err := local.StateDir(c.Serve.State)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	m := &Member{env: env, c: c, boot: rand.Text(), spool: spool{dir: filepath.Join(dir, spoolDir), files: durable.OS{}}, wake: make(chan struct{}, 1), seen: map[int64]int64{}}
	m.guard = newGuard(m.limits)
	if c.Rejoin {
		if err := serve.NewKey(c.Serve.State); err != nil {
			return nil, err
		}
	}
	c.Serve.Tickets, c.Serve.Writes = m.guard, []string{m.spool.dir}
	if m.server, err = serve.Open(ctx, env, c.Serve); err != nil {
		return nil, err
	}
	m.hub = wirefleet.Client{HTTP: tls.Web(c.Hub, m.server.Identity(), m.guard.learn), Token: c.Hub.Secret}
	if err := m.spool.reclaim(); err != nil {
		m.server.Close()
		if errors.Is(err, fs.ErrPermission) {
			err = fault.WithHint(err, "an agent that root starts gives up root: let every user pass the folders above %s, or name another one with --state", m.spool.dir)
		}
		return nil, err
	}
	return m, nil
}

// limits returns the owner's limits, with the time zone of now.
func (m *Member) limits() fleet.Limits {
	l := m.c.Limits
	if l.Quiet != nil {
		q := *l.Quiet
		_, zone := m.env.Now().Zone()
		q.Zone = int64(zone)
		l.Quiet = &q
	}
	return l
}

// Run takes part until ctx ends, or the hub refuses this host for good.
func (m *Member) Run(ctx context.Context) error {
	defer m.server.Close()
	whole := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	all.Go(func() { cancel(m.server.Run(ctx)) })
	all.Go(func() { cancel(m.syncing(ctx)) })
	all.Go(func() { m.pushing(ctx) })
	all.Wait()
	m.timers.Wait()
	if whole.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

func (m *Member) say(format string, args ...any) {
	m.env.Observe(app.Serving{Line: fmt.Sprintf(format, args...)})
}

// Pauses after a call that failed.
const (
	shortest = time.Second
	longest  = time.Minute
)

// pause waits longer after each failure, with jitter: all agents of a hub miss it at once.
func pause(ctx context.Context, failures int) {
	d := min(longest, shortest<<min(failures, 6))
	var b [1]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	select {
	case <-time.After(d/2 + d/2*time.Duration(b[0])/255):
	case <-ctx.Done():
	}
}

// syncing tells the hub of this host and takes orders. It returns an error that no later call
// would mend.
func (m *Member) syncing(ctx context.Context) error {
	failures, name, restarted := 0, "", time.Time{}
	for ctx.Err() == nil {
		in, err := m.about()
		if err != nil {
			return err
		}
		in.First = name == ""
		var out wirefleet.Synced
		call, cancel := context.WithTimeout(ctx, 2*time.Minute)
		sent := time.Now()
		err = m.hub.Call(call, "/fleet/v1/sync", in, &out, 4)
		got := time.Now()
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, wirefleet.ErrTwin) && time.Since(restarted) > time.Hour:
			// A hub that hung may have heard of the process before this one last: this is the later start.
			m.boot, name, restarted = rand.Text(), "", time.Now()
			continue
		case errors.Is(err, wirefleet.ErrTwin):
			return fault.New(fault.Unreachable, fmt.Errorf("hub: %w", err), "one of the two is a copy of the other's disk: start linerate agent there once with the same flags and --rejoin")
		case errors.Is(err, wirefleet.ErrDenied), errors.Is(err, wirefleet.ErrVersion), errors.Is(err, tls.ErrPin):
			return fault.WithKind(fault.Unreachable, fmt.Errorf("hub: %w", err))
		case err != nil:
			if failures == 0 {
				then := "this host follows the orders that it has, and keeps results"
				if name == "" {
					then = "this host has not joined yet; trying again: are the address and port right?"
				}
				m.say("the hub does not answer: %v; %s", err, then)
			}
			failures++
			pause(ctx, failures)
			continue
		}
		if name == "" && strings.HasPrefix(out.Name, m.c.Name+"-") {
			m.say("%s is taken; this host is %s", m.c.Name, out.Name)
		}
		if failures > 0 || name == "" {
			m.say("%s is a host of the fleet, in touch with the hub at %s", out.Name, m.c.Hub.Addr)
			m.stir()
		}
		failures, name = 0, out.Name
		m.guard.set(out.Host, time.Unix(0, out.Now), sent, got, time.Duration(out.Waited))
		if out.Drained != m.guard.drained() {
			m.guard.drain(out.Drained)
			switch out.Drained {
			case 0:
				m.say("this host measures again")
			case fleet.Endless:
				m.say("the hub's operator drained this host: it measures nothing until it is resumed")
			default:
				m.say("the hub's operator drained this host: it measures nothing for %s", units.FormatDuration(m.guard.left(out.Drained).Round(time.Second)))
			}
		}
		for _, o := range out.Orders {
			m.take(ctx, o)
		}
	}
	return nil
}

// about returns what this host says of itself.
func (m *Member) about() (*wirefleet.Sync, error) {
	_, port, err := net.SplitHostPort(m.server.Addr().String())
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	hosts := m.server.Hosts()
	if m.c.Serve.Host == "" { // a name of this host may be another one's elsewhere
		hosts = slices.DeleteFunc(hosts, func(h string) bool { _, err := netip.ParseAddr(h); return err != nil })
	}
	in := &wirefleet.Sync{
		Protocol: wirefleet.Protocol, Session: session.Protocol, Version: m.env.Version, Boot: m.boot, Name: m.c.Name, Addrs: hosts, Port: number,
		Limits: m.limits(), Clock: m.env.Now().UnixNano(), Lost: int(m.lost.Load()), Drained: m.guard.drained(),
	}
	waiting, err := m.spool.numbers()
	if err != nil { // the disk may come back
		m.env.Observe(app.Trouble{Err: err})
	}
	in.Waiting = len(waiting)
	now := m.guard.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, until := range m.seen {
		if until < now { // the hub does not order it again
			delete(m.seen, id)
			continue
		}
		in.Have = append(in.Have, id)
	}
	return in, nil
}

// stir wakes pushing.
func (m *Member) stir() {
	select {
	case m.wake <- struct{}{}:
	default: // it is awake already
	}
}

// pushing delivers results, the oldest first, until ctx ends. It tries again whenever a result
// comes or the hub answers after a silence.
func (m *Member) pushing(ctx context.Context) {
	for failures := 0; ; {
		results, err := m.spool.oldest(wirefleet.MostResults)
		if err == nil && len(results) > 0 {
			var out wirefleet.Pushed
			call, cancel := context.WithTimeout(ctx, time.Minute)
			if err = m.hub.Call(call, "/fleet/v1/push", wirefleet.Push{Results: results}, &out, 1); err == nil {
				err = m.spool.forget(out.Kept)
			}
			cancel()
			if errors.Is(err, wirefleet.ErrInvalid) && len(results) > 0 { // another version's: it would never get in
				m.env.Observe(app.Trouble{Err: fmt.Errorf("the hub cannot read %d results, which are dropped: %w", len(results), err)})
				m.lost.Add(int64(len(results)))
				err = m.spool.forget(lists.Each(results, func(r fleet.Lease) int64 { return r.ID }))
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			pause(ctx, failures)
			continue
		case len(results) == wirefleet.MostResults:
			continue
		}
		failures = 0
		select {
		case <-m.wake:
		case <-ctx.Done():
			return
		}
	}
}

// Orders with longer windows or for a later time are not of a hub that works.
const (
	longestWindow = 600 // s
	farthest      = 3 * time.Hour
)

// take waits for the window of an order, unless it has it already, and then measures.
func (m *Member) take(ctx context.Context, o wirefleet.Order) {
	l := o.Lease
	if l.Until-l.From > longestWindow || m.guard.left(l.From) > farthest {
		return
	}
	m.mu.Lock()
	_, seen := m.seen[l.ID]
	m.seen[l.ID] = l.Until
	m.mu.Unlock()
	if seen || m.spool.has(l.ID) {
		return
	}
	m.timers.Go(func() {
		for wait := m.guard.left(o.Lease.From); wait > 0; wait = m.guard.left(o.Lease.From) {
			select {
			case <-time.After(min(wait, time.Minute)): // the reading of the hub's clock may get better
			case <-ctx.Done():
				return
			}
		}
		m.carry(ctx, o)
	})
}

// carry measures a lease and stores its result.
func (m *Member) carry(ctx context.Context, o wirefleet.Order) {
	l := o.Lease
	l.State = fleet.Skipped
	now := m.guard.now()
	if now > l.From+late {
		l.Reason = "late"
	} else if err := m.guard.begin(l.ID, l.Span); err != nil {
		l.Reason = err.Error()
	} else {
		l.State = fleet.Planned
		if err := m.spool.put(l); err != nil { // a result would find no room either
			l.State, l.Reason = fleet.Skipped, "no room for the result"
			m.env.Observe(app.Trouble{Err: err})
		} else {
			o.Rate = m.guard.rate(o.Rate)
			l = m.measure(ctx, o)
		}
		m.guard.end(l.ID)
	}
	if err := m.spool.put(l); err != nil {
		m.lost.Add(1)
		m.env.Observe(app.Trouble{Err: fmt.Errorf("the result of %s is lost: %w", describe(&l, o.Far), err)})
		return
	}
	m.say("%s: %s", describe(&l, o.Far), outcome(&l))
	m.stir()
}

func describe(l *fleet.Lease, far string) string { return fmt.Sprintf("%s with %s", l.Kind, far) }

// outcome summarises a result in one line.
func outcome(l *fleet.Lease) string {
	if l.State != fleet.Done {
		return string(l.State) + ": " + l.Reason
	}
	var parts []string
	for _, r := range l.Runs {
		if r.Goodput != nil {
			parts = append(parts, fmt.Sprintf("%s %s", r.Direction, units.BitRate(*r.Goodput)))
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("%d runs", len(l.Runs))), ", ")
}

func secretOf(o wirefleet.Order) tls.Link {
	return tls.Link{Addr: o.Addr, Pin: o.Pin, Secret: base64.RawURLEncoding.EncodeToString(o.Ticket)}
}
