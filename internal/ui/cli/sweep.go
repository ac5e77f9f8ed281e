package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app/trial"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/sweep"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/fault"
	"linerate/internal/report"
	"linerate/internal/ui/config"
)

// sweepFlags are the flags of a message-size sweep, with NetPIPE's letters where it has one.
type sweepFlags struct {
	from              string
	smallest, largest string
	sweeps            int
	both, stream      bool
	fresh, spin       bool
	reverse           bool
	output            string
	factors, sets     []string
}

func (a *console) sweepCommand() *cobra.Command {
	var f sweepFlags
	hosts, servers := farPrograms(a.world().AllPrograms(), "sweep")
	c := &cobra.Command{
		Use: "sweep [HOST]", Short: "latency and throughput by message size, 1 B to 8 MiB, with what is odd confirmed",
		Long: `sweep exchanges messages of each size with HOST and shows the time and the rate of
one message one way. Sizes come in random order, several times over, so that a
drift of the path does not look like an effect of the size; beside each power of
two the sizes 3 bytes around it show the edges of buffers. Where the rate drops,
or nothing comes back, those sizes are measured again before that is believed.
All sizes take a few minutes; -t bounds a pass, and --max the sizes.

--factor compares hosts (far=HOST,HOST), media and other settings: each combination is
a sweep of its own, one after the other, and linerate report draws them into one picture,
with a part for each far host. --set names several settings, such as those of a medium.

` + hosts + ` is a receiver of that program, or linerate serve ` + servers + `.`,
		Example: `  linerate sweep lab:rate=1gbit,rtt=1ms --max 64 -t 2s
  linerate sweep "$NAS"
  linerate sweep "$NAS" -2 --output np.out
  linerate sweep "$NAS" --set fast:nic.media.speed=100 --set slow:nic.media.speed=10
  linerate sweep --factor far=pc1,pc2,pc3 --factor polling=off,on
  linerate sweep netpipe://nas`,
		Args: atMostHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(f.factors) == 0 {
				return exactArgs("HOST")(cmd, args)
			}
			return a.sweep(cmd.Context(), f, cmd.Flags(), args)
		},
	}
	fl := c.Flags()
	registerPath(c)
	fl.StringVar(&f.from, "from", "", "the near HOST (default: this machine)")
	fl.StringArrayVar(&f.factors, "factor", nil, "KNOB=VALUE,VALUE or far=HOST,HOST: a sweep for each; several make a full grid")
	fl.StringArrayVar(&f.sets, "set", nil, "NAME:KNOB=VALUE,KNOB=VALUE: a sweep with several settings; NAME alone is the hosts as they are")
	fl.StringVar(&f.smallest, "min", plan.DefaultSmallest.String(), "smallest message")
	fl.StringVar(&f.largest, "max", plan.DefaultLargest.String(), "largest message")
	fl.IntVar(&f.sweeps, "sweeps", plan.LeastSweeps, "passes over all sizes")
	fl.BoolVarP(&f.both, "both", "2", false, "both ends send at the same time")
	fl.BoolVar(&f.stream, "stream", false, "one message after the other, answered once at the end")
	fl.BoolVar(&f.fresh, "fresh", false, "a new connection for each size")
	fl.BoolVar(&f.spin, "spin", false, "wait by polling, which costs a core and saves a wake-up")
	fl.StringP("window", "w", "", "socket buffers; turns autotuning off (default: autotuning)")
	fl.StringP("time", "t", "", "time of a pass, shared by its sizes (default: what each size needs)")
	fl.BoolVarP(&f.reverse, "reverse", "R", false, "HOST sends first")
	fl.Bool("nagle", false, "leave Nagle's algorithm on (no TCP_NODELAY)")
	fl.String("cooldown", "0s", "wait after each pass")
	fl.String("data", "", dataHelp)
	fl.String("title", "", "a name for the session")
	fl.StringVarP(&f.output, "output", "o", "", "write the fastest trials to this new file as NPtcp writes its np.out")
	fl.Uint64("seed", 0, "of the order of sizes (default: a new one)")
	return c
}

// ask returns the sweep that the flags describe.
func (f sweepFlags) ask(given func(string) bool, file config.File, bad faults) (trial.Sweep, error) {
	s := trial.Sweep{
		Flow:   model.Flow{Direction: model.To, Nagle: file.Flow.Nagle, Duration: file.Flow.Duration, Window: file.Flow.Window},
		Params: sizes.Params{Fresh: f.fresh, Spin: f.spin}, Cooldown: file.Cooldown, Seed: file.Seed, Data: file.Data,
	}
	switch {
	case f.both && f.stream:
		bad.add("both", errors.New("excludes --stream, which has one direction"))
	case f.both:
		s.Params.Mode = sizes.Both
	case f.stream:
		s.Params.Mode = sizes.Stream
	}
	if f.reverse {
		s.Flow.Direction = model.From
	}
	if given("min") {
		s.Smallest = bad.bytes("min", f.smallest)
	}
	if given("max") {
		s.Largest = bad.bytes("max", f.largest)
	}
	if given("sweeps") {
		if s.Passes = f.sweeps; s.Passes == 0 { // which the planner replaces by its default
			bad.add("sweeps", errors.New("0 passes measure nothing"))
		}
	}
	return s, bad.err()
}

func (a *console) sweep(ctx context.Context, f sweepFlags, set *pflag.FlagSet, hosts []string) error {
	var bad faults
	file, err := a.over(config.File{}, set)
	bad.join(err)
	asked, err := f.ask(set.Changed, file, bad)
	if err != nil {
		return err
	}
	a.path = file.Path
	all, err := a.sweeps(f, asked, givenValues(set), hosts)
	if err != nil {
		return err
	}
	if len(all) > 1 {
		return a.sweepAll(ctx, file.Title, all)
	}
	near, far, p := all[0].near, all[0].far, all[0].plan
	if f.output == "" {
		_, err := a.session(ctx, near, far, model.KindSweep, file.Title, p)
		return err
	}
	out, err := os.OpenFile(f.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		hint := "name a file that this user may make"
		switch {
		case errors.Is(err, fs.ErrExist):
			hint = "name a file that is not there yet"
		case errors.Is(err, fs.ErrNotExist):
			hint = "name a file in a folder that exists"
		}
		return fault.New(fault.Usage, fmt.Errorf("--output: %w", err), "%s", hint)
	}
	s, err := a.session(ctx, near, far, model.KindSweep, file.Title, p)
	if section := report.Build(s, report.Options{Kinds: a.kinds()}).Section; section != nil { // nil if the session did not begin
		if d, ok := section.Data.(*sweep.Document); ok {
			err = errors.Join(err, d.WriteNetPIPE(out))
		}
	}
	err = errors.Join(err, out.Close())
	if info, serr := os.Stat(f.output); serr == nil && info.Size() == 0 { // nothing was measured: free the name for another attempt
		err = errors.Join(err, os.Remove(f.output))
	}
	return err
}
