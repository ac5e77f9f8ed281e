// Package mesh measures all pairs of several hosts, in both directions. Every host has an
// agent for the whole measurement; in each round a host is in at most one pair.
package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/control/runner"
	"linerate/internal/core/fact"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/odd"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Store stores the session and runs of a mesh.
type Store interface {
	CreateSession(ctx context.Context, s model.Session) error
	UpdateSession(ctx context.Context, s model.Session) error
	AddRun(ctx context.Context, sessionID string, r model.Run, s []model.Sample, c []model.Change) error
}

// Host is a host to measure.
type Host struct {
	Name   string // "" for the name in its target
	Target target.Target
}

// Request says what to measure.
type Request struct {
	Hosts   []Host
	Rounds  int // how often to measure every pair, 1…; medians count
	AtOnce  int // most pairs at a time; 0 for as many as have no host in common
	Streams int
	Time    time.Duration // measured in each run
	Title   string
	Command []string // command line, without secrets
	Seed    uint64   // of the order of pairs
}

// Defaults of a request (fleet.md section 4).
const (
	DefaultStreams = 4
	probing        = time.Second // how long to probe the latency without load
	warmup         = time.Second
)

// Validate reports requests that cannot be measured.
func (q Request) Validate() error {
	if n := len(q.Hosts); n < 2 || n > fleet.MostHosts {
		return fault.WithHint(fault.Usagef("a mesh has 2 to %d hosts, and this one has %d", fleet.MostHosts, n), "name more hosts: linerate mesh user@nas user@pi; this machine is one of them unless --without-here says otherwise")
	}
	names := q.names()
	for i, h := range q.Hosts {
		if k := h.Target.Kind; k == target.Lab || k == target.Foreign {
			return fault.WithHint(fault.Usagef("%s: every host of a mesh runs linerate by itself", h.Target), "name hosts over ssh (user@host), a linerate serve, or exec:ADDRESS COMMAND")
		}
		if slices.ContainsFunc(q.Hosts[:i], func(o Host) bool { return o.Target.Text == h.Target.Text }) {
			return fault.Usagef("%s is named twice", h.Target)
		}
		if slices.Contains(names[:i], names[i]) {
			return fault.WithHint(fault.Usagef("two hosts have the name %s", names[i]), "give one another name: NAME=HOST")
		}
	}
	return nil
}

// names returns the names of the hosts: those given, else those in the targets.
func (q Request) names() []string {
	names := model.EndNames(lists.Each(q.Hosts, func(h Host) string { return h.Target.Text }))
	for i, h := range q.Hosts {
		names[i] = cmp.Or(h.Name, names[i])
	}
	return names
}

// flow is the traffic of a run: the latency alone, then bulk TCP with probes beside it.
func (q Request) flow() model.Flow {
	f := probes.Over(model.Flow{Engine: bulk.Name, Direction: model.To, Streams: q.Streams, Omit: warmup, Duration: q.Time, Interval: min(q.Time, time.Second)})
	f.Lead = probing
	return f
}

// mesh is a mesh that is being measured.
type mesh struct {
	Request
	env     app.Env
	opener  *target.Opener
	store   Store
	runner  *runner.Runner // all pairs share its run numbers
	hosts   []*host
	stop    context.CancelCauseFunc
	began   time.Time
	spent   time.Duration // by finished rounds
	rounds  int           // finished
	planned int           // rounds in all
	pairs   int           // in all

	mu      sync.Mutex // guards the fields below
	session model.Session
	runs    int // begun
	done    int // pairs
	problem map[string]string
	from    map[fleet.Pair]model.Host // the end that connects, if known
}

// Run measures the mesh and returns its session as stored. Hosts that cannot be reached, and
// pairs that cannot be measured, are noted in the session and end nothing. When ctx ends, the
// session keeps the pairs that are done.
func Run(ctx context.Context, env app.Env, o *target.Opener, st Store, q Request) (model.Session, error) {
	if err := q.Validate(); err != nil {
		return model.Session{}, err
	}
	now := env.Now()
	m := &mesh{
		Request: q, env: env, opener: o, store: st, runner: runner.New(nil, nil, env.Now, env.Kinds()), problem: map[string]string{}, from: map[fleet.Pair]model.Host{},
		session: model.Session{
			ID: trial.NewSessionID(now), Kind: model.KindMesh, Title: q.Title, Command: q.Command, Version: env.Version, Created: now.Round(0), State: model.SessionRunning,
			WireRate: fact.Unknown[units.BitRate]("a mesh has many paths"), Mesh: &model.Mesh{Rounds: q.Rounds, AtOnce: q.AtOnce},
		},
	}
	defer m.hangUp()
	m.open(ctx)
	if err := ctx.Err(); err != nil {
		return m.session, err
	}
	if err := m.enough(); err != nil {
		return m.session, err
	}
	rounds := m.draw()
	keep := context.WithoutCancel(ctx)
	if err := st.CreateSession(keep, m.session); err != nil {
		return m.session, fault.WithKind(fault.Store, err)
	}
	err := m.measure(ctx, rounds)
	m.conclude(err)
	return m.session, errors.Join(err, fault.WithKind(fault.Store, st.UpdateSession(keep, m.session)), m.nothing(err))
}

// measure carries out the rounds. An error ends them early.
func (m *mesh) measure(ctx context.Context, rounds [][]fleet.Pair) error {
	ctx, m.stop = context.WithCancelCause(ctx)
	defer m.stop(nil)
	m.began = m.env.Now()
	m.env.Observe(app.MeshBegan{Session: m.session, Pairs: m.pairs, Rounds: len(rounds), Takes: m.left()})
	for _, pairs := range rounds {
		var all sync.WaitGroup
		for _, p := range pairs {
			all.Go(func() { m.pair(ctx, p) })
		}
		all.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m.mu.Lock()
		m.rounds++
		m.spent = m.env.Now().Sub(m.began)
		m.mu.Unlock()
	}
	return nil
}

// left estimates how long the remaining rounds take.
func (m *mesh) left() time.Duration {
	each := 2 * (m.session.Plan.Flow.Length() + plan.Beside)
	if m.rounds > 0 {
		each = m.spent / time.Duration(m.rounds)
	}
	all := each * time.Duration(m.planned-m.rounds)
	return max(0, all-(m.env.Now().Sub(m.began)-m.spent))
}

// pair measures two hosts, one direction after the other. No other pair uses them meanwhile.
func (m *mesh) pair(ctx context.Context, p fleet.Pair) {
	near, far := m.hosts[p.Near], m.hosts[p.Far]
	var rates [2]units.BitRate
	problem := ""
	note := func(way string, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.problem[way] = ""; err != nil {
			m.problem[way], problem = fault.Sentence(err), err.Error()
		}
	}
	drop := func() {
		near.drop(m.env, model.Near)
		far.drop(m.env, model.Far)
	}
	r, connector, err := m.between(ctx, p)
	reopen := func() { // an agent may have died since the previous pair
		if errors.Is(err, runner.ErrContact) && ctx.Err() == nil {
			drop()
			r, connector, err = m.between(ctx, p)
		}
	}
	reopen()
	if _, closed := errors.AsType[*runner.Closed](err); serves(near, far) && (closed || app.Refused(err)) {
		err = errLeftOut
	}
	for i, d := range []model.Direction{model.To, model.From} {
		way := []string{wayName(near, far), wayName(far, near)}[i]
		if err != nil || ctx.Err() != nil {
			note(way, errors.Join(err, ctx.Err()))
			continue
		}
		var run model.Run
		if run, err = m.run(ctx, r, way, d, connector); errors.Is(err, runner.ErrInvalid) && ctx.Err() == nil {
			run, err = m.run(ctx, r, way, d, connector) // once more: a busy host may spoil a run
		}
		if errors.Is(err, runner.ErrContact) {
			if reopen(); err == nil {
				run, err = m.run(ctx, r, way, d, connector)
			}
		}
		if v, ok := run.Value(d, model.Goodput); ok && run.State == model.RunValid {
			rates[i] = units.BitRate(v)
		}
		note(way, err)
		if err != nil && !errors.Is(err, runner.ErrInvalid) && ctx.Err() == nil { // the sessions may no longer be usable
			drop()
		}
		if errors.Is(err, runner.ErrInvalid) {
			err = nil // it says nothing about the way back
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() == nil {
		m.done++
		m.env.Observe(app.PairMeasured{Near: near.name, Far: far.name, There: rates[0], Back: rates[1], Problem: problem, Done: m.done, Pairs: m.pairs, Left: m.left()})
	}
}

// knockTime is how long a data connection may take to open; a lost SYN is retransmitted after
// 1 s (RFC 6298 section 2).
const knockTime = 4 * time.Second

// between returns a runner for a pair, and the end that can connect to the other one.
func (m *mesh) between(ctx context.Context, p fleet.Pair) (*runner.Runner, model.Host, error) {
	near, far := m.hosts[p.Near], m.hosts[p.Far]
	a, err := near.session(ctx, m, model.Near)
	if err != nil {
		return nil, "", err
	}
	b, err := far.session(ctx, m, model.Far)
	if err != nil {
		return nil, "", err
	}
	r := m.runner.Between(a, b)
	r.NearHost = near.facts.Address
	m.mu.Lock()
	connector, known := m.from[p]
	m.mu.Unlock()
	if known {
		return r, connector, nil
	}
	spec := runner.Spec{Flow: model.Flow{Engine: bulk.Name, Direction: model.To, Streams: 1, Duration: time.Second, Interval: time.Second}, Connector: model.Near}
	err = r.Knock(ctx, spec, knockTime)
	if _, closed := errors.AsType[*runner.Closed](err); (closed || app.Refused(err)) && near.facts.Address != "" {
		spec.Connector = model.Far
		if r.Knock(ctx, spec, knockTime) == nil {
			err = nil
		}
	}
	if err == nil {
		m.mu.Lock()
		m.from[p] = spec.Connector
		m.mu.Unlock()
	}
	if closed, is := errors.AsType[*runner.Closed](err); is {
		err = fault.New(fault.Unreachable, closed, "does a firewall let TCP through between them? --data-port of linerate test names one port")
	}
	return r, spec.Connector, err
}

// run measures one direction and stores the run.
func (m *mesh) run(ctx context.Context, r *runner.Runner, way string, d model.Direction, connector model.Host) (model.Run, error) {
	m.mu.Lock()
	m.runs++
	number := m.runs
	m.mu.Unlock()
	f := m.session.Plan.Flow
	f.Direction = d
	var samples []model.Sample
	run, _, err := r.Run(ctx, runner.Spec{
		Number: number, Block: number, Attempt: 1, Position: 1, Setting: model.Setting{Name: way}, Flow: f, Connector: connector,
	}, func(_ model.Host, some []model.Sample) { samples = append(samples, some...) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session.Runs = append(m.session.Runs, run)
	if serr := m.store.AddRun(context.WithoutCancel(ctx), m.session.ID, run, samples, nil); serr != nil {
		m.stop(fault.WithKind(fault.Store, serr)) // no need to measure what cannot be stored
	}
	return run, err
}

// conclude writes the outcome into the session; why is the error that ended it early, if any.
func (m *mesh) conclude(why error) {
	s := &m.session
	slices.SortFunc(s.Runs, func(a, b model.Run) int { return a.Number - b.Number })
	for i, h := range m.hosts {
		s.Mesh.Hosts[i] = h.stored()
	}
	for i := range s.Mesh.Ways {
		w := &s.Mesh.Ways[i]
		valid := func(r model.Run) bool { return r.Setting == w.Name && r.State == model.RunValid }
		if m.hosts[w.From].gone == nil && m.hosts[w.To].gone == nil && !slices.ContainsFunc(s.Runs, valid) && why == nil {
			if w.Problem = m.problem[w.Name]; w.Problem == errLeftOut.Error() {
				w.Problem, w.LeftOut = "", w.Problem
			}
		}
	}
	s.Ended = m.env.Now()
	s.State, s.Reason = model.SessionDone, "all pairs are done"
	switch {
	case errors.Is(why, context.Canceled):
		s.State, s.Reason = model.SessionInterrupted, fmt.Sprintf("interrupted by the user after %d of %s", m.done, plain.Count(m.pairs, "pair"))
	case why != nil:
		s.State, s.Reason = model.SessionInterrupted, why.Error()
	case !trial.Measured(*s):
		s.State, s.Reason = model.SessionFailed, "nothing was measured"
	}
}

// nothing returns the error of a mesh that measured no pair, although it was not ended early.
func (m *mesh) nothing(why error) error {
	if why != nil || trial.Measured(m.session) {
		return nil
	}
	for _, w := range m.session.Mesh.Ways {
		if text := w.Problem + w.LeftOut; text != "" {
			return fault.WithKind(fault.Unreachable, fmt.Errorf("nothing was measured; %s: %s", w.Name, text))
		}
	}
	return fault.WithKind(fault.Untrusted, errors.New("nothing was measured"))
}

// Verdict returns an error if something in a session is odd, nil if not.
func Verdict(s *model.Session) error {
	names := lists.Each(odd.Session(s), func(t odd.Thing) string { return t.Name })
	if len(names) == 0 {
		return nil
	}
	return fault.WithKind(fault.Found, errors.New("odd: "+strings.Join(names, ", ")))
}
