// Package check looks at the path between two hosts, changes nothing, and reports the state
// of each part and what limits each direction. It measures through package trial, and stores
// the result as a session.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/control/runner"
	"linerate/internal/core/fact"
	"linerate/internal/core/health"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Request says what to check.
type Request struct {
	Quick  bool   // the least that gives an answer, in 10 s
	Trace  bool   // the routers on the way, without load and under it
	Disk   bool   // also each host's disk, reads and writes
	Expect string // demands as health.ParseExpect reads them, "" for none
	For    string // a longer path as health.ParseLonger reads it, "" for none
	Grades string // as health.ParseGrades reads them, "" for the default ones
	Title  string
	// Command is the command line of the check, without secrets.
	Command []string
}

// Validate reports options that make no sense.
func (q Request) Validate() error {
	if q.Expect != "" {
		if _, err := health.ParseExpect(q.Expect); err != nil {
			return fault.Usagef("--expect: %w", err)
		}
	}
	if q.For != "" {
		if _, err := health.ParseLonger(q.For); err != nil {
			return fault.Usagef("--for: %w", err)
		}
	}
	if _, err := health.ParseGrades(q.Grades); err != nil {
		return fault.Usagef("--grade: %w", err)
	}
	return nil
}

// Run checks the path between the hosts of e and returns the session as stored. Its error is
// of kind fault.Found if it finds a problem, and fault.Unmet if a demand is not met; the
// session is complete in both cases.
func Run(ctx context.Context, env app.Env, e *target.Ends, st trial.Store, q Request) (model.Session, error) {
	if err := q.Validate(); err != nil {
		return model.Session{}, err
	}
	if err := trial.Calm(ctx, env, e); err != nil {
		return model.Session{}, err
	}
	env.Calm = 0
	p, err := fitted(e, Plan(q, e.Hosts, 0, 0))
	if err != nil {
		return model.Session{}, err
	}
	t := trial.New(env, e, st, model.KindCheck, q.Title, q.Command, p)
	t.Session.Check = &model.Check{Quick: q.Quick, Expect: q.Expect, For: q.For, Grades: q.Grades}
	if err := e.Reachable(ctx, t.Session.Plan.Flow); err != nil {
		return t.Session, err
	}
	rtt, err := trial.Probe(ctx, e, t.Session.Plan.Flow)
	if err != nil {
		return t.Session, err
	}
	t.Beside = plan.Beside + exchanges*rtt.Or(0)
	if trip := rtt.Or(0); !q.Quick && trip > 0 {
		path, ends, took := t.Session.Plan.Path, t.Session.Plan.Ends, plan.Left(t.Session.Plan, 0, plan.Beside)
		if t.Session.Plan, err = fitted(e, Plan(q, e.Hosts, e.WireRate.Or(0), trip)); err != nil {
			return t.Session, err
		}
		t.Session.Plan.Path, t.Session.Plan.Ends = path, ends
		if longer := plan.Left(t.Session.Plan, 0, t.Beside); longer > took {
			env.Observe(app.Looking{At: fmt.Sprintf("the path for about %s, because the round trip is %s", units.FormatDuration(longer.Round(time.Second)), units.FormatDuration(trip))})
		}
	}
	env.Observe(app.Looking{At: "how large packets may be"})
	t.Session.Check.Ways = ways(ctx, e)
	between(ctx, e, t.Session.Check.Ways)
	if !q.Quick && ctx.Err() == nil {
		t.Session.Check.Own = owns(ctx, env, e)
	}
	if q.Disk && ctx.Err() == nil {
		t.Session.Check.Disks = disks(ctx, env, e)
	}
	if err := ctx.Err(); err != nil {
		return t.Session, err
	}
	s, err := t.Run(ctx)
	if err != nil {
		return s, err
	}
	return s, Verdict(&s)
}

// fitted returns p with only the tests that the far end can carry, adapted to it.
func fitted(e *target.Ends, p model.Plan) (_ model.Plan, err error) {
	if p.Flow, err = e.Fit(p.Flow); err != nil {
		return p, err
	}
	p.Tests = slices.DeleteFunc(p.Tests, func(t model.Test) bool {
		_, refused := e.Fit(t.Flow)
		return refused != nil
	})
	for i := range p.Tests {
		if p.Tests[i].Flow, err = e.Fit(p.Tests[i].Flow); err != nil {
			return p, err
		}
	}
	return p, nil
}

// Verdict returns the error of a completed session: the problems found, nil for none.
func Verdict(s *model.Session) error {
	if s.Check == nil {
		return nil
	}
	if s.Check.Expect != "" {
		clauses, err := health.ParseExpect(s.Check.Expect)
		if err != nil {
			return fault.WithKind(fault.Usage, err)
		}
		var unmet []string
		for _, m := range health.Meets(s, clauses) {
			if !m.Met {
				unmet = append(unmet, fmt.Sprintf("%s (%s)", m.Clause, m.Text))
			}
		}
		if len(unmet) > 0 {
			return fault.WithKind(fault.Unmet, errors.New("not met: "+strings.Join(unmet, ", ")))
		}
		return nil
	}
	var bad []string
	names := s.Names()
	for _, l := range health.Judge(s) {
		if l.State == health.Poor || l.State == health.Bad {
			bad = append(bad, fmt.Sprintf("%s is %s", l.Label(names), l.State))
		}
	}
	if len(bad) > 0 {
		return fault.WithKind(fault.Found, errors.New("found: "+strings.Join(bad, ", ")))
	}
	return nil
}

// The names of the tests.
const (
	oneStream = "one stream"
	several   = "several streams"
	together  = "both at once"
	paced     = "datagrams"
	segments  = "segments of"
)

const (
	// unknownRate stands in for the rate of a path that is not known (diagnosis-2.md section
	// 4).
	unknownRate units.BitRate = 1e9
	// ethernetMSS is the payload of a full packet of 1500 bytes with timestamps.
	ethernetMSS = 1448
	// fewAnswers is the least number of round trips in a test without slow start (p).
	fewAnswers = 5
)

// exchanges is the mean number of round trips that a test takes besides its traffic: in a lab
// with 600 ms, 13 tests took 54 s more than what they send. It is only a forecast.
const exchanges = 7

// mostStreams is the most streams opened at once (diagnosis.md section 1, step 2).
const mostStreams = 8

// Plan returns the tests of a check, in order: each direction alone with one stream and
// probes beside it, smaller segments if nothing arrives, several streams, both directions at
// once, and datagrams at shares of what one stream carried. A foreign far end is not probed.
// Slow start takes longer over a long round trip, and so do the tests; a rate or rtt of 0 is
// unknown.
func Plan(q Request, hosts []model.HostFacts, rate units.BitRate, rtt time.Duration) model.Plan {
	directions := []model.Direction{model.To, model.From}
	flow := func(d model.Direction, omit, duration time.Duration) model.Flow {
		return model.Flow{Engine: probes.DefaultLoad, Direction: d, Streams: 1, Omit: omit, Duration: duration, Interval: min(duration, 500*time.Millisecond)}
	}
	p := model.Plan{
		Settings: []model.Setting{{Name: oneStream}}, Baseline: oneStream, Directions: directions,
		Mode: model.FixedBlocks, Confidence: 0.95, Flow: flow(model.To, time.Second, 5*time.Second),
	}
	add := func(t model.Test) { p.Tests = append(p.Tests, t) }
	omit, duration, lead := time.Second, 5*time.Second, time.Second
	if q.Quick {
		omit, duration, lead = 500*time.Millisecond, 2500*time.Millisecond, 500*time.Millisecond
	} else if rtt > 0 {
		paced := slices.ContainsFunc(hosts, func(h model.HostFacts) bool { return strings.HasPrefix(h.Congestion.Or(""), "bbr") })
		omit = max(omit, limits.Warmup(cmp.Or(rate, unknownRate), rtt, ethernetMSS, paced)).Round(100 * time.Millisecond)
		lead = max(lead, 3*rtt)
	}
	atLeast := func(d time.Duration) time.Duration { return max(d, limits.Measured(rtt)).Round(100 * time.Millisecond) }
	if !q.Quick {
		duration = atLeast(duration)
	}
	for _, d := range directions {
		f := probes.Over(flow(d, omit, duration))
		f.Lead = lead
		if q.Trace {
			f = probes.Traced(f)
		}
		add(model.Test{Name: oneStream, Flow: f})
	}
	for _, mss := range []int{536, 1160, 1360} { // packets of 576, 1200 (RFC 8899 section 5.1.2) and 1400 bytes
		for _, d := range directions {
			f := flow(d, 0, max(time.Second, fewAnswers*rtt))
			f.MSS = mss
			add(model.Test{Name: fmt.Sprintf("%s %d", segments, mss), Flow: f, IfDead: true})
		}
	}
	datagrams := func(share float64, duration time.Duration, directions ...model.Direction) {
		for _, d := range directions {
			f := flow(d, 0, duration)
			f.Engine, f.Params = udp.Name, traffic.Write(udp.Params{Rate: udp.DefaultRate})
			add(model.Test{Name: fmt.Sprintf("%s at %.0f %%", paced, 100*share), Flow: f, Share: share})
		}
	}
	if q.Quick {
		datagrams(plan.Gentle, 800*time.Millisecond, directions...)
		return p
	}
	streams := mostStreams
	for _, h := range hosts {
		if h.CPUs > 0 {
			streams = min(streams, h.CPUs)
		}
	}
	for _, d := range directions {
		f := flow(d, omit, atLeast(3*time.Second))
		f.Streams = max(2, streams)
		add(model.Test{Name: several, Flow: f})
	}
	add(model.Test{Name: together, Flow: flow(model.Both, omit, atLeast(4*time.Second))})
	datagrams(limits.ThreeQuarters, max(2*time.Second, fewAnswers*rtt), model.Both)
	for _, share := range rungs() {
		datagrams(share, max(2*time.Second, fewAnswers*rtt), directions...)
	}
	return p
}

// rungs returns the rates of datagrams, as multiples of what one stream carried. The last is
// above 1, to distinguish a path that limits all traffic to that rate from one that only TCP
// fails to fill.
func rungs() []float64 { return []float64{plan.Gentle, 0.8, 0.95, 1.5} }

const (
	// ownTime is how long a host sends to itself, and ownLimit bounds the whole test.
	ownTime  = time.Second
	ownLimit = 15 * time.Second
)

// owns measures how fast each host sends to itself.
func owns(ctx context.Context, env app.Env, e *target.Ends) []model.Own {
	var out []model.Own
	for _, h := range []model.Host{model.Near, model.Far} {
		if e.Client(h) == nil {
			out = append(out, model.Own{Host: h, Rate: fact.Unknown[units.BitRate]("not visible: " + e.Foreign() + " does not do that")})
			continue
		}
		env.Observe(app.Looking{At: "what " + e.Names().Of(h) + " moves to itself"})
		rate, err := own(ctx, e, h)
		known := fact.Known(rate, "one stream to itself")
		if err != nil {
			known = fact.Unknown[units.BitRate]("not visible: " + err.Error())
		}
		out = append(out, model.Own{Host: h, Rate: known})
	}
	return out
}

// own measures the rate at which a host sends to itself.
func own(ctx context.Context, e *target.Ends, h model.Host) (units.BitRate, error) {
	ctx, cancel := context.WithTimeout(ctx, ownLimit)
	defer cancel()
	run, _, err := target.Itself{Ends: e, Host: h}.Run(ctx, runner.Spec{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: model.Setting{Name: "itself"},
		Flow: model.Flow{Engine: probes.DefaultLoad, Direction: model.To, Streams: 1, Duration: ownTime, Interval: ownTime},
	}, nil)
	if err != nil {
		return 0, err
	}
	v, ok := run.Value(model.To, model.Goodput)
	if !ok {
		return 0, errors.New("nothing arrived")
	}
	return units.BitRate(v), nil
}
