package trial

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/control/experiment"
	"linerate/internal/core/analysis"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Store stores what a trial measures.
type Store interface {
	CreateSession(ctx context.Context, s model.Session) error
	UpdateSession(ctx context.Context, s model.Session) error
	AddRun(ctx context.Context, sessionID string, r model.Run, s []model.Sample, c []model.Change) error
	SetChanges(ctx context.Context, sessionID string, c []model.Change) error
	SetPlan(ctx context.Context, sessionID string, p model.Plan) error
	Samples(ctx context.Context, sessionID string, run int) ([]model.Sample, error)
}

// Trial is a session to carry out; its plan is complete and its hosts are open.
type Trial struct {
	Session model.Session
	// Steer, if set, replaces the plan's order.
	Steer Steer
	// Beside is the time that a run takes besides its traffic, for the forecast of tests.
	Beside time.Duration

	env     app.Env
	ends    *target.Ends
	store   Store
	resumed bool
	begun   bool // it is in the store
}

// Steer decides after each block what to measure next.
type Steer = experiment.Steer

// Block is what a Steer wants measured.
type Block = experiment.Steered

// New returns the trial of a plan, which is not yet stored. command is the command line,
// without secrets.
func New(env app.Env, e *target.Ends, st Store, kind model.Kind, title string, command []string, p model.Plan) *Trial {
	now := env.Now()
	p.Path, p.Ends = e.Path(), e.Beside()
	return &Trial{env: env, ends: e, store: st, Session: model.Session{
		ID: NewSessionID(now), Kind: kind, Title: title, Command: command, Near: e.NearText, Far: e.FarText,
		Version: env.Version, Created: now.Round(0), State: model.SessionRunning, Plan: p, Hosts: e.Hosts,
		WireRate: e.WireRate, Warnings: e.Warnings,
	}}
}

// Experiment returns the trial of an experiment whose plan depends on the round trip, which
// it measures with a short run of flow.
func Experiment(ctx context.Context, env app.Env, e *target.Ends, st Store, title string, command []string, flow model.Flow,
	plan func(rtt fact.Of[time.Duration]) (model.Plan, error),
) (*Trial, error) {
	rtt := fact.Unknown[time.Duration]("nothing is measured")
	for _, e := range e.All() {
		if err := e.Reachable(ctx, flow); err != nil {
			return nil, err
		}
		trip, err := Probe(ctx, e, flow)
		if err != nil {
			return nil, err
		}
		if trip.Or(0) > rtt.Or(0) || !rtt.IsKnown() { // the warm-up is as long as the farthest end needs
			rtt = trip
		}
	}
	p, err := plan(rtt)
	if err != nil {
		return nil, err
	}
	if err := MayTune(e, p); err != nil {
		return nil, err
	}
	t := New(env, e, st, model.KindRun, title, command, p)
	return t, t.congestions(ctx)
}

// Resume returns the trial that continues a stored session between the same hosts.
func Resume(env app.Env, e *target.Ends, st Store, s model.Session) (*Trial, error) {
	if err := MayTune(e, s.Plan); err != nil {
		return nil, err
	}
	if err := sameHosts(s, e); err != nil {
		return nil, err
	}
	s.Hosts = e.Hosts
	if len(s.Plan.Ends) > 0 {
		e.FarText = s.Far // as settings name it, whatever way it was reached now
	}
	for _, now := range e.Beside() {
		i := slices.IndexFunc(s.Plan.Ends, func(o model.End) bool { return o.Target == now.Target })
		if i >= 0 {
			s.Plan.Ends[i] = now
		}
	}
	if path := e.Path(); path != s.Plan.Path {
		s.Warnings = append(s.Warnings, fmt.Sprintf("it was gone on with by other data connections (%s)", cmp.Or(path.String(), "as usual")))
	}
	return &Trial{Session: s, env: env, ends: e, store: st, resumed: true}, nil
}

// sameHosts returns an error unless e reaches the hosts of s: runs of two paths must not share a
// result. A user may name a host in another way, so that its facts decide. A lab is its text.
func sameHosts(s model.Session, e *target.Ends) error {
	lab := e.InLab || strings.HasPrefix(s.Far, "lab:")
	for i, text := range [][2]string{{s.Near, e.NearText}, {s.Far, e.FarText}} {
		now := e.Hosts[i]
		same := slices.ContainsFunc(s.Hosts, func(was model.HostFacts) bool {
			return was.Host == now.Host && was.Name == now.Name && was.OS == now.OS && shareLink(was.NICs, now.NICs)
		})
		if text[0] != text[1] && (lab || !same) {
			return fault.WithHint(fault.Usagef("session %s was measured with %s, and %s is not the same host", s.ID, text[0], text[1]),
				"resume it without another host, or begin a new session without --resume")
		}
	}
	return nil
}

// shareLink reports whether a and b have an interface in common, or one has none with a hardware
// address: many hosts are called localhost.
func shareLink(a, b []model.NIC) bool {
	var all [2][]string
	for i, nics := range [][]model.NIC{a, b} {
		for _, n := range nics {
			if mac, ok := n.MAC.Get(); ok {
				all[i] = append(all[i], mac)
			}
		}
	}
	return len(all[0]) == 0 || len(all[1]) == 0 || slices.ContainsFunc(all[0], func(mac string) bool { return slices.Contains(all[1], mac) })
}

// longerHint returns advice on how to measure longer, for a kind of session without blocks.
func longerHint(s model.Session) string {
	how := "see it with: linerate show " + s.ID
	switch s.Kind {
	case model.KindTest:
		how = "measure for longer with linerate test HOST -t 30s, or compare settings with linerate run HOST --factor SETTING=VALUES"
	case model.KindSweep:
		how = "measure anew with more passes: linerate sweep HOST --sweeps N"
	case model.KindCopy:
		how = "copy anew, more often: linerate copy HOST --blocks N"
	case model.KindTune:
		how = "a search that was cut short goes on with: linerate tune --resume " + s.ID
	case model.KindRun, model.KindCheck, model.KindMesh, model.KindWatch, model.KindServed, model.KindImported:
	}
	return how
}

// Extend returns a stored session, finished or not, with a plan of at most so many blocks, to
// be resumed. It returns an error if more blocks would not help or are not valid.
func Extend(s model.Session, blocks int, data units.Bytes) (model.Session, error) {
	const anew = "measure anew without --blocks: that may go on as long as you like"
	if s.Kind != model.KindRun {
		return s, fault.WithHint(fault.Usagef("session %s is of kind %s and has no blocks to add to", s.ID, s.Kind), "%s", longerHint(s))
	}
	longer, err := plan.Extend(s.Plan, blocks)
	if err != nil {
		hint := fmt.Sprintf("name more blocks than the %d that it has", plan.Comparisons(s.Plan))
		if s.Plan.Mode != model.Sequential {
			hint = anew
		}
		return s, fault.WithHint(fault.Usagef("session %s cannot be extended: %w", s.ID, err), "%s", hint)
	}
	s.Plan = longer
	if data > 0 {
		s.Plan.Data = data
	}
	if sent := plan.Payload(s.Runs); s.Plan.Data > 0 && sent >= s.Plan.Data {
		return s, fault.WithHint(fault.Usagef("session %s has sent %s, and may send no more than %s in all", s.ID, sent.Decimal(), s.Plan.Data),
			"give it more, for all that it sends from its beginning on: --data %s", strings.ReplaceAll(plan.DataFor(s.Runs, s.Plan.MaxBlocks+s.Plan.NullBlocks).Decimal(), " ", ""))
	}
	switch r := analysis.Analyse(longer, s.Runs); {
	case r.Untrustworthy, r.PathChanged:
		return s, &fault.Error{Kind: fault.Untrusted, Err: fmt.Errorf("session %s cannot be trusted, and more blocks do not mend that: %s", s.ID, r.Reason), Hint: again}
	case r.Done:
		return s, fault.WithHint(fault.Usagef("session %s has nothing left to do: %s", s.ID, r.Reason), "see it with: linerate show %s", s.ID)
	}
	return s, nil
}

// NewSessionID returns the ID of a session. IDs sort by time and are unique enough for one
// store: 20 random bits besides the second.
func NewSessionID(now time.Time) string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	word := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
	return now.UTC().Format("20060102T150405") + "-" + word[:4]
}

// Run carries out the plan, stores everything, and returns the session as stored. If it
// returns an error, what was measured is stored, and the session says how it ended.
func (t *Trial) Run(ctx context.Context) (model.Session, error) {
	keep := context.WithoutCancel(ctx)
	for _, e := range t.ends.All() {
		if err := e.Reachable(ctx, t.Session.Plan.Flow); err != nil {
			return t.Session, err
		}
	}
	if t.Session.Kind != model.KindRun { // Experiment has checked
		if err := t.congestions(ctx); err != nil {
			return t.Session, err
		}
	}
	if err := t.commands(ctx); err != nil {
		return t.Session, err
	}
	if err := Calm(ctx, t.env, t.ends); err != nil {
		return t.Session, err
	}
	if err := t.rehearse(ctx); err != nil {
		return t.Session, err
	}
	if err := t.begin(keep); err != nil {
		return t.Session, err
	}
	if err := t.settle(ctx); err != nil { // changes of an earlier session that lost a host
		return t.Session, err
	}
	t.env.Observe(app.TrialBegan{Session: t.Session})
	out, err := experiment.Run(ctx, experiment.Config{
		Plan: t.Session.Plan, Past: t.Session.Runs, Steer: t.Steer, Beside: t.Beside, Runner: t.ends.Across(), Left: t.left,
		Reconnect: t.reconnect, Patience: lostTimeouts * cmp.Or(t.env.Timeout, app.DefaultTimeout), Record: t.record, Released: t.released, Between: t.between, Observe: t.observe, Now: t.env.Now,
	})
	_ = t.settle(keep) // as far as the hosts can be reached; notUndone reports the rest
	t.Session.Runs = out.Runs
	t.Session.State, t.Session.Reason = out.State, out.Reason
	t.Session.Ended = t.env.Now()
	t.conclude(keep, out.Result)
	err = errors.Join(err, fault.WithKind(fault.Store, t.store.UpdateSession(keep, t.Session)), t.notUndone())
	t.env.Observe(app.TrialEnded{})
	return t.Session, t.fault(err, out.Result)
}

// begin stores the session before its first run.
func (t *Trial) begin(ctx context.Context) error {
	t.begun = true
	if t.resumed {
		t.Session.State, t.Session.Reason = model.SessionRunning, ""
		err := t.store.SetPlan(ctx, t.Session.ID, t.Session.Plan) // it may have been extended
		return fault.WithKind(fault.Store, errors.Join(err, t.store.UpdateSession(ctx, t.Session)))
	}
	return fault.WithKind(fault.Store, t.store.CreateSession(ctx, t.Session))
}

// lostTimeouts is how many connection timeouts to try for a host that was lost during the
// session: the measurements so far are worth a minute.
const lostTimeouts = 5

func (t *Trial) reconnect(ctx context.Context) (experiment.Runner, error) {
	if err := t.ends.Reopen(ctx); err != nil {
		return nil, err
	}
	return t.ends.Across(), t.settle(ctx)
}

// left stores a plan without a far end that was lost for good in the remaining blocks.
func (t *Trial) left(ctx context.Context, p model.Plan, end, why string) error {
	t.Session.Plan = p
	w := fmt.Sprintf("far end %s is out of reach and was left out of the blocks that remain: %s", end, why)
	t.Session.Warnings = append(t.Session.Warnings, w)
	t.env.Observe(app.Warning{Text: w})
	return fault.WithKind(fault.Store, errors.Join(t.store.SetPlan(ctx, t.Session.ID, p), t.store.UpdateSession(ctx, t.Session)))
}

func (t *Trial) record(ctx context.Context, r model.Run, s []model.Sample, c []model.Change) error {
	t.Session.Changes = append(t.Session.Changes, c...)
	return fault.WithKind(fault.Store, t.store.AddRun(ctx, t.Session.ID, r, s, c))
}

// released stores the outcome of changes that belong to no run.
func (t *Trial) released(ctx context.Context, c []model.Change) error {
	t.Session.Changes = append(t.Session.Changes, c...)
	return fault.WithKind(fault.Store, t.store.SetChanges(ctx, t.Session.ID, t.Session.Changes))
}

// between lets the user pause the session.
func (t *Trial) between(ctx context.Context) error {
	if t.env.Between == nil {
		return nil
	}
	return t.env.Between(ctx, app.StillChanged(t.Session.Changes))
}

// observe reports the events of the experiment.
func (t *Trial) observe(ev experiment.Event) {
	p := app.Progress{
		Block: ev.Block, MaxBlocks: ev.MaxBlocks, Position: ev.Position, RunsInBlock: ev.RunsInBlock,
		Setting: ev.Setting, Direction: ev.Direction, Elapsed: ev.Elapsed, AtMost: ev.AtMost,
	}
	switch ev.Kind {
	case experiment.BlockStarted:
		t.env.Observe(app.BlockBegan{Progress: p})
	case experiment.RunStarted:
		t.env.Observe(app.RunBegan{Progress: p})
	case experiment.RunSampled:
		t.env.Observe(app.Sampled{Progress: p, Samples: ev.Samples})
	case experiment.RunEnded:
		t.env.Observe(app.RunEnded{Progress: p, Run: *ev.Run})
		if place := diagnose.PlaceOf(*ev.Run, ev.Run.Flow.Direction); t.Session.Kind == model.KindCheck && place.Kind == model.PlaceLink {
			t.env.Observe(app.Located{Names: t.Session.Names(), Place: place})
		}
	case experiment.CoolingDown:
		t.env.Observe(app.CoolingDown{Progress: p})
	case experiment.Reconnecting:
		t.env.Observe(app.Reconnecting{Progress: p})
	case experiment.BlockEnded:
		t.env.Observe(app.BlockEnded{Progress: p, Result: *ev.Result})
	}
}

// settle finds the outcome of changes whose undo was not seen because their agent or watchdog
// was lost: another process has undone them, and the host reports that.
func (t *Trial) settle(ctx context.Context) error {
	asked := false
	for i, c := range t.Session.Changes {
		if c.State != model.ChangeApplied {
			continue
		}
		e := t.endsOf(c)
		if e == nil {
			continue // the session continues without that end
		}
		client := e.Client(c.Host)
		if client == nil && len(t.ends.Others) > 0 {
			continue // it is lost: its agent undoes by itself
		}
		if client == nil {
			return fmt.Errorf("read %s: no session with the %s host", c.Knob, c.Host)
		}
		if strings.HasPrefix(string(c.Knob), model.CommandPrefix) {
			t.Session.Changes[i], asked = t.settleCommand(ctx, c, client), true
			continue
		}
		values, err := client.ReadKnobs(ctx, []model.KnobID{c.Knob})
		if err != nil {
			return err
		}
		t.Session.Changes[i], asked = t.env.Settle(c, system(e, c.Host), values[c.Knob]), true
	}
	if !asked || !t.begun {
		return nil
	}
	return fault.WithKind(fault.Store, t.store.SetChanges(context.WithoutCancel(ctx), t.Session.ID, t.Session.Changes))
}

// endsOf returns the ends of the run that made c, nil if they are not open.
func (t *Trial) endsOf(c model.Change) *target.Ends {
	for _, r := range t.Session.Runs {
		if r.Number == c.Run {
			setting, _ := t.Session.Plan.Setting(r.Setting)
			return t.ends.At(setting)
		}
	}
	return t.ends
}

// system returns the system of a host, as a GOOS.
func system(e *target.Ends, h model.Host) string {
	for _, f := range e.Hosts {
		if f.Host == h {
			return f.OS
		}
	}
	return ""
}

// conclude fills in the results of the runs: findings, verdicts, and warnings from the
// samples within runs, such as a warm-up that is too short. It skips runs without stored
// samples.
func (t *Trial) conclude(ctx context.Context, r analysis.Result) {
	s := &t.Session
	samples := map[int][]model.Sample{}
	for _, run := range diagnose.Looked(s) {
		if kept, err := t.store.Samples(ctx, s.ID, run.Number); err == nil {
			samples[run.Number] = kept
		}
	}
	if s.Plan.Path.Through == "" { // else the hosts describe the path to ssh
		s.Findings = diagnose.Session(s, samples)
	}
	if s.Kind != model.KindRun {
		return
	}
	s.Verdicts, s.Plateaus, s.Noise = r.Verdicts, r.Plateaus, r.Noise
	var inside analysis.Inside
	for _, run := range analysis.Counted(s.Plan, s.Runs) {
		if kept, err := t.store.Samples(ctx, s.ID, run.Number); err == nil {
			inside.Add(run, kept)
		}
	}
	s.Warnings = lists.Once(s.Warnings, slices.Concat(r.Warnings, inside.Warnings())...)
}

// notUndone returns an error if a host may still hold a changed setting.
func (t *Trial) notUndone() error {
	left := app.StillChanged(t.Session.Changes)
	if len(left) == 0 {
		return nil
	}
	return &fault.Error{Kind: fault.NotUndone, Err: fmt.Errorf("not undone: %s", strings.Join(left, "; ")), Hint: "run linerate undo on that host"}
}

// Measured reports whether a session has a valid run.
func Measured(s model.Session) bool {
	return slices.ContainsFunc(s.Runs, func(r model.Run) bool { return r.State == model.RunValid })
}

// dead names the directions in which connections open but nothing arrives, "" for none.
func (t *Trial) dead() string {
	var out []string
	for d, r := range diagnose.Looked(&t.Session) {
		if diagnose.Dead(r, d) {
			out = append(out, string(d))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " and ")
}

// again is the advice for a session that cannot be trusted.
const again = "find what disturbs the path or the hosts, then repeat"

// fault returns why a result must not be used, or adds advice to err.
func (t *Trial) fault(err error, r analysis.Result) error {
	runs := t.Session.Runs
	switch {
	case err != nil && fault.HintOf(err) == "" && fault.KindOf(err) == fault.Failed && errors.Is(err, syscall.ENOSPC):
		return fault.WithHint(err, "make room there; a setting is only changed once its undo is on disk")
	case err != nil:
		return err
	case t.Session.Kind == model.KindCheck: // a path on which nothing arrives is a finding of a check
	case !Measured(t.Session) && len(runs) > 0 && t.dead() == "":
		return &fault.Error{Kind: fault.Untrusted, Hint: again, Err: fmt.Errorf("nothing was measured, all %d runs are invalid; the last one: %s",
			len(runs), runs[len(runs)-1].Reason)}
	case t.Session.Kind != model.KindRun && t.dead() != "":
		return &fault.Error{Kind: fault.Untrusted, Err: errors.New("nothing arrived in direction " + t.dead()),
			Hint: "connections open, so look for what drops packets of full size: linerate check says which sizes pass"}
	case (t.Session.Kind == model.KindCopy || t.Session.Kind == model.KindTest) && unmeasured(t.Session) != "":
		return &fault.Error{Kind: fault.Untrusted, Hint: again, Err: errors.New(unmeasured(t.Session))}
	case t.Session.Kind == model.KindRun && r.Untrustworthy:
		return &fault.Error{Kind: fault.Untrusted, Hint: again, Err: errors.New("the session cannot be trusted: " + t.Session.Reason)}
	}
	return nil
}
