package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app/reach"
	"linerate/internal/app/trial"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/report/term"
)

// testFlags are the flags of a quick look.
type testFlags struct {
	flow          flowFlags
	traffic       trafficFlags
	path          pathFlags
	from          string
	reverse, both bool
	to            bool
	repeat        int
	cooldown      string
	data          string
	title         string
}

func (a *console) testCommand() *cobra.Command {
	var f testFlags
	hosts, servers := farPrograms(a.world().AllPrograms(), "test")
	c := &cobra.Command{
		Use: "test HOST", Short: "the quick look: both directions, and what limits them",
		Long: `test measures TCP goodput to HOST and back, compares it with what the link can
carry, and names what limits it, with evidence. Probes beside the load show what
it does to the latency. Nothing is changed.

With --udp it sends paced datagrams and reports loss, duplicates, reordering and
jitter; --search finds the highest rate that arrives. With --requests it sends
requests on a fixed schedule, so that a late reply does not delay the next
request.

` + hosts + ` are servers of those programs, or of linerate
serve ` + servers + `: they measure, but report little about themselves.`,
		Example: `  linerate test lab:rate=100mbit,rtt=2ms
  linerate test lab:rate=1gbit,rtt=10ms,far.tcp.recv_buffer_max=64KiB -t 3s
  linerate test "$NAS" -t 10s -P 4 --json
  linerate test "$NAS" -R
  linerate test "$NAS" --udp -b 500M
  linerate test "$NAS" --search --loss 0.1%
  linerate test "$NAS" --requests 1000 -l 64 --reply 4KiB
  linerate test iperf3://nas -P 4`,
		Args: exactArgs("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.test(cmd.Context(), f, cmd.Flags(), args[0])
		},
	}
	fl := c.Flags()
	f.path.register(c)
	f.flow.register(fl, "5s", "1s", "")
	f.traffic.register(fl, a.kinds())
	registerPrograms(fl, a.world().AllPrograms())
	fl.StringVar(&f.from, "from", "", "the near HOST (default: this machine)")
	fl.BoolVarP(&f.reverse, "reverse", "R", false, "only the direction from HOST")
	fl.BoolVar(&f.to, "to", false, "only the direction to HOST")
	fl.BoolVar(&f.both, "bidir", false, "both directions at once")
	fl.IntVar(&f.repeat, "repeat", 1, "runs per direction; the median is shown")
	fl.StringVar(&f.cooldown, "cooldown", "0s", "wait after each run")
	fl.StringVar(&f.data, "data", "", dataHelp)
	a.bindDetails(fl)
	fl.StringVar(&f.title, "title", "", "a name for the session")
	return c
}

// ask is what the flags ask for, with every mistake in bad.
func (f testFlags) ask(given func(string) bool, bad *faults) trial.Quick {
	var q trial.Quick
	chosen := 0
	for direction, on := range map[model.Direction]bool{model.To: f.to, model.From: f.reverse, model.Both: f.both} {
		if on {
			q.Directions, chosen = []model.Direction{direction}, chosen+1
		}
	}
	if chosen > 1 {
		*bad = append(*bad, "--to, --reverse and --bidir exclude each other: give one of them, or none for both directions in turn")
	}
	q.Repeats, q.Cooldown, q.Data = f.repeat, bad.duration("cooldown", f.cooldown), bad.data(f.data)
	f.flow.overlay(&q.Flow, given, func(string) bool { return false }, bad)
	f.traffic.apply(&q, given, bad)
	return q
}

// suit refuses flags that the far end does not understand, and fits the plan to it.
func (f testFlags) suit(a *console, far *reach.Target, p *model.Plan, set *pflag.FlagSet) error {
	for _, k := range a.world().AllPrograms() {
		for _, flag := range k.Flags {
			if set.Changed(flag.Name) && far.Program.Name != k.Name {
				return usagef("--%s: belongs to %s:// hosts, and %s is none", flag.Name, k.Name, far)
			}
		}
	}
	if far.Kind != reach.Foreign && set.Changed("bitrate") && !f.traffic.udp && !f.traffic.search {
		return withHint(usagef("--bitrate: linerate's own TCP is not paced"), "add --udp, or use a smaller --window")
	}
	return trial.Suit(a.world(), far, p, givenValues(set))
}

func (a *console) test(ctx context.Context, f testFlags, set *pflag.FlagSet, host string) error {
	var bad faults
	p := f.ask(set.Changed, &bad).Plan(a.kinds(), bad.add)
	if err := bad.err(); err != nil {
		return err
	}
	path, err := f.path.over(a.path, set.Changed)
	if err == nil {
		err = reach.Carries(path, p.Flow)
	}
	if err != nil {
		return err
	}
	a.path = path
	near, far, err := reach.Pair(f.from, host, a.world())
	if err != nil {
		return err
	}
	if !a.json && (set.Changed("interval") || set.Changed("parallel") && p.Flow.Streams > 1) {
		a.intervals = &term.Intervals{Every: set.Changed("interval"), Streams: p.Flow.Streams, Alone: far.Kind == reach.Foreign, Both: f.both, Datagrams: udp.Carries(p.Flow)}
	}
	if err := f.suit(a, &far, &p, set); err != nil {
		return err
	}
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	e, err := a.reach().Open(ctx, near, far)
	if err != nil {
		return err
	}
	defer e.Close()
	if !set.Changed("bitrate") {
		trial.FitSearch(e, &p)
	}
	s, err := trial.New(a.world(), e, st, model.KindTest, f.title, reach.RedactAll(os.Args), p).Run(ctx)
	return a.finish(ctx, st, s, err)
}
