package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/app/reach"
	"linerate/internal/app/trial"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/report"
)

// sweepFlags are the flags of a message-size sweep, with NetPIPE's letters where
// it has one.
type sweepFlags struct {
	from              string
	smallest, largest string
	sweeps            int
	both, stream      bool
	fresh, spin       bool
	window, duration  string
	reverse, nagle    bool
	cooldown, title   string
	output            string
	seed              uint64
}

func (a *console) sweepCommand() *cobra.Command {
	var f sweepFlags
	c := &cobra.Command{
		Use: "sweep HOST", Short: "latency and throughput by message size, 1 B to 8 MiB, with what is odd confirmed",
		Long: `sweep exchanges messages of each size with HOST and shows the time and the rate of
one message one way. Sizes come in random order, several times over, so that a
drift of the path does not look like an effect of the size; beside each power of
two the sizes 3 bytes around it show the edges of buffers. Where the rate drops,
or nothing comes back, those sizes are measured again before that is believed.
All sizes take a few minutes; -t bounds a pass, and --max the sizes.

netpipe://HOST is a receiver of NetPIPE 3.x (NPtcp), or linerate serve --netpipe.`,
		Example: `  linerate sweep lab:rate=1gbit,rtt=1ms --max 64 -t 2s
  linerate sweep "$NAS"
  linerate sweep "$NAS" -2 --output np.out
  linerate sweep netpipe://nas`,
		Args: exactArgs("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.sweep(cmd.Context(), f, cmd.Flags().Changed, args[0])
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.from, "from", "", "the near HOST (default: this machine)")
	fl.StringVarP(&f.smallest, "min", "l", plan.DefaultSmallest.String(), "smallest message")
	fl.StringVarP(&f.largest, "max", "u", plan.DefaultLargest.String(), "largest message")
	fl.IntVar(&f.sweeps, "sweeps", plan.LeastSweeps, "passes over all sizes")
	fl.BoolVarP(&f.both, "both", "2", false, "both ends send at the same time")
	fl.BoolVarP(&f.stream, "stream", "s", false, "one message after the other, answered once at the end")
	fl.BoolVarP(&f.fresh, "fresh", "r", false, "a new connection for each size")
	fl.BoolVar(&f.spin, "spin", false, "wait by polling, which costs a core and saves a wake-up")
	fl.StringVarP(&f.window, "window", "b", "", "socket buffers; turns autotuning off (default: autotuning)")
	fl.StringVarP(&f.duration, "time", "t", "", "time of a pass, shared by its sizes (default: what each size needs)")
	fl.BoolVarP(&f.reverse, "reverse", "R", false, "HOST sends first")
	fl.BoolVar(&f.nagle, "nagle", false, "leave Nagle's algorithm on (no TCP_NODELAY)")
	fl.StringVar(&f.cooldown, "cooldown", "0s", "wait after each pass")
	fl.StringVar(&f.title, "title", "", "a name for the session")
	fl.StringVarP(&f.output, "output", "o", "", "write the fastest trials to this new file as NPtcp writes its np.out")
	fl.Uint64Var(&f.seed, "seed", 0, "of the order of sizes (default: a new one)")
	return c
}

// plan is the order of a sweep: one pass is a block.
func (f sweepFlags) plan() (model.Plan, error) {
	var bad faults
	flow := model.Flow{Engine: sizes.Name, Direction: model.To, Nagle: f.nagle}
	own := sizes.Params{Fresh: f.fresh, Spin: f.spin}
	switch {
	case f.both && f.stream:
		bad.add("both", errors.New("excludes --stream, which has one direction"))
	case f.both:
		own.Mode = sizes.Both
	case f.stream:
		own.Mode = sizes.Stream
	}
	if f.reverse {
		flow.Direction = model.From
	}
	if f.window != "" {
		flow.Window = bad.bytes("window", f.window)
	}
	if f.sweeps == 0 { // which the planner takes for its default
		bad.add("sweeps", errors.New("0 passes measure nothing"))
	}
	flow.Duration = bad.duration("time", f.duration)
	seed := f.seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	s, err := plan.NewSweep(plan.SweepOptions{
		Smallest: bad.bytes("min", f.smallest), Largest: bad.bytes("max", f.largest), Sweeps: f.sweeps, Seed: seed,
	})
	if err != nil && len(bad) == 0 {
		bad = append(bad, err.Error())
	}
	own.Sizes = s.Sizes
	flow = sizes.With(flow, own)
	p := model.Plan{
		Settings: []model.Setting{{Name: currentSetting}}, Baseline: currentSetting, Flow: flow, Directions: []model.Direction{flow.Direction},
		Mode: model.FixedBlocks, MaxBlocks: f.sweeps, Confidence: 0.95, Cooldown: bad.duration("cooldown", f.cooldown), Seed: seed,
	}
	for range f.sweeps {
		p.Order = append(p.Order, []string{currentSetting})
	}
	return p, bad.err()
}

func (a *console) sweep(ctx context.Context, f sweepFlags, given func(string) bool, host string) error {
	p, err := f.plan()
	if err != nil {
		return err
	}
	near, far, err := reach.Pair(f.from, host, a.Getenv)
	if err != nil {
		return err
	}
	if far.Kind == reach.Foreign {
		if err := f.foreign(&far, &p, given); err != nil {
			return err
		}
	} else if err := trial.Takes(a.world(), p); err != nil {
		return err
	}
	if f.output == "" {
		_, err := a.session(ctx, near, far, model.KindSweep, f.title, p)
		return err
	}
	file, err := os.OpenFile(f.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return withHint(app.WithKind(app.Usage, fmt.Errorf("--output: %w", err)), "name a file that is not there yet")
	}
	s, err := a.session(ctx, near, far, model.KindSweep, f.title, p)
	own, _ := sizes.Of(p.Flow)
	for _, d := range report.BuildSweep(s).Directions {
		err = errors.Join(err, report.WriteNetPIPE(file, d, own.Mode))
	}
	return errors.Join(err, file.Close())
}

// foreign fits a sweep to an NPtcp receiver, which follows a schedule of its own.
func (f sweepFlags) foreign(far *reach.Target, p *model.Plan, given func(string) bool) error {
	if !far.Program.Sweeps {
		return withHint(usagef("%s measures no message sizes", far), "use linerate test %s", far)
	}
	for _, flag := range []string{"reverse", "nagle", "spin", "time"} {
		if given(flag) {
			return usagef("--%s: an %s does not have it", flag, far.Program.Name)
		}
	}
	if !given("sweeps") {
		p.MaxBlocks, p.Order = 1, p.Order[:1] // NPtcp ends after one
	}
	o := reach.NetPIPE{Both: f.both, Stream: f.stream, Fresh: f.fresh, Window: p.Flow.Window}
	own, _ := sizes.Of(p.Flow)
	if given("min") {
		o.Smallest = own.Sizes[0]
	}
	if given("max") {
		largest, err := units.ParseBytes(f.largest)
		if err != nil {
			return err
		}
		o.Largest = largest
	}
	far.Foreign.NetPIPE = &o
	own.Sizes = []units.Bytes{} // its own schedule; a document has a list
	p.Flow.Engine = sizes.NetPIPE
	p.Flow = sizes.With(p.Flow, own)
	return o.Validate()
}
