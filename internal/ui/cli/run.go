package cli

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/fault"
	"linerate/internal/ui/config"
)

// runFlags are the flags of an experiment.
type runFlags struct {
	far, from, resume, commandTime, preset, group string
	factors, sets, undo, before, after            []string
	udp, allowExec, dryRun                        bool
}

func (a *console) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [PLAN.yaml] [HOST]",
		Short: "an experiment: settings in random blocks, with verdicts",
		Long: `run compares settings. Each block measures every setting once, in random order;
the difference inside a block is the observation. Without --blocks it goes on
until every comparison is decided, by evidence that stays valid however often it is looked at.
Every change to a host is on disk before it is made and undone after its run,
also after Ctrl-C, a crash or a cut connection.

A factor is a knob of the near host (near.KNOB), the far host (far.KNOB), of both
(KNOB), or of the test flow: engine, window, streams, block; of TCP also mss,
nodelay, congestion; of UDP also rate, pacing, plain; of requests also requests,
reply, spin; of copies of a file source and sink: memory, disk or a PATH.
--set NAME:KNOB=VALUE,KNOB=VALUE is a set of several settings under a name, and NAME alone
the hosts as they are. Several sets are compared with each other, and beside a factor each
set takes turns with each of its levels.
The factor far has HOSTs for levels: hosts, cards or media that take turns. A HOST beside
it is what they are compared with, else the first of them is.

Goodput decides, or the latency where the traffic is requests or probes beside a
load, or what --objective names. Guards watch over the rest: a setting that gains
but harms the latency, the loss or the CPU beyond its guard is "better, but ...",
and linerate keep refuses it.

--preset is an experiment that many people make by hand, with levels of its own:` + presetHelp() + `

--factor near.cmd:NAME=COMMAND or far.cmd:NAME=COMMAND compares what the shell of a host
does with the hosts as they are. --undo NAME=COMMAND takes it back after each run, also
after Ctrl-C or a crash, and has to succeed where nothing is left to undo. A host runs
commands only for who could run them anyway: over ssh, or by linerate agent
--allow-commands; a serve refuses them unless its owner allowed them. The same holds for
--before and --after, which stand around every run, whatever its setting.`,
		Example: `  linerate run lab:rate=1gbit,rtt=10ms --factor far.tcp.recv_buffer_max=64KiB,1MiB,4MiB
  linerate run plan.yaml
  linerate run plan.yaml --dry-run
  linerate run "$NAS" --factor window=64KiB,256KiB,1MiB --blocks 8 -t 10s --cooldown 60s
  linerate run lab:rate=100mbit,rtt=20ms --preset windows
  linerate run "$NAS" --set vanilla --set large:tcp.recv_buffer_max=16MiB,tcp.send_buffer_max=16MiB --factor window=64KiB,512KiB,1536KiB --blocks 6
  linerate run lab:rate=50mbit --factor 'near.cmd:shaper=tc qdisc add dev eth0 root tbf rate 20mbit burst 32k latency 50ms' --undo 'shaper=tc qdisc del dev eth0 root || true'
  linerate run lab:rate=50mbit --factor window=64KiB,1MiB --before sync --after 'far:rm -f /tmp/left-over'
  linerate run --factor far=lab:rate=50mbit,lab:rate=20mbit --factor window=64KiB,1MiB
  linerate run "$NAS" --udp --factor rate=100M,500M --blocks 8
  linerate run "$NAS" --udp --bitrate 500M --factor engine=tcpbulk
  linerate run "$NAS" --requests 0 --factor reply=1KiB,64KiB
  linerate run "$NAS" --factor congestion=cubic,bbr --objective rtt --guard 'goodput<5%'
  linerate run --resume last
  linerate run --resume last --max-blocks 60`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 || len(args) == 2 && !isPlanFile(args[0]) {
				return argsFault(cmd, "takes a plan file, a HOST, or a plan file and the HOST to use it with", args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runExperiment(cmd.Context(), f, cmd.Flags(), args)
		},
	}
	fl := c.Flags()
	a.bindAtBoot(fl)
	registerPath(c)
	registerFlow(fl, "10s", "", " (default: 3s, or 20 round trips where that is longer)")
	fl.StringVar(&f.far, "far", "", "the far HOST")
	fl.StringVar(&f.from, "from", "", "the near HOST (default: this machine)")
	fl.StringArrayVar(&f.factors, "factor", nil, "KNOB=VALUE,VALUE,... several make a full grid")
	fl.StringArrayVar(&f.sets, "set", nil, "NAME:KNOB=VALUE,KNOB=VALUE: a set of several settings; NAME alone is the hosts as they are")
	fl.Bool("incomplete", false, "blocks of the baseline and three of the other settings in turn: shorter blocks where there are many settings")
	fl.StringVar(&f.group, "group", "", "KNOB of a factor that is hard to change, as link.mtu: held over a group of runs in each block")
	fl.StringVar(&f.preset, "preset", "", "an experiment that many people make: "+strings.Join(config.PresetNames(), ", "))
	fl.StringArrayVar(&f.undo, "undo", nil, "NAME=COMMAND: what takes back the command of --factor cmd:NAME=COMMAND")
	fl.StringArrayVar(&f.before, "before", nil, "COMMAND of this host, or far:COMMAND: run before every run, when its setting holds")
	fl.StringArrayVar(&f.after, "after", nil, "COMMAND of this host, or far:COMMAND: run after every run, also after one that failed")
	fl.StringVar(&f.commandTime, "command-time", "30s", "how long such a command may take")
	fl.BoolVarP(&f.udp, "udp", "u", false, "UDP instead of TCP")
	fl.StringP("bitrate", "b", "", "payload rate of UDP per direction, as 100M or 1gbit (default: 1 Mbit/s; 0: as fast as possible)")
	registerOwn(fl, a.kinds())
	fl.String("direction", "to", "to, from, each (one after the other) or both (at once)")
	fl.String("baseline", "", "setting to compare with, by name or level (default: current, the hosts as they are)")
	fl.Int("blocks", 0, "exactly so many blocks, judged once at the end")
	fl.Int("max-blocks", 20, "at most so many blocks; with --resume: go on up to so many, also with a session that is done")
	fl.String("budget", "", "at most so much time")
	fl.String("data", "", dataHelp)
	fl.String("objective", "", "the metric that decides: goodput, latency, p99, rtt, loss, ... (default: latency of requests and probes, else goodput)")
	fl.StringArray("guard", nil, "METRIC<MARGIN: what no setting may harm, as p99<20%, loss<0.5%, cpu<30%; none is no guards (default: latency, loss and CPU)")
	fl.String("margin", "3%", "smallest change that matters")
	fl.String("tolerance", "5%", "how far below the best a level may be and still be good enough")
	fl.String("settle", "2s", "wait after applying a setting")
	fl.String("cooldown", "0s", "wait after each run")
	fl.Uint64("seed", 0, "seed of the random order (default: drawn, and recorded)")
	fl.Bool("no-twin", false, "without the check that the baseline does not differ from itself")
	a.bindDetails(fl)
	fl.String("title", "", "a name for the session")
	fl.BoolVar(&f.allowExec, "allow-exec", false, "run the commands that stand in the plan file or the stored session: of exec: hosts and of factors")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print the order, the time, the bytes, what can be seen and what would be changed, and do nothing of it")
	fl.StringVar(&f.resume, "resume", "", "go on with an interrupted session, or with --max-blocks longer than planned: its ID, the beginning of it, or last")
	return c
}

// runExperiment runs a new experiment, or resumes one.
func (a *console) runExperiment(ctx context.Context, f runFlags, fl *pflag.FlagSet, args []string) error {
	if f.resume != "" {
		if err := onlyResume(fl.Changed); err != nil {
			return err
		}
		return a.resume(ctx, f, fl, args)
	}
	files, err := a.files(&f, fl, args)
	if err != nil {
		return err
	}
	if err := a.oneFar(&files[0]); err != nil {
		return err
	}
	file := files[0]
	ends, err := f.targets(file, a.world())
	if err != nil {
		return err
	}
	seed := cmp.Or(files[0].Seed, rand.Uint64()>>11) // JSON numbers hold 53 bits exactly
	for i := range files {
		files[i].Seed = seed
		if files[i].Flow, err = ends.far.Fit(a.world(), files[i].Flow, nil); err != nil {
			return err
		}
	}
	q := question{File: files[0], dry: f.dryRun, preset: f.preset, variants: files}
	// The plan is made once to find mistakes before any host is touched, and again when the
	// round trip is known, on which the default warm-up depends.
	p, err := q.plan(fact.Unknown[time.Duration]("not measured yet"))
	if err != nil {
		return err
	}
	a.path = file.Path
	if ends.far.Kind != target.Foreign {
		err = cmp.Or(trial.Takes(a.world(), p), trial.Places(ends.near, ends.far, p, a.kinds()))
	}
	if err := errors.Join(err, target.Carries(a.path, p.Flow)); err != nil {
		return err
	}
	_, a.commands = commandsOf(p.Settings, p.Hooks)
	return a.experiment(ctx, ends, q)
}

// question is an experiment, complete except for what the path determines.
type question struct {
	config.File
	dry      bool // nothing is measured
	preset   string
	variants []config.File // of the preset
}

// experiment opens store and hosts, carries the plan out and reports.
func (a *console) experiment(ctx context.Context, ends runEnds, q question) error {
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	e, err := a.reach().OpenSeveral(ctx, ends.near, ends.far, ends.others)
	if err != nil {
		return err
	}
	defer e.Close()
	if q, err = a.fitted(ctx, q, e); err != nil {
		return err
	}
	if !q.Has("flow.bytes") {
		q.FitCopies(e.WireRate)
	}
	if q.dry {
		return a.dryRun(ctx, st, e, q)
	}
	t, err := trial.Experiment(ctx, a.world(), e, st, q.Title, target.RedactAll(os.Args), probing(q.Flow), q.plan)
	if err != nil {
		return err
	}
	a.noteLastingPlan(e, t.Session.Plan)
	a.announce(ctx, st, t.Session)
	s, err := t.Run(ctx)
	return a.finish(ctx, st, s, err)
}

// finish prints the report of a session, however it ended.
func (a *console) finish(ctx context.Context, st results, s model.Session, err error) error {
	if s.State == model.SessionDone {
		defer a.retain(context.WithoutCancel(ctx), st)
	}
	measured := trial.Measured(s)
	if measured || a.json && len(s.Runs) > 0 {
		if rerr := a.report(context.WithoutCancel(ctx), st, s); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}
	if !measured && !a.json {
		a.tellForeign(s.Changes) // a report would
	}
	if s.State == model.SessionInterrupted && (measured || ctx.Err() != nil) {
		a.talk("%s", a.resumeHint(s))
	}
	return err
}

// tellForeign lists settings that were not undone because another program changed them.
func (a *console) tellForeign(changes []model.Change) {
	for _, c := range changes {
		if c.State == model.ChangeForeign {
			a.talk("%s on the %s host was changed by another program meanwhile, and is left alone: %s", c.Knob, c.Host, c.Detail)
		}
	}
}

// mayExec refuses commands that another person may have written: those of exec: hosts in where, a
// plan file or a stored session. A host on the command line replaces these, and is the user's
// own choice.
func (f *runFlags) mayExec(where, near, far string) error {
	for _, end := range []struct{ flag, text, own string }{{"--from", near, f.from}, {"--far", far, f.far}} {
		if f.allowExec || end.own != "" || !strings.HasPrefix(end.text, "exec:") {
			continue
		}
		return fault.WithHint(fault.Usagef("%s wants to run a command on this machine: %s", where, end.text),
			"if that is what you want, add --allow-exec, or give the host yourself: %s %s", end.flag, plain.ShellWord(end.text))
	}
	return nil
}

// plan draws the order of the runs.
func (q question) plan(rtt fact.Of[time.Duration]) (model.Plan, error) {
	o := q.Complete()
	if q.Flow.Omit == 0 && !q.Has("flow.omit") && q.Flow.Bytes == 0 {
		o.Flow.Omit = stats.DefaultOmit(rtt.Or(0))
	}
	p, err := plan.New(o)
	if err != nil {
		return p, fault.WithKind(fault.Usage, err)
	}
	return q.exactly(p, o)
}

// exactly returns p with no more blocks than requested. The planner counts the differences of
// each candidate: blocks that compare the baseline with itself come on top, and so do those that
// hold only some of many candidates.
func (q question) exactly(p model.Plan, o plan.Request) (model.Plan, error) {
	if counted := q.Has("blocks") || q.Has("max_blocks"); !counted || len(p.Order) <= o.MaxBlocks {
		return p, nil
	}
	if p.NullBlocks > 0 {
		return verdictFirst(p, o)
	}
	asked, least := o.MaxBlocks, len(p.Order)
	for o.MaxBlocks--; o.MaxBlocks > 0; o.MaxBlocks-- {
		fewer, err := plan.New(o)
		if err != nil {
			break
		}
		least = len(fewer.Order)
		if least == asked || least < asked && fewer.Mode == model.Sequential {
			return fewer, nil
		}
		if least < asked {
			break
		}
	}
	err := fault.Usagef("%d blocks cannot be: this plan has %d or %d", asked, min(least, len(p.Order)), max(least, len(p.Order)))
	if least == len(p.Order) || least > asked {
		err = fault.Usagef("%d blocks are too few for this plan: it has at least %d", asked, least)
	}
	return p, fault.WithHint(err, "each block holds some of the settings, and each setting is in as many blocks")
}

// verdictFirst returns p, whose first blocks compare the baseline with itself, within the blocks
// that o asks for. If they are few, a verdict on the candidate has priority over that check: it
// gets as many as the smallest number that allows one.
func verdictFirst(p model.Plan, o plan.Request) (model.Plan, error) {
	asked := o.MaxBlocks
	o.MaxBlocks = max(asked-p.NullBlocks, min(asked, stats.RankBlocks))
	fewer, err := plan.New(o)
	if err != nil {
		return p, fault.WithKind(fault.Usage, err)
	}
	pairs := asked - o.MaxBlocks
	fewer.Order = fewer.Order[fewer.NullBlocks-pairs:]
	fewer.NullBlocks = pairs
	return fewer, nil
}
