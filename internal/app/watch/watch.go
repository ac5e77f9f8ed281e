// Package watch looks at the paths to hosts on a schedule and reports when a path has changed:
// by how much, since when, and what changed on the hosts at that time. Each look is its own
// session; the state of a path is computed from the stored ones.
package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
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

// Store stores the looks.
type Store interface {
	trial.Store
	Session(ctx context.Context, id string) (model.Session, error)
	// Values returns the runs of a session, without their ends.
	Values(ctx context.Context, id string) ([]model.Run, error)
	// Looks lists the looks at a far target since a time, oldest first.
	Looks(ctx context.Context, far string, since time.Time) ([]model.Item, error)
}

// Request says which hosts to watch, and how.
type Request struct {
	Hosts     []target.Target
	Every     time.Duration
	ProbeOnly bool
	Streams   int
	Time      time.Duration // measured time of each bulk run
	Rate      units.BitRate // of bulk, each way; 0 is as fast as possible
	Margin    float64       // ln of the smallest change to report
	Path      model.DataPath
	Seed      uint64
	Title     string   // of the sessions: in a store that several machines share, which one looks; "" in its own
	Command   []string // the user's command line, without secrets
}

// The parts of a look.
const (
	probing = time.Second     // round trips without load
	burst   = 2 * time.Second // of 170 full-size datagrams, about as many as in the fleet's bursts (fleet.md section 6.4)
	warmup  = time.Second
	// DefaultStreams is as in a mesh (fleet.md section 4).
	DefaultStreams = 4
	// Shortest is the minimum time from one look to the next.
	Shortest = time.Minute
	// retry is the time until the next look at a host that could not be reached; it doubles
	// with each failure.
	retry = time.Minute
	// kept is how long looks count: twice the period of a reference.
	kept = 56 * 24 * time.Hour
	// missed is how many looks in a row must fail before the host is reported as away.
	missed = 2
	// jump is how far the wall clock may differ from the elapsed time before a look does not
	// count: this machine slept, or its clock was set.
	jump = 5 * time.Second
)

// Validate returns an error for a request that cannot be watched.
func (q Request) Validate() error {
	for i, t := range q.Hosts {
		switch {
		case t.Kind == target.Foreign:
			return fault.WithHint(fault.Usagef("%s: a host that is watched runs linerate", t), "name a host over ssh (user@host), a linerate serve, or exec:ADDRESS COMMAND")
		case slices.ContainsFunc(q.Hosts[:i], func(o target.Target) bool { return o.Text == t.Text }):
			return fault.Usagef("%s is named twice", t)
		}
	}
	if q.Every < Shortest {
		return fault.Usagef("--every: %s is shorter than %s", units.FormatDuration(q.Every), units.FormatDuration(Shortest))
	}
	return target.Carries(q.Path, q.flow(series.Probes))
}

// part is one kind of run in a look.
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
		f := model.Flow{Engine: bulk.Name, Streams: q.Streams, Omit: warmup, Duration: q.Time, Interval: min(q.Time, time.Second)}
		if q.Rate > 0 {
			f, _ = bulk.Paced(f, q.Rate) // a flow of tcpbulk always can be
		}
		return f
	}
	f := probes.Over(model.Flow{Engine: udp.Name, Streams: 1, Duration: burst, Interval: time.Second, Params: traffic.Write(udp.Params{Rate: udp.DefaultRate})})
	f.Lead = probing
	return f
}

// Bytes returns how much one look sends on a path with the given rates to and from the host,
// without the extra runs after a suspected change.
func (q Request) Bytes(to, from units.BitRate) units.Bytes {
	sent := 2 * float64(udp.DefaultRate) * burst.Seconds()
	if !q.ProbeOnly {
		sent += float64(to+from) * (warmup + q.Time).Seconds()
	}
	return units.Bytes(sent / 8)
}

// Outcome is the result of a look.
type Outcome struct {
	Host    target.Target
	Path    *series.Path
	Session model.Session
	Change  *series.StreamChange // nil if nothing has changed
	Changed []fingerprint.Change // on the hosts, in the period of Change
	Away    bool                 // the host cannot be reached; set once, in the first report of it
	Back    bool                 // the host can be reached again after a report that it was away
	Err     error                // why the look does not count
}

// Watch runs the looks.
type Watch struct {
	Request
	Env   app.Env
	Open  func(ctx context.Context, near, far target.Target) (*target.Ends, error)
	Store Store
	Tell  func(context.Context, Outcome) // gets the outcome of each look

	paths   map[string]*series.Path                                                                  // by target text
	measure func(ctx context.Context, l *look, h target.Target, at time.Time) (model.Session, error) // replaces look.measure in tests
}

// Path returns the state of the path to a far target, from the stored looks.
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
		if i.Title != w.Title {
			continue // another machine looked
		}
		if i.Created.After(now) {
			continue // the clock was wrong then or is wrong now
		}
		s := model.Session{ID: i.ID, State: i.State, Created: i.Created}
		if s.Runs, err = w.Store.Values(ctx, i.ID); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.Runs, func(r model.Run) bool { return r.State == model.RunInvalid }) {
			if s, err = w.Store.Session(ctx, i.ID); err != nil { // its ends say whether anything arrived
				return nil, err
			}
		}
		p.Take(&s, now.Location())
	}
	if w.paths == nil {
		w.paths = map[string]*series.Path{}
	}
	w.paths[far] = p
	return p, nil
}

// Once looks at every host, one after the other. Its error is of kind fault.Found if a path got
// worse, and of kind fault.Unreachable if a host is away.
func (w *Watch) Once(ctx context.Context) error {
	var worse, away []string
	var why error
	for _, h := range w.Hosts {
		o, err := w.look(ctx, h)
		if err != nil {
			return err
		}
		switch name := model.EndName(h.Text); {
		case o.Change != nil && o.Change.Worse:
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

// Run looks at each host every w.Every until ctx ends, sooner at hosts that are away.
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

// due reports whether the clock has reached at, or was set back.
func (w *Watch) due(at time.Time) bool {
	left := at.Sub(w.Env.Now().Round(0))
	return left <= 0 || left > w.Every
}

// rest returns how long to wait before checking the clock again. It is short because timers
// stand still while this machine sleeps.
func (w *Watch) rest(due []time.Time) time.Duration {
	least := 30 * time.Second
	for _, at := range due {
		least = min(least, at.Sub(w.Env.Now().Round(0)))
	}
	return max(least, 0)
}

// look looks at a host once and reports the outcome. Its error ends the watch: the look was
// interrupted, cannot be stored, or can never succeed.
func (w *Watch) look(ctx context.Context, h target.Target) (Outcome, error) {
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
		o.Err = nil // nothing arriving in one direction is a change, too
		if l.doubt != nil {
			o.Change = p.Settle(l.doubt, l.doubt.Runs(s.Runs))
		}
		if o.Change != nil {
			o.Changed = w.differences(ctx, o.Change, s)
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
	if o.Err != nil && l.taken { // the path must forget the look
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

// hopeless reports whether every later look would fail too.
func hopeless(err error, p *series.Path) bool {
	kind := fault.KindOf(err)
	return kind == fault.Store || p.Count == 0 && (kind == fault.Usage || kind == fault.Unsupported)
}

// void stores a look as one that does not count.
func (w *Watch) void(ctx context.Context, s *model.Session, why error) error {
	if s.ID == "" || s.State != model.SessionDone {
		return nil
	}
	s.State, s.Reason = model.SessionInterrupted, why.Error()
	return fault.WithKind(fault.Store, w.Store.UpdateSession(ctx, *s))
}

// fail stores a look at a host that could not be reached.
func (w *Watch) fail(ctx context.Context, o *Outcome, at time.Time) error {
	s := &o.Session
	*s = model.Session{
		ID: trial.NewSessionID(at), Kind: model.KindWatch, Title: w.Title, Command: w.Command, Near: app.ThisMachine, Far: o.Host.Text, Version: w.Env.Version, Created: at,
		State: model.SessionRunning, Plan: w.Plan(), WireRate: fact.Unknown[units.BitRate]("the host could not be reached"),
	}
	if err := w.Store.CreateSession(ctx, *s); err != nil {
		return fault.WithKind(fault.Store, err)
	}
	s.State, s.Reason, s.Ended = model.SessionFailed, fault.Sentence(o.Err), w.Env.Now()
	return fault.WithKind(fault.Store, w.Store.UpdateSession(ctx, *s))
}

// Plan returns the plan of a look.
func (q Request) Plan() model.Plan {
	name := q.parts()[len(q.parts())-1].name
	return model.Plan{
		Settings: []model.Setting{{Name: name}}, Baseline: name, Flow: q.flow(name), Directions: []model.Direction{model.To, model.From},
		Mode: model.FixedBlocks, Confidence: 0.95, Seed: q.Seed, MaxBlocks: len(q.parts()) + series.MostRuns, Path: q.Path,
	}
}

// differences returns what changed on the hosts between the last look before a change and the
// look that found it.
func (w *Watch) differences(ctx context.Context, t *series.StreamChange, now *model.Session) []fingerprint.Change {
	was, err := w.Store.Session(ctx, t.Before.ID)
	if err != nil {
		return nil // it was removed meanwhile: nothing is known of then
	}
	unknown := fact.Unknown[time.Duration]("not measured")
	all := fingerprint.Take(was.Hosts, unknown).Changes(fingerprint.Take(now.Hosts, unknown))
	for _, side := range []model.Host{model.Near, model.Far} {
		before, _ := was.Facts(side)
		after, _ := now.Facts(side)
		if before.Version != after.Version { // which measures otherwise, perhaps
			all = append(all, fingerprint.Change{Key: fingerprint.Of(side, "linerate"), Was: before.Version, Now: after.Version})
		}
		all = append(all, fingerprint.Settings(before, after)...)
	}
	fingerprint.Name(all, now.Names())
	return all
}

// look is a running look. It chooses the runs to measure.
type look struct {
	*Watch
	path  *series.Path
	end   string // the host's name for users
	at    series.Look
	taken bool // the path includes this look's results
	doubt *series.Doubt
}

// measure looks at a host and returns the stored session. Its ID is "" if no run was stored, as
// for a host that could not be reached.
func (l *look) measure(ctx context.Context, h target.Target, at time.Time) (model.Session, error) {
	near := target.Target{Kind: target.Here, Text: app.ThisMachine}
	e, err := l.Open(ctx, near, h)
	if err != nil {
		return model.Session{}, err
	}
	defer e.Close()
	e.FarText = h.Text
	t := trial.New(l.Env, e, l.Store, model.KindWatch, l.Title, l.Command, l.Plan())
	t.Steer = l
	l.at = series.Look{At: at, ID: t.Session.ID}
	s, err := t.Run(ctx)
	if len(s.Runs) == 0 { // nothing is stored
		s = model.Session{}
	}
	return s, err
}

// tries is how often each part of a look is run until a run is valid: a busy host may spoil one.
const tries = 2

// Next implements trial.Steer.
func (l *look) Next(_ context.Context, runs []model.Run) (trial.Block, error) {
	if b, more := l.Own(runs); more {
		return b, nil
	}
	if !l.taken {
		l.taken = true
		if l.doubt, _ = l.path.Add(l.at, series.NumbersOf(runs)); l.doubt != nil {
			l.Env.Observe(app.Looking{At: fmt.Sprintf("%s again, up to %d times: it may have changed", l.doubt.Name(l.end), series.MostRuns)})
		}
	}
	if d := l.doubt; d != nil && d.Judge(d.Runs(runs)) == series.Open && len(runs) < l.Plan().MaxBlocks {
		return l.Again(d.Stream), nil
	}
	return trial.Block{Reason: "all is looked at"}, nil
}

// Own returns the next run of a look itself, after those that it has; false if there is none.
func (q Request) Own(runs []model.Run) (trial.Block, bool) {
	for _, p := range q.parts() {
		of := slices.DeleteFunc(slices.Clone(runs), func(r model.Run) bool { return r.Setting != p.name || r.Flow.Direction != p.direction })
		if len(of) < tries && !slices.ContainsFunc(of, func(r model.Run) bool { return r.State == model.RunValid }) {
			return q.block(p), true
		}
	}
	return trial.Block{}, false
}

// Again returns one more run that measures a stream.
func (q Request) Again(s series.Stream) trial.Block { return q.block(part{s.Part(), s.Direction}) }

func (q Request) block(p part) trial.Block {
	return trial.Block{Settings: []model.Setting{{Name: p.name}}, Direction: p.direction, Flow: q.flow(p.name)}
}

// PerDay returns the number of looks per day.
func (q Request) PerDay() float64 { return float64(24*time.Hour) / float64(q.Every) }

// Rate returns a path's usual goodput in each direction, or that of its last look; 0 if unknown.
func Rate(p *series.Path, now time.Time) (to, from units.BitRate) {
	rate := func(d model.Direction) units.BitRate {
		s := series.Stream{Metric: model.Goodput, Direction: d}
		y, n := p.Series(s).Reference(now)
		if n == 0 {
			_, seen := p.Series(s).Looks()
			if len(seen) == 0 {
				return 0
			}
			y = seen[len(seen)-1]
		}
		return units.BitRate(s.Value(y))
	}
	return rate(model.To), rate(model.From)
}
