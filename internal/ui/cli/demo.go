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
	"linerate/internal/app/reach"
	"linerate/internal/app/trial"
	"linerate/internal/core/analysis"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/limits"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/lab"
	"linerate/internal/report"
	"linerate/internal/store"
	"linerate/internal/ui/config"
)

// The demo's lab: a gigabit wire whose far host was tuned for another century.
const (
	demoLab    = "lab:rate=1gbit,rtt=10ms,b.tcp.recv_buffer_max=64KiB"
	demoFactor = "b.tcp.recv_buffer_max=64KiB,256KiB,1MiB,4MiB"
	demoKnob   = model.KnobID("tcp.recv_buffer_max")
)

func (a *console) demoCommand() *cobra.Command {
	var loopback bool
	c := &cobra.Command{
		Use: "demo", Short: "the main job in the built-in lab: measure, find the limit, try, prove, undo",
		Long: `demo takes about two minutes and needs no root. On Linux it makes two virtual
hosts with a gigabit wire between them; the far one has a receive buffer ceiling
of 64 KiB. On other systems, or where the lab is not allowed, it does the same
with settings of the flow over loopback.`,
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
	if !loopback {
		err := a.demoInLab(ctx)
		if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) || ctx.Err() != nil {
			return err
		}
		a.talk("no lab here: %v", err)
	}
	return a.demoOnLoopback(ctx)
}

// say prints a step of the story.
func (a *console) say(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.Out, format+"\n", args...)
	}
}

// demoQuestion is the experiment of the demo: short runs, because the effects
// are large and the hosts are idle.
func demoQuestion(x *knob.Index, factor, title string) (question, error) {
	f, err := config.ParseFactor(factor, knobChecker{Index: x})
	if err != nil {
		return question{}, err
	}
	return question{
		File: config.File{
			Title: title, Factors: []config.Factor{f}, Baseline: f.Levels[0].Text, MaxBlocks: 12,
			Directions: []model.Direction{model.To}, Margin: 3, Tolerance: 5, Settle: 100 * time.Millisecond,
			Flow: model.Flow{
				Engine: "tcpbulk", Direction: model.To, Streams: 1,
				Omit: time.Second, Duration: 2 * time.Second, Interval: 500 * time.Millisecond,
			},
		},
		seed: 1, omitGiven: true,
	}, nil
}

func (a *console) demoInLab(ctx context.Context) error {
	spec, err := lab.ParseSpec(strings.TrimPrefix(demoLab, "lab:"))
	if err != nil {
		return err
	}
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	e, err := a.reach().Open(ctx, reach.Target{}, reach.Target{Kind: reach.Lab, Text: demoLab, Spec: spec})
	if err != nil {
		return err
	}
	defer e.Close()

	ceiling, err := limits.Wire{Rate: spec.AB.Rate, MTU: spec.MTU, Timestamps: true}.Goodput()
	if err != nil {
		return err
	}
	a.say("1. Two virtual hosts, a and b, and a wire of %s with a round trip of 10 ms.", spec.AB.Rate)
	a.say("   At an MTU of %d it can carry %s of TCP payload (linerate limits).", spec.MTU, ceiling)
	a.say("   Host b was given a receive buffer ceiling of 64 KiB.\n")
	before, _ := e.Hosts[1].Knobs[demoKnob].Get()

	a.say("2. What does it carry, and what holds it back? (linerate test)\n")
	s, err := a.demoTest(ctx, e, st)
	if err != nil {
		return a.demoEnd(ctx, st, s, err)
	}
	a.say("3. Would a larger ceiling help? Four levels in random blocks, and the baseline")
	a.say("   once more under another name: it must not differ from itself. (linerate run)\n")
	q, err := demoQuestion(a.knobs, demoFactor, "demo: the receive ceiling of b")
	if err != nil {
		return err
	}
	s, err = a.demoRun(ctx, e, st, q)
	if err != nil {
		return a.demoEnd(ctx, st, s, err)
	}
	return a.demoProof(ctx, e, st, s, before)
}

// demoTest is linerate test with short runs.
func (a *console) demoTest(ctx context.Context, e *reach.Ends, st results) (model.Session, error) {
	flow := model.Flow{Engine: "tcpbulk", Streams: 1, Duration: 3 * time.Second, Omit: time.Second, Interval: time.Second}
	p := trial.Repeated(flow, []model.Direction{model.To}, 1)
	s, err := trial.New(a.world(), e, st, model.KindTest, "demo: the quick look", reach.RedactAll(os.Args), p).Run(ctx)
	if err == nil && !a.json {
		err = a.report(ctx, st, s)
		a.say("")
	}
	return s, err
}

func (a *console) demoRun(ctx context.Context, e *reach.Ends, st results, q question) (model.Session, error) {
	t, err := trial.Experiment(ctx, a.world(), e, st, q.Title, reach.RedactAll(os.Args), q.Flow, q.plan)
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

// demoEnd ends a demo that broke off or was stopped.
func (a *console) demoEnd(ctx context.Context, st results, s model.Session, err error) error {
	if s.ID == "" {
		return err
	}
	return a.finish(ctx, st, s, err)
}

// demoProof reads the knob again: the last word has the host.
func (a *console) demoProof(ctx context.Context, e *reach.Ends, st results, s model.Session, before string) error {
	now, err := e.Far.ReadKnobs(ctx, []model.KnobID{demoKnob})
	if err != nil {
		return err
	}
	after, ok := now[demoKnob].Get()
	if !ok || after != before {
		return &app.Fault{Kind: app.NotUndone, Err: fmt.Errorf("%s on b was %s and is %s", demoKnob, before, after)}
	}
	a.say("\n4. Undone: %s on b was %s before and is %s now,", demoKnob,
		a.formatKnob(demoKnob, before), a.formatKnob(demoKnob, after))
	a.say("   read from the host after %d changes in %d runs.\n", len(s.Changes), len(s.Runs))
	a.say("5. Kept: every run and sample, in %s.\n   See it again with: linerate show %s", st.Path(), s.ID)
	return nil
}

// demoOnLoopback does the same over two agents in this process, with settings
// that change no host.
func (a *console) demoOnLoopback(ctx context.Context) error {
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	here := reach.Target{Kind: reach.Here, Text: app.ThisMachine}
	e, err := a.reach().Open(ctx, here, here)
	if err != nil {
		return err
	}
	defer e.Close()
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

// announce says what is about to happen, how long it takes, and what it can see.
func (a *console) announce(ctx context.Context, st results, s model.Session) {
	p := s.Plan
	runs := 0
	for _, b := range p.Order {
		runs += len(b) * max(1, len(p.Directions))
	}
	often := "at most "
	if p.Mode == model.FixedBlocks {
		often = ""
	}
	a.talk("session %s: %d settings, %s%s of %s a run, %s%s in all (seed %d)", s.ID, len(p.Settings), often,
		plural(len(p.Order), "block"), units.FormatDuration(p.RunLength().Round(100*time.Millisecond)), often,
		units.FormatDuration((time.Duration(runs) * p.RunLength()).Round(time.Second)), p.Seed)
	for _, line := range report.Outlook(p, analysis.PlanLine(p, a.noiseBefore(ctx, st, s))) {
		a.talk("%s", line)
	}
}

// noiseBefore is the noise that the newest session between the same hosts found in
// the same metric with the same traffic.
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

// noiseSessions is how many sessions back the noise is looked for.
const noiseSessions = 10

// plural counts things: "1 block", "2 blocks".
func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}
