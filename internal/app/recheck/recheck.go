// Package recheck checks whether settings that are kept, or were proven, still pay off: by
// the conditions under which they were proven, and by measuring them again against the values
// before.
package recheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/keep"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/fact"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/knob"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/fault"
)

// The settings of the experiment.
const (
	Before = "before"
	Kept   = "kept"
)

// Store stores the experiment of a recheck, and has earlier ones.
type Store interface {
	trial.Store
	Session(ctx context.Context, id string) (model.Session, error)
}

// Request says what to check, and how.
type Request struct {
	Only    []model.KnobID // check only these settings; empty means all
	Look    bool           // only compare the conditions, and measure nothing
	Risky   bool           // measure settings that can cut a connection without asking
	Seed    uint64
	Command []string // without secrets
}

// Setting is a setting of one host, and its state.
type Setting struct {
	fingerprint.Standing
	Side     model.Host `json:"host"`
	Host     string     `json:"name"`               // for display
	Measured string     `json:"measured,omitempty"` // session that measured it again; "" if none did
	Gain     string     `json:"gain,omitempty"`     // its result, in one line
	Trouble  string     `json:"trouble,omitempty"`  // why it was not measured, or why the host did not store the new proof, if that was wanted
	Renewed  bool       `json:"renewed,omitempty"`  // the host stored the new measurement, with its conditions, as the proof
}

// OfSession returns the settings that a session proved, as if they were kept.
func OfSession(s *model.Session, name string) ([]fingerprint.Kept, error) {
	p, err := fingerprint.Prove(s, name)
	if err != nil {
		return nil, fault.WithKind(fault.Usage, err)
	}
	var all []fingerprint.Kept
	for _, a := range p.Kept {
		if a.Host == "" {
			continue
		}
		of := p
		of.Side = a.Host
		all = append(all, fingerprint.Kept{Knob: a.Knob, Value: a.Value, Proof: of, Proven: true})
	}
	if len(all) == 0 {
		return nil, fault.Usagef("setting %q of session %s changes no host", name, s.ID)
	}
	return all, nil
}

// OfHost returns the settings that are kept on one end.
func OfHost(ctx context.Context, e *target.Ends, side model.Host) ([]fingerprint.Kept, error) {
	c := e.Client(side)
	if c == nil {
		return nil, fault.WithKind(fault.Unsupported, fmt.Errorf("%s has no settings that linerate could keep", e.Foreign()))
	}
	records, err := c.Kept(ctx)
	if err != nil {
		return nil, err
	}
	return keep.Standing(records, side), nil
}

// Alone returns the state of the settings kept on a host without a session to its peer.
func Alone(kept []fingerprint.Kept, f model.HostFacts, name string) []Setting {
	var all []Setting
	for _, k := range kept {
		one := Setting{Standing: k.Look(fingerprint.TakeAlone(f, k.Proof.Print)), Side: f.Host, Host: name}
		fingerprint.Name(one.Changes, model.Names{Near: name, Far: model.EndName(k.Proof.Far)})
		all = append(all, one)
	}
	return all
}

// Do returns the state of kept settings of the end side; "" takes the side from their proofs.
// It measures the settings of one session together, as they were proven. With an error it
// returns the states known so far.
func Do(ctx context.Context, env app.Env, e *target.Ends, st Store, kept []fingerprint.Kept, side model.Host, r Request) ([]Setting, error) {
	now := fingerprint.Take(e.Hosts, fact.Unknown[time.Duration]("not measured"))
	var all []Setting
	for _, k := range kept {
		if len(r.Only) > 0 && !slices.Contains(r.Only, k.Knob) {
			continue
		}
		one := Setting{Standing: k.Look(now), Side: side}
		if side == "" {
			one.Side = k.Proof.Side
		}
		fingerprint.Name(one.Changes, e.Names())
		one.Host = e.Names().Of(one.Side)
		all = append(all, one)
	}
	if r.Look {
		return all, nil
	}
	for i := range all {
		if all[i].Measured != "" || all[i].Trouble != "" {
			continue
		}
		p, err := whole(ctx, st, all[i])
		if err != nil {
			all[i].Trouble = err.Error()
			continue
		}
		s, err := measure(ctx, env, e, st, p, r)
		if s.ID == "" || !trial.Measured(s) {
			return all, err
		}
		fill(all[i:], p, &s)
		if err != nil {
			return all, err
		}
		renew(ctx, e, all[i:], &s)
	}
	return all, nil
}

// whole returns the proof of a setting with all that a measurement needs. For a proof from a
// profile it takes that from the session that the proof names.
func whole(ctx context.Context, st Store, s Setting) (fingerprint.Proof, error) {
	p := s.Kept.Proof
	switch {
	case !s.Kept.Proven:
		return p, errors.New("the value before it is not recorded: linerate run compares it with another value")
	case p.Whole():
		return p, nil
	}
	old, err := st.Session(ctx, p.Session)
	if err != nil {
		return p, fmt.Errorf("session %s, which proved it, is not in this store", p.Session)
	}
	full, err := fingerprint.Prove(&old, p.Setting)
	if err == nil && !full.Whole() {
		err = fmt.Errorf("session %s does not say what it was before", p.Session)
	}
	i := slices.IndexFunc(full.Kept, func(a model.Assignment) bool { return a.Knob == s.Knob && a.Value == s.Value })
	if err == nil && i < 0 {
		err = fmt.Errorf("session %s proved another value", p.Session)
	}
	if err != nil {
		return p, err
	}
	full.Side = full.Kept[i].Host
	return full.Seen(s.Side), nil
}

// measure compares the kept settings with those before, in as many blocks as a verdict needs.
func measure(ctx context.Context, env app.Env, e *target.Ends, st Store, p fingerprint.Proof, r Request) (model.Session, error) {
	if err := mayTry(ctx, env, p.Kept, r); err != nil {
		return model.Session{}, err
	}
	flow := p.Flow
	flow.Direction = p.Directions[0]
	settle := p.Settle
	if settle == 0 {
		settle = -1 // none, as in the proof
	}
	out, err := plan.New(plan.Request{Plan: model.Plan{
		Settings: []model.Setting{{Name: Before, Assignments: p.Before}, {Name: Kept, Assignments: p.Kept}}, Baseline: Before,
		Flow: flow, Directions: p.Directions, Mode: model.FixedBlocks, MaxBlocks: stats.RankBlocks, Objective: p.Objective, Guards: p.Guards, Margin: p.Margin,
		Settle: settle, Seed: r.Seed,
	}})
	if err == nil {
		err = trial.Takes(env, out)
	}
	if err == nil {
		err = trial.MayTune(e, out)
	}
	if err != nil {
		return model.Session{}, fault.WithKind(fault.Usage, err)
	}
	return trial.New(env, e, st, model.KindRun, "recheck of "+p.Session, r.Command, out).Run(ctx)
}

// mayTry asks the user before a setting is changed that can cut the connection.
func mayTry(ctx context.Context, env app.Env, list []model.Assignment, r Request) error {
	if r.Risky {
		return nil
	}
	for _, a := range list {
		k, known := env.Catalogue.ByID(a.Knob)
		if !known || k.Risk < knob.RiskConnection && !k.Risky() {
			continue
		}
		answer, err := env.Ask(ctx, app.Question{Kind: app.TryRisky, What: string(a.Knob), Why: k.Risk.Words()})
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil || !answer.Yes {
			return fault.WithHint(fault.Usagef("%s is not measured again: it %s", a.Knob, k.Risk.Words()), "--allow risky agrees beforehand; --look measures nothing")
		}
	}
	return nil
}

// fill sets the state of the settings that a session measured.
func fill(all []Setting, p fingerprint.Proof, s *model.Session) {
	again, _ := fingerprint.Prove(s, Kept)
	now := fingerprint.Take(s.Hosts, fact.Unknown[time.Duration]("not measured"))
	if rtt, ok := again.Print[fingerprint.RoundTrip]; ok {
		now[fingerprint.RoundTrip] = rtt
	}
	state := fingerprint.Judge(s.Plan, s.Verdicts, Kept)
	for i := range all {
		one := &all[i]
		if one.Kept.Proof.Session != p.Session || one.Kept.Proof.Setting != p.Setting || !one.Kept.Proven {
			continue
		}
		one.State, one.Measured, one.Gain = state, s.ID, gains(s)
		one.Changes = one.Kept.Proof.Print.Changes(now)
		fingerprint.Name(one.Changes, s.Names())
		for _, b := range p.Before {
			if b.Host == one.Side && b.Knob == one.Knob {
				one.Before = b.Value
			}
		}
	}
}

// renew has the host store session s as the new proof of each setting that it showed to be
// still better: the next check compares with the present conditions. All settings of one
// record were measured together.
func renew(ctx context.Context, e *target.Ends, all []Setting, s *model.Session) {
	done := map[string]error{}
	for i := range all {
		one := &all[i]
		record := one.Kept.Record
		if one.Measured != s.ID || one.State != fingerprint.Still || record == "" {
			continue
		}
		if _, tried := done[record]; !tried {
			proof, err := fingerprint.Prove(s, Kept)
			var text string
			if err == nil {
				proof.Side = one.Side
				text, err = proof.Text()
			}
			if err == nil {
				err = e.Client(one.Side).Renew(context.WithoutCancel(ctx), record, text)
			}
			done[record] = err
		}
		if err := done[record]; err != nil {
			one.Trouble = fmt.Sprintf("the host does not note it: %v", err)
			continue
		}
		one.Renewed = true
	}
}

// gains returns the verdicts of a session on the kept settings: the deciding metric and any
// violated guard.
func gains(s *model.Session) string {
	var lines []string
	for _, v := range s.Verdicts {
		if v.Setting == Kept && !v.IsTwin && (v.Metric == s.Plan.Decides() || v.Guard != nil && v.Guard.State == model.GuardViolated) {
			i := metric.Describe(v.Metric)
			lines = append(lines, strings.TrimSpace(i.Name+" "+string(v.Direction))+": "+metric.Said(v, s.Plan.Margin))
		}
	}
	return strings.Join(lines, "; ")
}
