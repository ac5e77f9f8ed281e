package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/keep"
	"linerate/internal/app/target"
	apptune "linerate/internal/app/tune"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/tune"
	"linerate/internal/fault"
	"linerate/internal/report"
	"linerate/internal/report/term"
	"linerate/internal/store"
	"linerate/internal/ui/config"
)

// tuneSettle is the default wait after applying a setting.
const tuneSettle = 200 * time.Millisecond

// tuneFlags are the flags of tune.
type tuneFlags struct {
	from, goal, resume, allow string
	only, never               []string
	quick, thorough, dryRun   bool
	allowExec                 bool
}

func (a *console) tuneCommand() *cobra.Command {
	var f tuneFlags
	c := &cobra.Command{
		Use: "tune HOST", Short: "find what limits the path, try what could help on both hosts, and prove it",
		Long: `tune measures the path to HOST, names what limits it, and tries the settings of both
hosts that could help, each beside what is best so far, in short blocks in random
order. What beats it by more than the margin stays in play, and the path is
diagnosed again, until the ceiling is reached or no other setting is known to help. It leaves
out what is not needed, looks for the smallest value that is as good, and proves
the end against the beginning in fresh blocks: only that counts as the gain.

Every change is on disk before it is made and is undone after its run, also after
Ctrl-C, a crash or a cut connection. In the end the hosts are as they were. You are
asked whether the settings are to stay: until the next start, or for good. Without
a terminal nothing is kept, and the commands that do it are printed.

Settings that can cut the connection, as the MTU, are tried last, and only if you
agree when you are asked, or with --allow risky. A setting that raises the latency,
the loss or the CPU beyond the guards is not taken, whatever it gains.

--thorough goes on where the findings end and the ceiling is not reached: of all
settings that may bear on the path it tries the best guesses, several at a time in a
design that tells them apart, and races those that seem to matter.

--goal latency names where messages wait under load, tries what keeps queues short
(congestion control that paces, fair queueing, buffers no larger than the path needs),
decides on the median latency, and guards the rate. --goal cpu does it for the
processor time that each Gbit costs the receiver: offloads, moderation, jumbo frames.`,
		Example: `  linerate tune lab:rate=100mbit,rtt=10ms,far.tcp.recv_buffer_max=32KiB --direction to
  linerate tune root@nas
  linerate tune root@nas --only tcp.recv_buffer_max --budget 10m
  linerate tune root@nas --thorough
  linerate tune root@nas --dry-run
  linerate tune --resume last`,
		Args: atMostHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.tune(cmd.Context(), f, cmd.Flags(), args)
		},
	}
	fl := c.Flags()
	a.bindAtBoot(fl)
	fl.StringVar(&f.from, "from", "", "the near HOST (default: this machine)")
	registerEgress(c)
	fl.String("direction", "each", "to, from, or each (both, one after the other)")
	fl.StringVar(&f.goal, "goal", "throughput", "throughput, latency (under load) or cpu (of the receiver)")
	fl.StringSliceVar(&f.only, "only", nil, "only these settings: KNOB of both hosts, near.KNOB of the near or far.KNOB of the far one")
	fl.StringSliceVar(&f.never, "never", nil, "not these settings")
	fl.StringArray("guard", nil, "METRIC<MARGIN: what no setting may harm, as rtt<50%, loss<0.5%; none is no guards (default: latency, loss and CPU)")
	fl.String("margin", "3%", "smallest gain that matters")
	fl.String("budget", "", "at most so much time for the search (default: until no other setting is known to help)")
	fl.String("data", "", "at most so much payload, as 10GB, the confirmation included")
	fl.StringP("time", "t", "", "measured time of a run (default: what the first runs show to be enough)")
	fl.String("omit", "", "warm-up before it, sent but not counted (default: what the first runs show of slow start; with --time 3s, or 20 round trips where that is longer)")
	fl.IntP("parallel", "P", 1, "parallel connections")
	fl.String("settle", "200ms", "wait after applying a setting")
	fl.StringVar(&f.allow, "allow", "", "risky: settings that can cut the connection are tried without asking")
	fl.BoolVar(&f.quick, "quick", false, "short races, and no search for the smallest good value")
	fl.BoolVar(&f.thorough, "thorough", false, "then try what no finding names, several settings at a time: 16 to 40 runs more")
	fl.BoolVar(&f.dryRun, "dry-run", false, "measure and diagnose, and only say what would be tried")
	fl.Uint64("seed", 0, "seed of the random order (default: drawn, and recorded)")
	fl.String("title", "", "a name for the session")
	fl.BoolVar(&f.allowExec, "allow-exec", false, "run the command of an exec: host that stands in the stored session")
	fl.StringVar(&f.resume, "resume", "", "go on with an interrupted search: its ID, the beginning of it, or last")
	return c
}

// tuneRequest returns the request that the flags describe, for a far end HOST.
func (a *console) tuneRequest(f tuneFlags, fl *pflag.FlagSet, host string) (apptune.Request, error) {
	var bad faults
	file := config.File{Request: plan.Request{Plan: model.Plan{Directions: []model.Direction{model.To, model.From}, Settle: tuneSettle}}}
	switch f.goal {
	case "throughput": // other traffic is protected by a guard
		file.Objective = model.Goodput
	case "latency":
		file.Objective = model.LatencyP50
	case "cpu":
		file.Objective = model.CPUPerGbitFar
		if fl.Lookup("direction").Value.String() == string(model.From) {
			file.Objective = model.CPUPerGbitNear
		}
	default:
		bad.add("goal", fmt.Errorf("%q is none of throughput, latency, cpu", f.goal))
	}
	file, err := a.over(file, fl)
	bad.join(err)
	file.Flow.Direction = model.To
	far, err := target.Parse(host, a.world())
	switch foreign := err == nil && far.Kind == target.Foreign; {
	case foreign && f.goal == "latency":
		bad.add("goal", errors.New("servers of other programs answer no probes: write throughput"))
	case f.goal != "cpu" && !foreign:
		file.Flow = probes.Over(file.Flow)
	}
	if fl.Changed("time") && file.Flow.Duration < time.Second && len(bad) == 0 {
		bad.add("time", errors.New("too short to tell what limits; at least 1s"))
	}
	if file.Directions[0] == model.Both {
		bad.add("direction", errors.New("both at once says nothing about either: write to, from or each"))
	}
	if f.allow != "" && f.allow != "risky" {
		bad.add("allow", fmt.Errorf("value %q: the only value is risky", f.allow))
	}
	r := apptune.Request{
		Request: file.Complete(), Only: f.only, Never: f.never, Quick: f.quick, Thorough: f.thorough, DryRun: f.dryRun, Title: file.Title, Risky: f.allow == "risky",
		Command: target.RedactAll(os.Args),
	}
	r.Seed = cmp.Or(r.Seed, rand.Uint64()>>11)
	for flag, names := range map[string][]string{"only": f.only, "never": f.never} {
		for _, name := range names {
			_, id, err := splitHost(a.knobs, name)
			if _, known := a.knobs.ByID(id); err == nil && !known {
				err = a.knobs.UnknownError(id)
			}
			bad.add(flag, err)
		}
	}
	return r, bad.err()
}

func (a *console) tune(ctx context.Context, f tuneFlags, fl *pflag.FlagSet, args []string) error {
	r, err := a.tuneRequest(f, fl, strings.Join(args, ""))
	if err != nil {
		return err
	}
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	host, from := strings.Join(args, ""), f.from
	var old model.Session
	if f.resume != "" {
		if old, err = find(ctx, st, f.resume); err != nil {
			return err
		}
		if old.Kind != model.KindTune || old.State == model.SessionDone {
			return fault.WithHint(fault.Usagef("session %s is no search that was cut short", old.ID), "see it with: linerate show %s", old.ID)
		}
		if old.State == model.SessionRunning {
			return runsElsewhere(old)
		}
		given := host + from
		host, from = cmp.Or(host, old.Far), cmp.Or(from, old.Near)
		for _, end := range []string{host, from} {
			if strings.HasPrefix(end, "exec:") && !strings.Contains(given, end) && !f.allowExec {
				return fault.WithHint(fault.Usagef("session %s wants to run a command on this machine: %s", old.ID, end), "if that is what you want, add --allow-exec")
			}
		}
		if old.Near == old.Far {
			from = f.from
		}
	}
	if host == "" {
		return fault.WithHint(fault.Usagef("no host named"), "linerate tune HOST")
	}
	if err := a.pathOver(old.Plan.Path, fl); err != nil {
		return err
	}
	near, far, err := target.Pair(from, host, a.world())
	if err != nil {
		return err
	}
	e, err := a.reach().Open(ctx, near, far)
	if err != nil {
		return err
	}
	defer e.Close()
	var out apptune.Outcome
	if f.resume != "" {
		out, err = apptune.Resume(ctx, a.world(), e, st, old, r)
	} else {
		out, err = apptune.Run(ctx, a.world(), e, st, r)
	}
	shown := a.tuned(ctx, out, searched{e, host, f.from}, f.dryRun)
	if err == nil && !f.dryRun {
		err = tuneVerdict(out)
	}
	return errors.Join(err, shown)
}

// tuneVerdict is the error of a search that finished and left the path as slow as it was, of kind
// fault.Found: nothing is proven, and there is something to gain.
func tuneVerdict(out apptune.Outcome) error {
	if out.Record.AtCeiling() {
		return nil
	}
	switch t := report.BuildTuned(out.Search, out.Record, out.Confirmation); {
	case t.Proven:
		return nil
	case out.Record.Reason != tune.NothingLeft && !slices.ContainsFunc(out.Record.Ideas, func(f tune.Fate) bool { return f.State != tune.Waiting }):
		return fault.WithKind(fault.Found, errors.New("no setting was tried: "+out.Record.Reason))
	case len(out.Record.Ideas) == 0:
		return fault.WithKind(fault.Found, errors.New("no setting is known to make the path better, and none was tried"))
	case len(t.Against) > 0:
		err := fault.WithKind(fault.Found, fmt.Errorf("it proved better, but %s", strings.Join(t.Against, ", and ")))
		if inLab(out.Search.Far) {
			return err
		}
		return fault.WithHint(err, "to keep it all the same: linerate keep %s HOST --both --despite-guards", t.Proof)
	case out.Confirmation == nil:
		return fault.WithKind(fault.Found, errors.New("no setting that was tried makes the path better"))
	default:
		return fault.WithKind(fault.Found, errors.New("what seemed to help is not proven"))
	}
}

// searched are the hosts of a search: open, and as the user named them.
type searched struct {
	ends       *target.Ends
	host, from string
}

// tuneDoc is linerate/tune/v1.
type tuneDoc struct {
	report.Tuned
	Record tune.Record `json:"record"`
	Next   []string    `json:"next"`
}

// tuned shows the result of a search, and asks whether to keep what it found.
func (a *console) tuned(ctx context.Context, out apptune.Outcome, of searched, dry bool) error {
	if out.Search.ID == "" {
		return nil
	}
	t := report.BuildTuned(out.Search, out.Record, out.Confirmation)
	next := tuneNext(t, out.Record, of.host, of.from)
	if out.Search.State == model.SessionInterrupted {
		next = []string{t.Next.Command}
	}
	if a.json {
		return a.document("linerate/tune/v1", tuneDoc{t, out.Record, next})
	}
	if a.storePath() == inMemory && strings.Contains(t.Next.Command, out.Search.ID) { // it is lost with this process
		t.Next = report.Step{}
	}
	if err := term.RenderTuned(a.Out, t, a.termOptions()); err != nil {
		return err
	}
	if out.Search.State == model.SessionInterrupted {
		a.talk("hosts undone, data kept; go on with: %s", next[0])
		return nil
	}
	if len(next) == 0 || dry {
		return nil
	}
	return a.keepTuned(ctx, out.Record.Winner, t, of, next)
}

// keepTuned asks what to do with settings that proved better, and does it.
func (a *console) keepTuned(ctx context.Context, winner model.Setting, t report.Tuned, of searched, next []string) error {
	if inLab(of.host) {
		a.talk("%s: %s", noKeeping, next[0])
		return nil
	}
	answer, err := a.Ask(ctx, app.Question{Kind: app.KeepTuned, Why: strings.Join(t.Open, "; ")})
	switch {
	case errors.Is(err, app.ErrNoTerminal) || err == nil && answer.Choice == "":
		a.talk("the hosts are as they were; to keep it until the next start:")
		a.talk("%s", next[0]) // a line of its own is not wrapped, and can be copied
		a.talk("for good:")
		a.talk("%s", next[1])
		return nil
	case err != nil:
		return err
	case answer.Choice == "profile":
		p, err := a.profileOf(ctx, t.Proof, "")
		if err != nil {
			return err
		}
		return a.saveProfile(p, "linerate-"+t.Proof+".yaml")
	}
	held, err := apptune.Hold(ctx, a.world(), of.ends, of.host, winner, a.boot.wanted)
	if held.Outcome != "" {
		err = errors.Join(err, a.printSet(setFlags{both: true}, held, err != nil))
	}
	if err != nil || answer.Choice == "reboot" {
		return err
	}
	src, err := a.keepSource(ctx, t.Proof, of.host, keepFlags{despiteGuards: len(t.Open) > 0})
	if err != nil {
		return err
	}
	r := keep.Request{Source: src, Named: target.Redact(of.host), Both: true}
	got, err := keep.Do(ctx, a.world(), keep.Of(of.ends, true), r)
	if got.Outcome == "" {
		return err
	}
	return errors.Join(err, a.printKeep(r, got))
}

// tunedOf returns the report of a stored search; ok is false if it has no result.
func tunedOf(ctx context.Context, st results, s model.Session) (report.Tuned, tune.Record, bool, error) {
	rec, ok, err := tune.Read(&s)
	if err != nil || !ok {
		return report.Tuned{}, rec, false, err
	}
	var proof *model.Session
	if rec.Confirmation != "" {
		switch c, err := st.Session(ctx, rec.Confirmation); {
		case err == nil:
			proof = &c
		case !errors.Is(err, store.ErrNotFound):
			return report.Tuned{}, rec, false, err
		}
	}
	return report.BuildTuned(s, rec, proof), rec, true, nil
}

// showTuned shows a stored search again.
func (a *console) showTuned(ctx context.Context, st results, s model.Session) error {
	t, rec, ok, err := tunedOf(ctx, st, s)
	if err != nil {
		return err
	}
	if !ok {
		return fault.Usagef("session %s was cut short before it found anything out", s.ID)
	}
	next := tuneNext(t, rec, s.Far, nearOf(s))
	if a.json {
		return a.document("linerate/tune/v1", tuneDoc{t, rec, next})
	}
	if err := term.RenderTuned(a.Out, t, a.termOptions()); err != nil {
		return err
	}
	for _, line := range next {
		a.talk("next:")
		a.talk("%s", line)
	}
	return nil
}

// noKeeping says why a result from a lab cannot be kept, and where it can.
const noKeeping = "nothing can be kept in a lab, which ends with its command; on your own hosts"

func inLab(host string) bool { return strings.HasPrefix(host, "lab:") }

// nearOf returns the near host of s as the user named it, "" for this machine or a lab.
func nearOf(s model.Session) string {
	if s.Near == s.Far || s.Near == app.ThisMachine {
		return ""
	}
	return s.Near
}

// nextSteps returns the commands that follow a stored search: those that keep what is proven,
// and the one that goes on.
func nextSteps(t report.Tuned, rec tune.Record, s model.Session) []report.Step {
	var out []report.Step
	for i, command := range tuneNext(t, rec, s.Far, nearOf(s)) {
		what := []string{"keep it until the next start", "keep it for good"}[i]
		if inLab(s.Far) {
			what = noKeeping
		}
		out = append(out, report.Step{What: what, Command: command})
	}
	if !strings.HasPrefix(t.Next.Command, "linerate show ") { // which is listed anyway
		out = append(out, t.Next)
	}
	return out
}

// tuneNext returns the commands that keep a proven winner until the next start, and for good;
// none if a host can keep nothing of it. In a lab it returns the search on real hosts. from is
// the near host as the user named it, "" for this machine.
func tuneNext(t report.Tuned, rec tune.Record, host, from string) []string {
	wanted := apptune.OfHosts(rec.Winner)
	if !t.Proven || len(wanted) == 0 {
		return nil
	}
	if inLab(host) {
		return []string{"linerate tune HOST"}
	}
	despite := ""
	if len(t.Open) > 0 { // which keep does only if the user says so
		despite = " --despite-guards"
	}
	if from == "" {
		words := []string{"linerate", "set"}
		for _, a := range wanted {
			words = append(words, plain.ShellWord(assignment(a)))
		}
		return []string{
			strings.Join(append(words, "--both", plain.ShellWord(host)), " "),
			fmt.Sprintf("linerate keep %s %s --both%s", t.Proof, plain.ShellWord(host), despite),
		}
	}
	var set, kept []string // one command per host: neither is this machine
	for _, end := range []struct {
		side  model.Host
		named string
	}{{model.Far, host}, {model.Near, from}} {
		words := []string{"linerate", "set"}
		for _, a := range wanted {
			if a.Host == end.side {
				words = append(words, plain.ShellWord(string(a.Knob)+"="+a.Value))
			}
		}
		if len(words) > 2 {
			set = append(set, strings.Join(append(words, plain.ShellWord(end.named)), " "))
			kept = append(kept, fmt.Sprintf("linerate keep %s %s --role %s%s", t.Proof, plain.ShellWord(end.named), end.side, despite))
		}
	}
	return []string{strings.Join(set, " && "), strings.Join(kept, " && ")}
}

// assignment formats an assignment as linerate set takes it.
func assignment(a model.Assignment) string {
	return a.Host.Of(a.Knob) + "=" + a.Value
}
