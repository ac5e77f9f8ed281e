package recheck_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/here"
	"linerate/internal/app/reach"
	"linerate/internal/app/recheck"
	"linerate/internal/control/wire"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/watchdog"
	"linerate/internal/lab"
	"linerate/internal/store/sqlite"
)

// TestMain makes the test program serve as the processes of a lab too.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch rest := os.Args[2:]; os.Args[1] {
	case "lab-init":
		if len(rest) > 0 && rest[0] == "set" {
			err = reach.SetInLab(context.Background(), knob.NewIndex(), rest[1:])
			break
		}
		err = lab.Child(rest)
	case "agent":
		err = agentMain(here.Options{State: rest[1], Link: rest[3]})
	case "watchdog":
		cfg, perr := watchdog.ParseArgs(rest)
		if err = perr; err == nil {
			err = watchdog.Serve(context.Background(), os.Stdin, os.Stdout, cfg)
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// agentMain is the agent of a virtual host.
func agentMain(o here.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	conn, done := wire.Join(os.Stdin, os.Stdout)
	env := apptest.Env(&apptest.Person{})
	env.Self, env.Getenv, env.Now = []string{self}, os.Getenv, time.Now
	err = here.Serve(ctx, env, conn, o)
	_ = conn.Close()
	_ = os.Stdin.Close()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	return err
}

// inLab opens a lab whose far host has a small receive buffer.
func inLab(t *testing.T, p *apptest.Person) (app.Env, *reach.Ends, recheck.Store) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := apptest.Env(p)
	env.Self, env.Getenv, env.Now = []string{self}, os.Getenv, time.Now
	near, far, err := reach.Pair("", "lab:rate=50mbit,rtt=10ms,far.tcp.recv_buffer_max=32KiB", env)
	if err != nil {
		t.Fatal(err)
	}
	e, err := reach.New(env, reach.Options{}).Open(t.Context(), near, far)
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("virtual hosts need user namespaces or root: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	st, err := sqlite.Open(t.Context(), sqlite.Memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return env, e, st
}

// proven is a session that said on these hosts that value is better for b.
func proven(e *reach.Ends, id string, value string) *model.Session {
	return &model.Session{
		ID: id, Kind: model.KindRun, Far: e.FarText, Near: e.NearText, Created: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), Hosts: e.Hosts,
		Plan: model.Plan{
			Baseline: "current", Directions: []model.Direction{model.To}, Guards: []model.Guard{}, Margin: 3,
			Flow:     model.Flow{Engine: "tcpbulk", Streams: 1, Duration: 300 * time.Millisecond, Omit: 300 * time.Millisecond, Interval: 100 * time.Millisecond},
			Settings: []model.Setting{{Name: "current"}, {Name: "x", Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: value}}}},
		},
	}
}

// held is what b has now.
func held(t *testing.T, e *reach.Ends) string {
	t.Helper()
	now, err := e.Far.ReadKnobs(t.Context(), []model.KnobID{"tcp.recv_buffer_max"})
	if err != nil {
		t.Fatal(err)
	}
	return now["tcp.recv_buffer_max"].Or("")
}

// TestMeasuredAgain has real agents measure what helps, what does not any more, and
// what nobody can measure: the hosts hold what they held, also when all is done.
func TestMeasuredAgain(t *testing.T) {
	t.Parallel()
	env, e, st := inLab(t, &apptest.Person{})
	tall, err := recheck.OfSession(proven(e, "tall", "1048576"), "x")
	if err != nil {
		t.Fatal(err)
	}
	tall[0].Proof.Print[fingerprint.Of(model.Far, fingerprint.Kernel)] = "2.6.9"
	small, err := recheck.OfSession(proven(e, "small", "6144"), "x")
	if err != nil {
		t.Fatal(err)
	}
	unknown := fingerprint.Kept{Knob: "tcp.sack", Value: "0"}
	all, err := recheck.Do(t.Context(), env, e, st, append(append(tall, small...), unknown), model.Far, recheck.Request{Seed: 1})
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	if s := all[0]; s.State != fingerprint.Still || !strings.Contains(s.Gain, " times as fast, at least ") || s.Before != "32768" || !strings.Contains(fingerprint.Since(s.Changes), "kernel 2.6.9 -> ") {
		t.Errorf("what helps: %+v", s)
	}
	if s := all[1]; s.State != fingerprint.NoLonger || s.Measured == "" || s.Measured == all[0].Measured || len(s.Changes) != 0 {
		t.Errorf("what does harm: %+v", s)
	}
	if s := all[2]; s.State != fingerprint.Unproven || s.Measured != "" || s.Trouble == "" {
		t.Errorf("what nobody measured: %+v", s)
	}
	s, err := st.Session(t.Context(), all[0].Measured)
	if err != nil || s.Verdicts[0].Blocks != 6 || len(s.Changes) == 0 {
		t.Errorf("%+v, %v", s.Verdicts, err)
	}
	for _, c := range s.Changes {
		if c.State != model.ChangeUndone {
			t.Errorf("%+v", c)
		}
	}
	if got := held(t, e); got != "32768" {
		t.Errorf("b holds %s afterwards", got)
	}
}

// TestLookMeasuresNothing: fingerprints alone tell what they can.
func TestLookMeasuresNothing(t *testing.T) {
	t.Parallel()
	p := &apptest.Person{}
	env, e, st := inLab(t, p)
	kept, err := recheck.OfSession(proven(e, "tall", "1048576"), "x")
	if err != nil {
		t.Fatal(err)
	}
	look := func() recheck.Setting {
		t.Helper()
		all, err := recheck.Do(t.Context(), env, e, st, kept, "", recheck.Request{Look: true})
		if err != nil || len(all) != 1 || all[0].Measured != "" {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	if s := look(); s.State != fingerprint.Proven || s.Side != model.Far {
		t.Errorf("%+v", s)
	}
	kept[0].Proof.Print["far.mtu"] = "9000"
	if s := look(); s.String() != "unproven since MTU 9000 -> 1500 at the far end" {
		t.Errorf("%s", s.Standing)
	}
	if began := apptest.Told[app.TrialBegan](p); len(began) > 0 {
		t.Errorf("it measured: %+v", began)
	}
	if all, err := recheck.Do(t.Context(), env, e, st, kept, "", recheck.Request{Look: true, Only: []model.KnobID{"tcp.sack"}}); err != nil || len(all) != 0 {
		t.Errorf("another setting: %+v, %v", all, err)
	}
}

// TestRiskyIsAsked: what can cut the connection is not measured without a yes.
func TestRiskyIsAsked(t *testing.T) {
	t.Parallel()
	p := &apptest.Person{}
	env, e, st := inLab(t, p)
	s := proven(e, "mtu", "1400")
	s.Plan.Settings[1].Assignments[0].Knob = "link.mtu"
	kept, err := recheck.OfSession(s, "x")
	if err != nil {
		t.Fatal(err)
	}
	_, err = recheck.Do(t.Context(), env, e, st, kept, "", recheck.Request{})
	if app.KindOf(err) != app.Usage || !strings.Contains(app.HintOf(err), "--allow risky") {
		t.Errorf("%v", err)
	}
	if asked := p.Asked(); len(asked) != 1 || asked[0].Kind != app.TryRisky {
		t.Errorf("asked %+v", asked)
	}
	if began := apptest.Told[app.TrialBegan](p); len(began) > 0 {
		t.Error("it measured all the same")
	}
}
