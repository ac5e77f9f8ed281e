package recheck_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/recheck"
	"linerate/internal/app/target"
	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/core/fact"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/engines"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
)

// hosts returns two hosts in this process. Results between them depend on the receive buffer
// of the far one.
func hosts(t *testing.T, p *apptest.Person) (*apptest.Bed, app.Env, *target.Ends, *sqlite.Store) {
	t.Helper()
	bed, env, runs := apptest.NewBed(t), apptest.Env(p), 0
	env.Catalogue, env.Engines = knob.NewIndex(), func(engines.Options) []engine.Engine { return []engine.Engine{agenttest.Scripted{}} }
	bed.Configure = func(h model.Host, _ int, c *agent.Config) {
		facts := c.Facts
		c.Facts = func(ctx context.Context, peer string) (model.HostFacts, error) {
			f, err := facts(ctx, peer)
			f.Knobs = map[model.KnobID]fact.Of[string]{}
			for id := range agenttest.Values() {
				f.Knobs[id] = fact.Known(bed.Knobs(h).Value(id), "test")
			}
			return f, err
		}
		c.Engines = append(c.Engines, agenttest.Scripted{Rate: func() units.BitRate {
			buffer, err := strconv.Atoi(bed.Knobs(model.Far).Value("tcp.recv_buffer_max"))
			must.OK(t, err)
			runs++
			return units.BitRate(1000*buffer + runs%7)
		}})
	}
	e := must.Get(target.Connect(t.Context(), env, "near", "far", bed.Dial))(t)
	t.Cleanup(e.Close)
	st := must.Get(sqlite.Open(t.Context(), sqlite.Memory))(t)
	t.Cleanup(func() { _ = st.Close() })
	return bed, env, e, st
}

// proven returns a setting that a session proved to be better for the far host.
func proven(t *testing.T, e *target.Ends, id string, k model.KnobID, value string) []fingerprint.Kept {
	t.Helper()
	kept, err := recheck.OfSession(&model.Session{
		ID: id, Kind: model.KindRun, Far: e.FarText, Near: e.NearText, Created: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), Hosts: e.Hosts,
		Plan: model.Plan{
			Baseline: "current", Directions: []model.Direction{model.To}, Guards: []model.Guard{}, Margin: 3,
			Flow:     model.Flow{Engine: agenttest.ScriptedName, Streams: 1, Duration: 300 * time.Millisecond, Interval: 100 * time.Millisecond},
			Settings: []model.Setting{{Name: "current"}, {Name: "x", Assignments: []model.Assignment{{Host: model.Far, Knob: k, Value: value}}}},
		},
	}, "x")
	must.Do(t, err)
	return kept
}

// TestMeasuredAgain measures a setting that helps, one that no longer does, and one without a
// measurement: the hosts keep their values, also at the end.
func TestMeasuredAgain(t *testing.T) {
	bed, env, e, st := hosts(t, &apptest.Person{})
	tall := proven(t, e, "tall", "tcp.recv_buffer_max", "9000")
	tall[0].Proof.Print[fingerprint.Of(model.Far, fingerprint.MTU)] = "9000"
	small := proven(t, e, "small", "tcp.recv_buffer_max", "500")
	unknown := fingerprint.Kept{Knob: "tcp.sack", Value: "0"}
	all, err := recheck.Do(t.Context(), env, e, st, slices.Concat(tall, small, []fingerprint.Kept{unknown}), model.Far, recheck.Request{Seed: 1})
	must.Need(t, err == nil && len(all) == 3, "%+v, %v", all, err)
	if s := all[0]; s.State != fingerprint.Still || !strings.Contains(s.Gain, "9 times as fast, at least ") || s.Before != "1000" || !strings.Contains(fingerprint.Since(s.Changes), "MTU 9000 -> 1500") {
		t.Errorf("what helps: %+v", s)
	}
	if s := all[1]; s.State != fingerprint.NoLonger || s.Measured == "" || s.Measured == all[0].Measured || len(s.Changes) != 0 {
		t.Errorf("what does harm: %+v", s)
	}
	if s := all[2]; s.State != fingerprint.Unproven || s.Measured != "" || s.Trouble == "" {
		t.Errorf("a setting without a measurement: %+v", s)
	}
	s, err := st.Session(t.Context(), all[0].Measured)
	must.True(t, err == nil && s.Verdicts[0].Blocks == 6 && len(s.Changes) != 0, "%+v, %v", s.Verdicts, err)
	for _, c := range s.Changes {
		must.Equal(t, c.State, model.ChangeUndone, "%+v", c)
	}
	must.Equal(t, bed.Knobs(model.Far).Value("tcp.recv_buffer_max"), "1000", "the far host afterwards")
}

// TestLookMeasuresNothing: fingerprints alone show what they can.
func TestLookMeasuresNothing(t *testing.T) {
	p := &apptest.Person{}
	_, env, e, st := hosts(t, p)
	kept := proven(t, e, "tall", "tcp.recv_buffer_max", "9000")
	look := func() recheck.Setting {
		t.Helper()
		all := must.Get(recheck.Do(t.Context(), env, e, st, kept, "", recheck.Request{Look: true}))(t)
		must.Need(t, len(all) == 1 && all[0].Measured == "", "%+v", all)
		return all[0]
	}
	s := look()
	must.True(t, s.State == fingerprint.Proven && s.Side == model.Far, "%+v", s)
	kept[0].Proof.Print["far.mtu"] = "9000"
	s = look()
	must.True(t, s.String() == "unproven since MTU 9000 -> 1500 at far", "%s", s.Standing)
	must.Len(t, apptest.Events[app.TrialBegan](p), 0, "it measured")
	all := must.Get(recheck.Do(t.Context(), env, e, st, kept, "", recheck.Request{Look: true, Only: []model.KnobID{"tcp.sack"}}))(t)
	must.True(t, len(all) == 0, "another setting: %+v", all)
}

// TestRiskyIsAsked: a setting that can cut the connection is not measured without a yes.
func TestRiskyIsAsked(t *testing.T) {
	p := &apptest.Person{}
	_, env, e, st := hosts(t, p)
	_, err := recheck.Do(t.Context(), env, e, st, proven(t, e, "mtu", "link.mtu", "1400"), "", recheck.Request{})
	must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(fault.HintOf(err), "--allow risky"), "%v", err)
	asked := p.Asked()
	must.True(t, len(asked) == 1 && asked[0].Kind == app.TryRisky, "asked %+v", asked)
	must.Len(t, apptest.Events[app.TrialBegan](p), 0, "it measured all the same")
}
