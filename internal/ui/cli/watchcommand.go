package cli

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/app/watch"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	reportwatch "linerate/internal/report/watch"
	"linerate/internal/store"
	"linerate/internal/store/postgres"
)

// watchFlags are the flags of a watch.
type watchFlags struct {
	request                watch.Request
	every, time, margin    string
	exec                   string
	once, show             bool
	print, install, remove bool
}

func (a *console) watchCommand() *cobra.Command {
	var f watchFlags
	c := &cobra.Command{
		Use: "watch [HOST...]", Short: "measure paths on a schedule and report when one gets worse",
		Long: `watch measures the path to each HOST every hour: round trip without load and loss with
datagrams at 1 Mbit/s, and goodput each way with a short run of TCP. Before it starts it
prints how much that sends in a day. From the ninth look on it knows what to expect. If a
look differs, up to 24 runs follow at once, and only what they confirm is reported: by how
much, since when, and what changed on the two hosts in the meantime (kernel, driver,
settings, route). It reports improvements too.

It goes on until it is stopped. --once looks once, for a timer or cron; the exit code
is 8 if something got worse since the look before, and 3 if a host is away.
--exec runs a command for each change, and if a host is away or back, with a JSON
document on its standard input. --install has this system look on the schedule: it
writes a systemd timer, a cron file or a launchd job, which --print-unit prints
and --remove removes. Each look is a session; without HOST, or with --show, watch
draws what it has seen and measures nothing.

Nothing is installed or changed on the hosts. A host over ssh gets a copy of linerate
for each look, unless --keep-agent leaves it there.`,
		Example: `  linerate watch root@nas
  linerate watch root@nas ssh://vps --every 6h --probe-only
  linerate watch "$NAS" --once --quiet --exec 'mail -s "the path to the NAS" me@example.org'
  linerate watch root@nas --every 6h --install
  linerate watch
  linerate watch root@nas --show --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.watching(cmd.Context(), f, cmd.Flags(), args)
		},
	}
	fl := c.Flags()
	registerPath(c)
	fl.StringVar(&f.every, "every", "1h", "from one look to the next")
	fl.BoolVar(&f.once, "once", false, "look once, then end")
	fl.BoolVar(&f.show, "show", false, "draw what was seen and measure nothing")
	fl.BoolVar(&f.request.ProbeOnly, "probe-only", false, "round trip and loss alone: half a megabyte a look")
	fl.StringVarP(&f.time, "time", "t", "3s", runTimes)
	fl.IntVarP(&f.request.Streams, "parallel", "P", watch.DefaultStreams, "parallel connections")
	fl.StringVar(&f.margin, "margin", "10%", "the smallest change to report")
	fl.StringVar(&f.exec, "exec", "", "shell command for each change; it reads a JSON document")
	fl.BoolVar(&f.print, "print-unit", false, "print what --install would write")
	fl.BoolVar(&f.install, "install", false, "have this system look on the schedule: by systemd, cron or launchd; of root for the machine, else of the user")
	fl.BoolVar(&f.remove, "remove", false, "remove what --install wrote")
	return c
}

// watchAsked turns flags and arguments into a request.
func (a *console) watchAsked(f watchFlags, args []string) (watch.Request, error) {
	q := f.request
	var bad faults
	q.Time = bad.runTime(f.time)
	var err error
	q.Every, err = units.ParseSpan(f.every)
	bad.add("every", err)
	margin, err := units.ParsePercent(f.margin)
	if err != nil || margin < 1 || margin > 100 {
		bad.add("margin", fmt.Errorf("%q is no share between 1%% and 100%%", f.margin))
	}
	if q.Streams < 1 || q.Streams > 128 {
		bad.add("parallel", fmt.Errorf("%d is not between 1 and 128", q.Streams))
	}
	if err := bad.err(); err != nil {
		return q, err
	}
	q.Margin = math.Log1p(float64(margin) / 100)
	for _, text := range args {
		t, err := target.Parse(text, a.world())
		if err != nil {
			return q, err
		}
		q.Hosts = append(q.Hosts, t)
	}
	q.Seed, q.Command, q.Path = rand.Uint64()>>11, target.RedactAll(os.Args), a.path
	return q, q.Validate()
}

// watching starts a watch, or draws the stored looks.
func (a *console) watching(ctx context.Context, f watchFlags, fl *pflag.FlagSet, args []string) error {
	if err := a.pathOver(a.path, fl); err != nil {
		return err
	}
	switch {
	case f.once && f.show:
		return fault.Usagef("--once measures and --show does not: leave one out")
	case f.once && len(args) == 0:
		return fault.WithHint(fault.Usagef("--once: there is no HOST to look at"), "name one, or see what was seen: linerate watch")
	}
	for _, name := range []string{"time", "parallel"} {
		if f.request.ProbeOnly && fl.Changed(name) {
			return fault.Usagef("--%s is of TCP, which --probe-only leaves out: leave one of them out", name)
		}
	}
	q, err := a.watchAsked(f, args)
	if err != nil {
		return err
	}
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	if postgres.IsAddress(a.storePath()) {
		if q.Title, err = os.Hostname(); err != nil {
			return err
		}
	}
	world := a.world()
	world.Observer = watchObserver{a}
	w := &watch.Watch{
		Request: q, Env: world, Store: looks{st}, Open: func(ctx context.Context, near, far target.Target) (*target.Ends, error) {
			return target.New(world, a.reaching()).Open(ctx, near, far)
		},
		Tell: func(ctx context.Context, o watch.Outcome) {
			a.tellLook(ctx, f.exec, o)
			a.retain(context.WithoutCancel(ctx), st)
		},
	}
	if f.remove || f.print || f.install && len(args) == 0 {
		return a.watchTimer(ctx, f, fl, q.Every, args)
	}
	far := lists.Each(q.Hosts, func(t target.Target) string { return t.Text })
	if f.show || len(args) == 0 {
		return a.showWatched(ctx, w, st, far)
	}
	for _, h := range q.Hosts {
		if err := a.tellCost(ctx, w, h.Text); err != nil {
			return err
		}
	}
	if f.install {
		return a.watchTimer(ctx, f, fl, q.Every, args)
	}
	if f.once {
		err = w.Once(ctx)
	} else {
		err = w.Run(ctx)
	}
	if a.json {
		if derr := a.watchDocument(context.WithoutCancel(ctx), w, far); derr != nil {
			return derr
		}
	}
	return err
}

// tellCost prints how much data the looks at a path send.
func (a *console) tellCost(ctx context.Context, w *watch.Watch, far string) error {
	p, err := w.Path(ctx, far)
	if err != nil {
		return err
	}
	every := units.FormatDuration(w.Every)
	cost := func(to, from units.BitRate) string {
		look := w.Bytes(to, from)
		return fmt.Sprintf("%s, %s a day", look.Decimal(), units.Bytes(float64(look)*w.PerDay()).Decimal())
	}
	const more = "; up to 24 more runs check a suspected change"
	to, from := watch.Rate(p, a.Now())
	switch name := model.EndName(far); {
	case w.ProbeOnly, to > 0 || from > 0:
		a.talk("%s: a look every %s sends %s%s", name, every, cost(to, from), more)
	default:
		a.talk("%s: a look every %s sends %s at 1 Gbit/s, and a tenth of it at 100 Mbit/s%s; --probe-only sends %s a day", name, every, cost(1e9, 1e9), more,
			units.Bytes(float64(watch.Request{ProbeOnly: true}.Bytes(0, 0))*w.PerDay()).Decimal())
	}
	return nil
}

// looks are the stored looks.
type looks struct{ results }

// Looks implements watch.Store.
func (l looks) Looks(ctx context.Context, far string, since time.Time) ([]model.Item, error) {
	items, err := l.Sessions(ctx, store.Filter{Kind: model.KindWatch, Far: far, Since: since})
	slices.Reverse(items)
	return items, err
}

// showWatched draws the stored looks at the hosts far; at all hosts if far is empty.
func (a *console) showWatched(ctx context.Context, w *watch.Watch, st results, far []string) error {
	if len(far) == 0 {
		items, err := st.Sessions(ctx, store.Filter{Kind: model.KindWatch})
		if err != nil {
			return err
		}
		for _, i := range slices.Backward(items) {
			if i.Title == w.Title {
				far = lists.Once(far, i.Far)
			}
		}
	}
	if a.json {
		return a.watchDocument(ctx, w, far)
	}
	if len(far) == 0 {
		a.talk("nothing is watched yet: linerate watch HOST")
		return nil
	}
	d, err := a.watchedPaths(ctx, w, far)
	if err != nil {
		return err
	}
	return reportwatch.Render(a.Out, d, func(line string) []string { return wrapped(line, a.Width()) })
}

// watchedPaths returns the report on the paths to hosts.
func (a *console) watchedPaths(ctx context.Context, w *watch.Watch, far []string) (reportwatch.Document, error) {
	d := reportwatch.Document{Hosts: []series.History{}}
	for _, text := range far {
		p, err := w.Path(ctx, text)
		if err != nil {
			return d, err
		}
		d.Hosts = append(d.Hosts, series.HistoryOf(text, p, a.Now()))
	}
	return d, nil
}

func (a *console) watchDocument(ctx context.Context, w *watch.Watch, far []string) error {
	d, err := a.watchedPaths(ctx, w, far)
	if err != nil {
		return err
	}
	return a.document(reportwatch.Schema, d)
}

// tellLook prints the result of a look. It runs the --exec command for a change, and when a host
// goes away or comes back.
func (a *console) tellLook(ctx context.Context, run string, o watch.Outcome) {
	h := series.HistoryOf(o.Host.Text, o.Path, a.Now())
	at, name := a.Now(), model.EndName(o.Host.Text)
	if o.Err != nil {
		a.talk("%s  no look at %s: %s", at.Format("15:04"), name, fault.Sentence(o.Err))
	} else {
		a.talk("%s  %s", at.Format("15:04"), h.Line())
	}
	e := reportwatch.Event{Host: o.Host.Text, At: at, Session: o.Session.ID}
	switch {
	case o.Change != nil:
		c := series.ReportOf(o.Host.Text, o.Change).With(o.Changed)
		e.Kind, e.Text, e.Change = map[bool]string{true: "worse", false: "better"}[c.Worse], c.Text, &c
		if !a.json {
			for _, line := range c.Lines() {
				fmt.Fprintln(a.Out, line)
			}
		}
	case o.Away:
		e.Kind, e.Text = "away", plain.Line(plain.Words(fmt.Sprintf("%s could not be reached at %d looks in a row: %s", name, o.Path.Missed, fault.Sentence(o.Err))))
	case o.Back:
		e.Kind, e.Text = "back", name+" can be reached again"
	default:
		return
	}
	if e.Change == nil && !a.json {
		fmt.Fprintln(a.Out, e.Text)
	}
	a.exec(ctx, run, reportwatch.EventSchema, e)
}

// watchObserver prints the progress of a watch, without a session's screen.
type watchObserver struct{ *console }

// Observe implements app.Observer.
func (a watchObserver) Observe(e app.Event) {
	switch e.(type) {
	case app.TrialBegan, app.TrialEnded, app.BlockBegan, app.RunBegan, app.Sampled, app.RunEnded, app.BlockEnded, app.Waiting:
	default:
		a.console.Observe(e)
	}
}
