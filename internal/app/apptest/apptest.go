// Package apptest helps to test use cases: a scripted user that records questions and events,
// and two hosts in this process, over the real protocol.
package apptest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/wire"
	"linerate/internal/core/model"
)

// Person is a scripted user: it records the questions and events that it gets.
type Person struct {
	// Answer answers questions; nil means that there is no user.
	Answer func(ctx context.Context, q app.Question) (app.Answer, error)
	// On, if set, is called with every event, in the goroutine that reports it.
	On func(e app.Event)

	mu     sync.Mutex
	asked  []app.Question
	events []app.Event
}

// Ask implements app.Asker.
func (p *Person) Ask(ctx context.Context, q app.Question) (app.Answer, error) {
	p.mu.Lock()
	p.asked = append(p.asked, q)
	p.mu.Unlock()
	if p.Answer == nil {
		return app.Answer{}, app.ErrNoTerminal
	}
	return p.Answer(ctx, q)
}

// Observe implements app.Observer.
func (p *Person) Observe(e app.Event) {
	p.mu.Lock()
	p.events = append(p.events, e)
	p.mu.Unlock()
	if p.On != nil {
		p.On(e)
	}
}

// Asked returns the questions so far.
func (p *Person) Asked() []app.Question {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]app.Question{}, p.asked...)
}

// Events returns the events so far.
func (p *Person) Events() []app.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]app.Event{}, p.events...)
}

// Events returns the events of one type.
func Events[E app.Event](p *Person) []E {
	var all []E
	for _, e := range p.Events() {
		if one, ok := e.(E); ok {
			all = append(all, one)
		}
	}
	return all
}

// Env returns an Env whose user is p. It has no environment variables, and no program to
// start again.
func Env(p *Person) app.Env {
	return app.Env{
		Version: agenttest.Version, Self: []string{"linerate"}, Getenv: func(string) string { return "" }, Now: time.Now,
		Asker: p, Observer: p,
	}
}

// Bed is two agents in this process. Each connection to a host gets a new agent.
type Bed struct {
	// Dialing, if set, may refuse the n-th connection to a host, counted from 1.
	Dialing func(h model.Host, n int) error
	// Configure, if set, changes the configuration of the agent behind a connection.
	Configure func(h model.Host, n int, c *agent.Config)

	t     testing.TB
	mu    sync.Mutex
	knobs map[model.Host]*agenttest.Knobs
	lines map[model.Host]net.Conn
	dials map[model.Host]int
	ended sync.WaitGroup
}

// NewBed returns two hosts with the knobs of agenttest.
func NewBed(t testing.TB) *Bed {
	agenttest.NoLeaks(t)
	b := &Bed{t: t, knobs: map[model.Host]*agenttest.Knobs{}, lines: map[model.Host]net.Conn{}, dials: map[model.Host]int{}}
	for _, h := range []model.Host{model.Near, model.Far} {
		b.knobs[h] = agenttest.NewKnobs(h, agenttest.Values())
	}
	return b
}

// Dial connects to a host, for reach.Connect.
func (b *Bed) Dial(ctx context.Context, h model.Host) (wire.Peer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dials[h]++
	n := b.dials[h]
	if b.Dialing != nil {
		if err := b.Dialing(h, n); err != nil {
			return wire.Peer{}, err
		}
	}
	c := agenttest.Config(b.knobs[h])
	if b.Configure != nil {
		b.Configure(h, n, &c)
	}
	b.ended.Add(1)
	p := wire.Pipe(context.WithoutCancel(ctx), "host "+string(h), "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
		defer b.ended.Done()
		return agent.Serve(ctx, conn, c)
	})
	b.lines[h] = p.Control
	return p, nil
}

// Cut breaks the connection to a host, whose agent then ends and undoes what it
// changed.
func (b *Bed) Cut(h model.Host) {
	b.mu.Lock()
	line := b.lines[h]
	b.mu.Unlock()
	_ = line.Close()
}

// Knobs returns the knobs of a host.
func (b *Bed) Knobs(h model.Host) *agenttest.Knobs {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.knobs[h]
}

// Replace replaces the knobs of a host, for agents started from now on.
func (b *Bed) Replace(h model.Host, values map[model.KnobID]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.knobs[h] = agenttest.NewKnobs(h, values)
}

// Dials returns how many connections to a host were made.
func (b *Bed) Dials(h model.Host) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dials[h]
}

// Untouched waits for all agents to end and checks that both hosts hold their first values.
func (b *Bed) Untouched() {
	b.t.Helper()
	b.ended.Wait()
	for _, h := range []model.Host{model.Near, model.Far} {
		for id, want := range agenttest.Values() {
			if got := b.Knobs(h).Value(id); got != want {
				b.t.Errorf("%s of %s is %s, was %s", id, h, got, want)
			}
		}
	}
}
