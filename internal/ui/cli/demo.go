package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/app/check"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	apptune "linerate/internal/app/tune"
	"linerate/internal/core/analysis"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/limits"
	"linerate/internal/core/lists"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/lab"
	"linerate/internal/report"
	"linerate/internal/report/term"
	"linerate/internal/store"
	"linerate/internal/ui/config"
)

// The demo's lab: a link that every machine can fill, and a far host with settings of the last
// century. The window is a seventh of what the path needs, so that other load on the machine
// cannot hide its effect.
const (
	demoLab   = "lab:rate=200mbit,rtt=10ms,far.tcp.recv_buffer_max=64KiB"
	demoKnob  = model.KnobID("tcp.recv_buffer_max")
	demoHeld  = 2 * time.Second // how long the last step keeps the change
	demoCheck = "$ linerate check " + demoLab + " --quick"
	demoTune  = "$ linerate tune " + demoLab + " \\\n    --direction to --quick"
)

func (a *console) demoCommand() *cobra.Command {
	var loopback bool
	c := &cobra.Command{
		Use: "demo", Short: "the main job in the built-in lab: find the limit, fix it, prove it, undo it",
		Long: `demo takes about two minutes and needs no root. On Linux it makes two virtual
hosts with a wire of 200 Mbit/s between them; the far one has a receive buffer ceiling
of 64 KiB. It checks the path, tunes it, holds what helped for a moment and takes it
back, and ends with an exit code other than 0 where any of that did not work. On other
systems, or where the lab is not allowed, it compares settings of the flow over
loopback.`,
		Example: "  linerate demo",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.demo(cmd.Context(), loopback)
		},
	}
	c.Flags().BoolVar(&loopback, "loopback", false, "over loopback, without the lab")
	return c
}

func (a *console) demo(ctx context.Context, loopback bool) error {
	a.calm = 0     // the planted fault shows on a busy machine too
	a.lines = true // the demo prints a story, which a screen would cut up
	if !loopback {
		e, spec, err := a.demoOpen(ctx)
		if err == nil {
			defer e.Close()
			return a.demoInLab(ctx, e, spec)
		}
		if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) || ctx.Err() != nil {
			return err
		}
		a.talk("no lab here: %v", err)
	}
	return a.demoOnLoopback(ctx)
}

// say prints a step of the demo.
func (a *console) say(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.Out, format+"\n", args...)
	}
}

// demoQuestion returns the demo's experiment: short runs, because the effects are large and the
// hosts idle.
func demoQuestion(x *knob.Index, factor, title string) (question, error) {
	f, err := config.ParseFactor(factor, knobChecker{Index: x})
	if err != nil {
		return question{}, err
	}
	return question{
		File: config.File{
			Title: title, Factors: []config.Factor{f}, Request: plan.Request{Plan: model.Plan{
				Baseline: f.Levels[0].Text, MaxBlocks: 12, Directions: []model.Direction{model.To}, Settle: 100 * time.Millisecond, Seed: 1,
				Flow: model.Flow{
					Engine: "tcpbulk", Direction: model.To, Streams: 1,
					Omit: time.Second, Duration: 2 * time.Second, Interval: 500 * time.Millisecond,
				},
			}},
		},
	}, nil
}

// demoOpen starts the demo's lab.
func (a *console) demoOpen(ctx context.Context) (*target.Ends, lab.Spec, error) {
	spec, err := lab.ParseSpec(strings.TrimPrefix(demoLab, "lab:"))
	if err != nil {
		return nil, spec, err
	}
	e, err := a.reach().Open(ctx, target.Target{}, target.Target{Kind: target.Lab, Text: demoLab, Spec: spec})
	return e, spec, err
}

func (a *console) demoInLab(ctx context.Context, e *target.Ends, spec lab.Spec) error {
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	ceiling, err := limits.Wire{Rate: spec.To.Rate, MTU: spec.MTU, Timestamps: true}.Goodput()
	if err != nil {
		return err
	}
	a.say("1. Two virtual hosts, near and far, and a wire of %s with a round trip of 10 ms.", spec.To.Rate)
	a.say("   It can carry %s of TCP payload. A fault is planted: far may use no more", ceiling)
	a.say("   than 64 KiB to receive (%s). linerate does not know it.\n", demoKnob)
	a.say("2. What is wrong? check looks at the path for ten seconds and changes nothing.\n")
	a.say("%s\n", demoCheck)
	if err := a.demoLook(ctx, e, st); err != nil {
		return err
	}
	out, err := a.demoFix(ctx, e, st)
	if err != nil {
		return err
	}
	return a.demoHold(ctx, st, out)
}

// demoLook is linerate check --quick.
func (a *console) demoLook(ctx context.Context, e *target.Ends, st results) error {
	s, err := check.Run(ctx, a.world(), e, st, check.Request{Quick: true, Command: target.RedactAll(os.Args)})
	if err != nil && fault.KindOf(err) != fault.Found { // a finding is expected here
		return err
	}
	if !a.json {
		err = a.report(ctx, st, s)
		a.say("")
		return err
	}
	return nil
}

// demoFix is linerate tune. Afterwards it reads the current value from the host.
func (a *console) demoFix(ctx context.Context, e *target.Ends, st results) (apptune.Outcome, error) {
	a.say("3. Fix it, and prove it. tune tries what could help on both hosts, beside the")
	a.say("   hosts as they are; each change is undone after its run. What helped is then")
	a.say("   proven from the start, in fresh runs in random order. About a minute.\n")
	a.say("%s\n", demoTune)
	before, _ := e.Hosts[1].Knobs[demoKnob].Get()
	r := apptune.Request{Quick: true, Command: target.RedactAll(os.Args)}
	r.Flow = probes.Over(model.Flow{Engine: bulk.Name, Direction: model.To, Streams: 1, Interval: defaultInterval})
	r.Directions, r.Objective, r.Settle, r.Seed = []model.Direction{model.To}, model.Goodput, tuneSettle, 1
	out, err := apptune.Run(ctx, a.world(), e, st, r)
	if out.Search.ID == "" {
		return out, err
	}
	t := report.BuildTuned(out.Search, out.Record, out.Confirmation)
	switch {
	case a.json:
		err = errors.Join(err, a.document("linerate/tune/v1", tuneDoc{t, out.Record, tuneNext(t, out.Record, demoLab, "")}))
	default:
		err = errors.Join(err, term.RenderTuned(a.Out, t, a.termOptions()))
	}
	if err != nil {
		return out, err
	}
	now, err := e.Far.ReadKnobs(ctx, []model.KnobID{demoKnob})
	if err != nil {
		return out, err
	}
	after, ok := now[demoKnob].Get()
	if !ok || after != before {
		return out, &fault.Error{Kind: fault.NotUndone, Err: fmt.Errorf("%s on the far host was %s and is %s", demoKnob, before, after)}
	}
	changes := len(out.Search.Changes)
	if out.Confirmation != nil {
		changes += len(out.Confirmation.Changes)
	}
	a.say("\n   Undone: %s of far was %s before and is %s now, as far says", demoKnob, a.formatKnob(demoKnob, before), a.formatKnob(demoKnob, after))
	a.say("   after %s.\n", plain.Count(changes, "change"))
	if !t.Proven {
		return out, fault.WithHint(fmt.Errorf("the demo did not prove what it planted: %s", t.Headline), "other work on this machine may have taken its time: run it once more")
	}
	return out, nil
}

// demoHold is linerate set without confirmation: the change is undone by itself.
func (a *console) demoHold(ctx context.Context, st results, out apptune.Outcome) error {
	words := lists.Each(apptune.OfHosts(out.Record.Winner), assignment)
	words = append(words, demoLab)
	if !a.json {
		a.say("4. Keep it, or not? The change is not confirmed here, so it goes back at its")
		a.say("   deadline, even if linerate is killed.\n")
		a.say("$ linerate set %s --both --for 2s \\\n    %s\n", strings.Join(words[:len(words)-1], " "), demoLab)
		a.InTerminal = false // no prompt
		if err := a.set(ctx, setFlags{within: demoHeld, both: true}, words); err != nil {
			return err
		}
	}
	a.say("\n   On hosts of your own you are asked, and linerate keep writes it into their files.")
	a.say("   Every run and sample is in %s:\n   linerate show %s", st.Path(), out.Record.Confirmation)
	return nil
}

// demoTest is linerate test with short runs.
func (a *console) demoTest(ctx context.Context, e *target.Ends, st results) (model.Session, error) {
	flow := model.Flow{Engine: "tcpbulk", Streams: 1, Duration: 3 * time.Second, Omit: time.Second, Interval: time.Second}
	p := trial.Repeated(flow, []model.Direction{model.To}, 1)
	s, err := trial.New(a.world(), e, st, model.KindTest, "demo: the quick look", target.RedactAll(os.Args), p).Run(ctx)
	if err == nil && !a.json {
		err = a.report(ctx, st, s)
		a.say("")
	}
	return s, err
}

func (a *console) demoRun(ctx context.Context, e *target.Ends, st results, q question) (model.Session, error) {
	t, err := trial.Experiment(ctx, a.world(), e, st, q.Title, target.RedactAll(os.Args), q.Flow, q.plan)
	if err != nil {
		return model.Session{}, err
	}
	a.announce(ctx, st, t.Session)
	s, err := t.Run(ctx)
	if err == nil {
		err = a.report(ctx, st, s)
	}
	return s, err
}

// demoEnd ends a demo that failed or was stopped.
func (a *console) demoEnd(ctx context.Context, st results, s model.Session, err error) error {
	if s.ID == "" {
		return err
	}
	return a.finish(ctx, st, s, err)
}

// demoOnLoopback does the same with two agents in this process, and with settings that change no
// host.
func (a *console) demoOnLoopback(ctx context.Context) error {
	here := target.Target{Kind: target.Here, Text: app.ThisMachine}
	st, e, end, err := a.begin(ctx, here, here)
	if err != nil {
		return err
	}
	defer end()
	a.say("1. Two agents in this process, over the loopback of this %s machine, without a lab:", runtime.GOOS)
	a.say("   no link rate is known, and no setting of a host is tried.\n")
	a.say("2. What does it carry? (linerate test)\n")
	s, err := a.demoTest(ctx, e, st)
	if err != nil {
		return a.demoEnd(ctx, st, s, err)
	}
	a.say("3. How large must the socket buffers be? Four sizes of the flow's window. (linerate run)\n")
	q, err := demoQuestion(a.knobs, "window=16KiB,64KiB,256KiB,1MiB", "demo: the window over loopback")
	if err != nil {
		return err
	}
	q.Flow.Omit, q.Flow.Duration = 300*time.Millisecond, time.Second
	if s, err = a.demoRun(ctx, e, st, q); err != nil {
		return a.demoEnd(ctx, st, s, err)
	}
	a.say("\n4. Nothing to undo: a window belongs to the connection and ends with it.\n")
	a.say("5. Kept: every run and sample, in %s.\n   See it again with: linerate show %s", st.Path(), s.ID)
	return nil
}

// announce says what is about to happen, how long it takes, and what effects it can detect.
func (a *console) announce(ctx context.Context, st results, s model.Session) {
	p := s.Plan
	often := "at most "
	if p.Mode == model.FixedBlocks {
		often = ""
	}
	noise := a.noiseBefore(ctx, st, s)
	each, all := units.FormatDuration(p.RunLength().Round(100*time.Millisecond)), often+units.FormatDuration((time.Duration(p.Runs())*p.RunLength()).Round(time.Second))+" in all"
	if untimed := report.NewDryRun(s, noise, a.knobs, a.kinds()).Untimed(); untimed != "" {
		each, all = p.Flow.Bytes.Decimal(), untimed
	}
	a.talk("session %s: %d settings, %s%s of %s a run, %s (seed %d)", s.ID, len(p.Settings), often, plain.Count(len(p.Order), "block"), each, all, p.Seed)
	for _, line := range report.Outlook(p, analysis.PlanLine(p, noise)) {
		a.talk("%s", line)
	}
}

// noiseBefore returns the noise that the newest session between the same hosts found in the same
// metric with the same traffic.
func (a *console) noiseBefore(ctx context.Context, st results, s model.Session) fact.Of[float64] {
	none := fact.Unknown[float64]("no session between these hosts measured the noise yet")
	if metric.Describe(s.Plan.Decides()).CanBe0 {
		return fact.Unknown[float64]("the noise of " + metric.Name(s.Plan.Decides()) + " is no share")
	}
	items, err := st.Sessions(ctx, store.Filter{Kind: model.KindRun, Far: s.Far, Limit: noiseSessions})
	if err != nil {
		return none
	}
	for _, i := range items {
		if i.Near != s.Near || i.ID == s.ID {
			continue
		}
		old, err := st.Session(ctx, i.ID)
		if err != nil || old.Plan.Flow.Engine != s.Plan.Flow.Engine {
			continue
		}
		for _, n := range old.Noise {
			if n.Metric == s.Plan.Decides() && n.Upper > 0 {
				age := units.FormatDuration(max(0, s.Created.Sub(old.Created)).Round(time.Minute))
				return fact.Known(n.Upper, fmt.Sprintf("session %s, %s before this one", old.ID, age))
			}
		}
	}
	return none
}

// noiseSessions is how many sessions back to look for the noise.
const noiseSessions = 10
