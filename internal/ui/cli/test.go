package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/report/term"
	"linerate/internal/ui/config"
)

// testFlags are the flags of a test.
type testFlags struct {
	from, lossLimit, idle string
	to, reverse, both     bool
	udp, search, noLocate bool
	repeat                int
}

// defaultIdle is how long probes run without load first: some 20 probes, enough for a median.
const defaultIdle = "1s"

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
  linerate test iperf3://nas -P 4
  linerate test udpstp://nas`,
		Args: exactArgs("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.test(cmd.Context(), f, cmd.Flags(), args[0])
		},
	}
	fl := c.Flags()
	registerPath(c)
	registerFlow(fl, "5s", "1s", "")
	fl.BoolVarP(&f.udp, "udp", "u", false, "UDP instead of TCP")
	fl.StringP("bitrate", "b", "", "payload rate of UDP per direction, as 100M or 1gbit (default: 1 Mbit/s; 0: as fast as possible); with iperf2:// and iperf3:// also of TCP")
	fl.BoolVar(&f.search, "search", false, "find the highest UDP rate whose loss stays below --loss")
	fl.StringVar(&f.lossLimit, "loss", "0.1%", "with --search: the loss that is accepted")
	fl.StringVar(&f.idle, "idle", defaultIdle, "probe the latency for so long before the load, then beside it; 0s: do not probe")
	fl.BoolVar(&f.noLocate, "no-locate", false, noLocateHelp)
	registerOwn(fl, a.kinds())
	registerPrograms(fl, a.world().AllPrograms())
	fl.StringVar(&f.from, "from", "", "the near HOST (default: this machine)")
	fl.BoolVarP(&f.reverse, "reverse", "R", false, "only the direction from HOST")
	fl.BoolVar(&f.to, "to", false, "only the direction to HOST")
	fl.BoolVar(&f.both, "bidir", false, "both directions at once")
	fl.IntVar(&f.repeat, "repeat", 1, "runs per direction; the median is shown")
	fl.String("cooldown", "0s", "wait after each run")
	fl.String("data", "", dataHelp)
	a.bindDetails(fl)
	fl.String("title", "", "a name for the session")
	return c
}

// quick returns the test that the flags describe, and adds all mistakes to bad.
func (a *console) quick(f testFlags, fl *pflag.FlagSet, bad *faults) (trial.Quick, config.File) {
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
	file, also := config.File{Kinds: a.kinds()}, ""
	if f.search || f.udp {
		also = udp.Name
	}
	choose(fl, file.Kinds, &file.Flow, also, bad)
	var foreign []string
	if file.Flow.Engine != udp.Name { // for TCP it belongs to other programs
		foreign = []string{"bitrate"}
	}
	file, err := a.over(file, fl, foreign...)
	bad.join(err)
	q.Flow, q.Repeats, q.Cooldown, q.Data = file.Flow, f.repeat, file.Cooldown, file.Data
	q.Idle = bad.duration("idle", f.idle)
	q.Trace = !f.noLocate
	if f.search {
		q.Search = f.rateSearch(q, fl.Changed, bad)
	} else if fl.Changed("loss") {
		bad.add("loss", errors.New("belongs to --search"))
	}
	return q, file
}

// rateSearch returns the search that the flags describe.
func (f testFlags) rateSearch(q trial.Quick, given func(string) bool, bad *faults) *trial.RateSearch {
	limit, err := units.ParsePercent(f.lossLimit)
	if err == nil && (limit < 0 || limit >= 100) {
		err = fmt.Errorf("%s is not a share of loss between 0%% and 100%%", f.lossLimit)
	}
	s := &trial.RateSearch{Highest: trial.HighestRate, Timed: given("time")}
	if bad.add("loss", err); err == nil {
		s.Loss = float64(limit) / 100
	}
	if u, ok := udp.Of(q.Flow); ok && given("bitrate") && len(*bad) == 0 {
		s.Highest = u.Rate
	}
	if given("repeat") {
		s.Repeats = q.Repeats
	}
	return s
}

// suit refuses flags that the far end does not support, and adapts the plan to it.
func (f testFlags) suit(a *console, far *target.Target, p *model.Plan, set *pflag.FlagSet) error {
	for _, k := range a.world().AllPrograms() {
		for _, flag := range k.Flags {
			if set.Changed(flag.Name) && far.Program.Name != k.Name {
				return fault.Usagef("--%s: belongs to %s:// hosts, and %s is another kind", flag.Name, k.Of(), far)
			}
		}
	}
	if far.Kind != target.Foreign && set.Changed("bitrate") && !f.udp && !f.search {
		return fault.WithHint(fault.Usagef("--bitrate: linerate's own TCP is not paced"), "add --udp, or use a smaller --window")
	}
	return trial.Suit(a.world(), far, p, givenValues(set))
}

func (a *console) test(ctx context.Context, f testFlags, set *pflag.FlagSet, host string) error {
	var bad faults
	q, file := a.quick(f, set, &bad)
	p := q.Plan(a.kinds(), bad.add)
	if err := bad.err(); err != nil {
		return err
	}
	if err := target.Carries(file.Path, p.Flow); err != nil {
		return err
	}
	a.path = file.Path
	near, far, err := target.Pair(f.from, host, a.world())
	if err != nil {
		return err
	}
	if !a.json && (set.Changed("interval") || set.Changed("parallel") && p.Flow.Streams > 1) {
		a.intervals = &term.Intervals{Every: set.Changed("interval"), Streams: p.Flow.Streams, Alone: far.Kind == target.Foreign, Both: f.both, Datagrams: udp.Carries(p.Flow)}
	}
	if err := f.suit(a, &far, &p, set); err != nil {
		return err
	}
	_, err = a.session(ctx, near, far, model.KindTest, file.Title, p)
	return err
}
