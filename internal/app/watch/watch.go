// Package watch looks at the paths to hosts again and again, and tells when one has become
// another one than it was: how far, since when, and what changed on the hosts then. Each look
// is a session of its own; all that is known of a path follows from those that are stored.
package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/reach"
	"linerate/internal/app/trial"
	"linerate/internal/core/fact"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Store keeps the looks.
type Store interface {
	trial.Store
	Session(ctx context.Context, id string) (model.Session, error)
	Brief(ctx context.Context, id string) (model.Session, error)
	// Looks lists the looks at a far target since a time, the oldest first.
	Looks(ctx context.Context, far string, since time.Time) ([]model.Item, error)
}

// Request says what to look at, and how.
type Request struct {
	Hosts     []reach.Target
	Every     time.Duration
	ProbeOnly bool
	Streams   int
	Time      time.Duration // measured by each run of bulk
	Margin    float64       // ln of the least change that is told
	Path      model.DataPath
	Seed      uint64
	Command   []string // as it was asked for, without secrets
}

// The parts of a look.
const (
	probing = time.Second     // round trips without load
	burst   = 2 * time.Second // of datagrams: 170 of full size, about as many as the fleet's bursts have (fleet.md section 6.4)
	warmup  = time.Second
	// DefaultStreams is as in a mesh (fleet.md section 4).
	DefaultStreams = 4
	// Shortest is the least time from one look to the next.
	Shortest = time.Minute
	// retry is how soon a host is looked for again that could not be reached; it doubles.
	retry = time.Minute
	// kept is how long looks count: twice what a reference is made from.
	kept = 56 * 24 * time.Hour
	// missed is how many looks in a row a host is away before that is told.
	missed = 2
	// jump is how far the clock may go another way than time does, before a look does not
	// count: this machine slept, or its clock was set.
	jump = 5 * time.Second
)

// Validate reports what cannot be watched.
func (q Request) Validate() error {
	for i, t := range q.Hosts {
		switch {
		case t.Kind == reach.Foreign:
			return fault.WithHint(fault.Usagef("%s: a host that is watched runs linerate", t), "name a host over ssh (user@host), a linerate serve, or exec:ADDRESS COMMAND")
		case slices.ContainsFunc(q.Hosts[:i], func(o reach.Target) bool { return o.Text == t.Text }):
			return fault.Usagef("%s is named twice", t)
		}
	}
	if q.Every < Shortest {
		return fault.Usagef("--every: %s is shorter than %s", units.FormatDuration(q.Every), units.FormatDuration(Shortest))
	}
	return reach.Carries(q.Path, q.flow(series.Probes))
}

// part is a run of a look.
type part struct {
	name      string
	direction model.Direction
}

func (q Request) parts() (all []part) {
	names := []string{series.Probes, series.Bulk}
	if q.ProbeOnly {
		names = names[:1]
	}
	for _, name := range names {
		all = append(all, part{name, model.To}, part{name, model.From})
	}
	return all
}

func (q Request) flow(name string) model.Flow {
	if name == series.Bulk {
		return model.Flow{Engine: bulk.Name, Streams: q.Streams, Omit: warmup, Duration: q.Time, Interval: min(q.Time, time.Second)}
	}
	f := probes.Over(model.Flow{Engine: udp.Name, Streams: 1, Duration: burst, Interval: time.Second, Params: traffic.Write(udp.Params{Rate: udp.DefaultRate})})
	f.Lead = probing
	return f
}

// Bytes are what a look at a path sends that carries so much to and from the host, without the
// runs that follow a suspicion.
func (q Request) Bytes(to, from units.BitRate) units.Bytes {
	sent := 2 * float64(udp.DefaultRate) * burst.Seconds()
	if !q.ProbeOnly {
		sent += float64(to+from) * (warmup + q.Time).Seconds()
	}
	return units.Bytes(sent / 8)
}

// Outcome is what came of a look.
type Outcome struct {
	Host    reach.Target
	Path    *series.Path
	Session model.Session
	Told    *series.Told         // nil where nothing has changed
	Changed []fingerprint.Change // on the hosts, in the same time as Told
	Away    bool                 // it could not be reached, for the first time that this is told
	Back    bool                 // it can be reached again, and that it could not was told
	Err     error                // why the look does not count
}

// Watch looks at hosts.
type Watch struct {
	Request
	Env   app.Env
	Open  func(ctx context.Context, near, far reach.Target) (*reach.Ends, error)
	Store Store
	Tell  func(context.Context, Outcome) // is told of each look

	paths   map[string]*series.Path                                                                 // by the text of a target
	measure func(ctx context.Context, l *look, h reach.Target, at time.Time) (model.Session, error) // tests: in place of look.measure
}

// Path returns what is known of the path to a far target.
func (w *Watch) Path(ctx context.Context, far string) (*series.Path, error) {
	if p := w.paths[far]; p != nil {
		return p, nil
	}
	now := w.Env.Now()
	items, err := w.Store.Looks(ctx, far, now.Add(-kept))
	if err != nil {
		return nil, err
	}
	p := &series.Path{Margin: w.Margin}
	for _, i := range items {
		if i.Created.After(now) {
			continue // the clock was wrong then, or is now
		}
		s, err := w.Store.Brief(ctx, i.ID)
		if err != nil {
			return nil, err
		}
		p.Take(&s, now.Location())
	}
	if w.paths == nil {
		w.paths = map[string]*series.Path{}
	}
	w.paths[far] = p
	return p, nil
}

// Once looks at every host, one after the other. Its error is of kind fault.Found where
// something got worse, and of fault.Unreachable where a host is away.
func (w *Watch) Once(ctx context.Context) error {
	var worse, away []string
	var why error
	for _, h := range w.Hosts {
		o, err := w.look(ctx, h)
		if err != nil {
			return err
		}
		switch name := model.EndName(h.Text); {
		case o.Told != nil && o.Told.Worse:
			worse = append(worse, name)
		case o.Err != nil:
			away, why = append(away, name), o.Err
		}
	}
	switch {
	case len(worse) > 0:
		return fault.WithKind(fault.Found, errors.New("worse than before: "+strings.Join(worse, ", ")))
	case len(away) > 0:
		return fmt.Errorf("no look at %s: %w", strings.Join(away, ", "), why)
	}
	return nil
}

// Run looks at each host every so often, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	due := make([]time.Time, len(w.Hosts))
	for {
		for i, h := range w.Hosts {
			if !w.due(due[i]) {
				continue
			}
			o, err := w.look(ctx, h)
			if err != nil {
				return err
			}
			next := w.Every
			if o.Path.Missed > 0 {
				next = min(w.Every, retry<<min(o.Path.Missed-1, 16))
			}
			due[i] = w.Env.Now().Round(0).Add(next)
		}
		timer := time.NewTimer(w.rest(due))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// due reports whether it is time by the clock. Where that was set back, it is.
func (w *Watch) due(at time.Time) bool {
	left := at.Sub(w.Env.Now().Round(0))
	return left <= 0 || left > w.Every
}

// rest is until the clock is looked at again. While this machine sleeps, its timers rest too.
func (w *Watch) rest(due []time.Time) time.Duration {
	least := 30 * time.Second
	for _, at := range due {
		least = min(least, at.Sub(w.Env.Now().Round(0)))
	}
	return max(least, 0)
}

// look looks at a host once and tells what came of it. Its error ends the watch: the look was
// interrupted, or cannot be kept.
func (w *Watch) look(ctx context.Context, h reach.Target) (Outcome, error) {
	p, err := w.Path(ctx, h.Text)
	if err != nil {
		return Outcome{}, err
	}
	o := Outcome{Host: h, Path: p}
	missing := p.Missed
	began, start := w.Env.Now().Round(0), time.Now()
	l := &look{Watch: w, path: p, end: model.EndName(h.Text)}
	if w.measure != nil {
		o.Session, o.Err = w.measure(ctx, l, h, began)
	} else {
		o.Session, o.Err = l.measure(ctx, h, began)
	}
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	slept := w.Env.Now().Round(0).Sub(began) - time.Since(start)
	switch s := &o.Session; {
	case hopeless(o.Err, p):
		return o, o.Err
	case slept.Abs() > jump:
		o.Err = fmt.Errorf("the clock went on by %s beside the time that passed: this machine slept, or its clock was set", units.FormatDuration(slept.Round(time.Second)))
		if err := w.void(ctx, s, o.Err); err != nil {
			return o, err
		}
	case s.State == model.SessionDone && l.taken:
		o.Err = nil // that nothing arrived one way is a change, too
		if l.doubt != nil {
			o.Told = p.Settle(l.doubt, s.Runs)
		}
		if o.Told != nil {
			o.Changed, err = w.differences(ctx, o.Told, s)
		}
		o.Back = missing >= missed
	case s.ID == "" || s.State == model.SessionFailed:
		if o.Err == nil {
			o.Err = errors.New("nothing was measured")
		}
		if s.ID == "" {
			err = w.fail(ctx, &o, began)
		}
		p.Missed++
		o.Away = p.Missed == missed
	}
	if o.Err != nil && l.taken { // which the path must not remember
		delete(w.paths, h.Text)
		if o.Path, err = w.Path(ctx, h.Text); err != nil {
			return o, err
		}
	}
	if err == nil {
		w.Tell(ctx, o)
	}
	return o, err
}

// hopeless reports whether no later look will do better.
func hopeless(err error, p *series.Path) bool {
	switch fault.KindOf(err) {
	case fault.Store:
		return true
	case fault.Usage, fault.Unsupported:
		return p.Count == 0
	}
	return false
}

// void keeps a look as one that does not count.
func (w *Watch) void(ctx context.Context, s *model.Session, why error) error {
	if s.ID == "" || s.State != model.SessionDone {
		return nil
	}
	s.State, s.Reason = model.SessionInterrupted, why.Error()
	return fault.WithKind(fault.Store, w.Store.UpdateSession(ctx, *s))
}

// fail keeps that a host could not be reached.
func (w *Watch) fail(ctx context.Context, o *Outcome, at time.Time) error {
	s := &o.Session
	*s = model.Session{
		ID: trial.NewSessionID(at), Kind: model.KindWatch, Command: w.Command, Near: app.ThisMachine, Far: o.Host.Text, Version: w.Env.Version, Created: at,
		State: model.SessionRunning, Plan: w.plan(), WireRate: fact.Unknown[units.BitRate]("the host could not be reached"),
	}
	if err := w.Store.CreateSession(ctx, *s); err != nil {
		return fault.WithKind(fault.Store, err)
	}
	s.State, s.Reason, s.Ended = model.SessionFailed, fault.Sentence(o.Err), w.Env.Now()
	return fault.WithKind(fault.Store, w.Store.UpdateSession(ctx, *s))
}

func (w *Watch) plan() model.Plan {
	name := w.parts()[len(w.parts())-1].name
	return model.Plan{
		Settings: []model.Setting{{Name: name}}, Baseline: name, Flow: w.flow(name), Directions: []model.Direction{model.To, model.From},
		Mode: model.FixedBlocks, Confidence: 0.95, Seed: w.Seed, MaxBlocks: len(w.parts()) + series.MostRuns, Path: w.Request.Path,
	}
}

// differences are what was changed on the hosts between the last look before a change and the
// one that found it.
func (w *Watch) differences(ctx context.Context, t *series.Told, now *model.Session) ([]fingerprint.Change, error) {
	was, err := w.Store.Session(ctx, t.Before.ID)
	if err != nil {
		return nil, nil //nolint:nilerr // it was removed meanwhile: nothing is known of then
	}
	unknown := fact.Unknown[time.Duration]("not measured")
	all := fingerprint.Take(was.Hosts, unknown).Changes(fingerprint.Take(now.Hosts, unknown))
	for _, side := range []model.Host{model.Near, model.Far} {
		before, _ := was.Facts(side)
		after, _ := now.Facts(side)
		all = append(all, fingerprint.Settings(before, after)...)
	}
	fingerprint.Name(all, now.Names())
	return all, nil
}

// look is one that goes on. It steers what is measured.
type look struct {
	*Watch
	path  *series.Path
	end   string // what people call the host
	at    series.Look
	taken bool // the path knows the numbers of this look
	doubt *series.Doubt
}

// measure looks at a host and returns the session as stored; its ID is "" where the host could
// not be reached.
func (l *look) measure(ctx context.Context, h reach.Target, at time.Time) (model.Session, error) {
	near := reach.Target{Kind: reach.Here, Text: app.ThisMachine}
	e, err := l.Open(ctx, near, h)
	if err != nil {
		return model.Session{}, err
	}
	defer e.Close()
	e.FarText = h.Text
	t := trial.New(l.Env, e, l.Store, model.KindWatch, "", l.Command, l.plan())
	t.Steer = l
	l.at = series.Look{At: at, ID: t.Session.ID}
	s, err := t.Run(ctx)
	if len(s.Runs) == 0 { // nothing is stored
		s = model.Session{}
	}
	return s, err
}

// tries is how often a part of a look is tried: a busy host may spoil a run.
const tries = 2

// Next implements trial.Steer.
func (l *look) Next(_ context.Context, runs []model.Run) (trial.Block, error) {
	for _, p := range l.parts() {
		of := slices.DeleteFunc(slices.Clone(runs), func(r model.Run) bool { return r.Setting != p.name || r.Flow.Direction != p.direction })
		if len(of) < tries && !slices.ContainsFunc(of, func(r model.Run) bool { return r.State == model.RunValid }) {
			return l.block(p), nil
		}
	}
	if !l.taken {
		l.taken = true
		if l.doubt = l.path.Add(l.at, runs); l.doubt != nil {
			l.Env.Observe(app.Looking{At: fmt.Sprintf("%s again, up to %d times: it may have changed", l.doubt.Name(l.end), series.MostRuns)})
		}
	}
	if d := l.doubt; d != nil && d.Judge(d.Runs(runs)) == series.Open && len(runs) < l.plan().MaxBlocks {
		return l.block(part{d.Part(), d.Direction}), nil
	}
	return trial.Block{Reason: "all is looked at"}, nil
}

func (l *look) block(p part) trial.Block {
	return trial.Block{Settings: []model.Setting{{Name: p.name}}, Direction: p.direction, Flow: l.flow(p.name)}
}

// PerDay is how many looks there are in a day.
func (q Request) PerDay() float64 { return float64(24*time.Hour) / float64(q.Every) }

// Rate is what is known of how much a path carries each way, 0 for nothing.
func Rate(p *series.Path, now time.Time) (to, from units.BitRate) {
	rate := func(d model.Direction) units.BitRate {
		s := series.Stream{Metric: model.Goodput, Direction: d}
		y, known := p.Series(s).Usual(now)
		if _, seen := p.Series(s).Looks(); !known && len(seen) > 0 {
			y, known = seen[len(seen)-1], true
		}
		if !known {
			return 0
		}
		return units.BitRate(s.Value(y))
	}
	return rate(model.To), rate(model.From)
}
