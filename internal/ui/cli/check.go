package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app/check"
	"linerate/internal/app/target"
	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/term"
)

const noLocateHelp = "do not ask the routers on the way after which time they answer, which tells which link is full"

// checkFlags are the flags of a check.
type checkFlags struct {
	request  check.Request
	noLocate bool
	from     string
	grades   []string
}

func (a *console) checkCommand() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use: "check [HOST]", Short: "the doctor: how each thing on the path stands, and what limits it",
		Long: `check looks at the path to HOST for about a minute and changes nothing: one stream
and several in each direction, both directions at once, datagrams at several
rates, latency alone and beside the load, how large packets may be each way, and
what each host moves to itself. It prints one line for each thing, with ok, POOR
or BAD and one number, the path as a row of boxes, what limits each direction,
and one command to go on with. What cannot be seen is shown as -, with the reason.
Without HOST it looks at this machine and its gateway, in some seconds.

--disk has each host write 32 MiB to a disk of its own and read them, past the page
cache, and holds that against what the network carries from memory to memory.

--for says whether these two hosts would carry a longer path than this one: window
and buffers, how little may get lost, how long the start takes, pacing, order.
--expect holds the path against demands, for cron: a rate alone is the least
goodput each way; else a quantity with < or >, of both directions or, with to. or
from. before it, of one. Quantities are ` + strings.Join(health.Quantities(), ", ") + `.

The exit code is 8 where a line says POOR or BAD; with --expect 9 where a demand
is not met, and 0 where all are.`,
		Example: `  linerate check
  linerate check lab:rate=100mbit,rtt=2ms
  linerate check "$NAS" --quick
  linerate check "$NAS" --why
  linerate check "$NAS" --disk
  linerate check "$NAS" --for 10gbit@80ms
  linerate check "$NAS" --quick --expect '900M,loss<0.1%,p99<20ms' --quiet
  linerate check iperf3://nas`,
		Args: atMostHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				var ofPath error
				cmd.LocalNonPersistentFlags().Visit(func(fl *pflag.Flag) {
					if fl.Name != "why" {
						ofPath = fault.Usagef("--%s: belongs to a check of the path to a HOST: name one", fl.Name)
					}
				})
				if ofPath != nil {
					return ofPath
				}
				return a.checkAlone(cmd.Context())
			}
			return a.check(cmd.Context(), f, cmd.Flags(), args[0])
		},
	}
	fl := c.Flags()
	registerPath(c)
	fl.BoolVar(&f.request.Quick, "quick", false, "the least that answers, in 10 s")
	fl.BoolVar(&f.noLocate, "no-locate", false, noLocateHelp)
	fl.BoolVar(&f.request.Disk, "disk", false, "what each host reads from and writes to its disk besides")
	fl.BoolVar(&a.why, "why", false, "what each line is based on")
	fl.StringVar(&f.request.For, "for", "", "whether the hosts would carry a longer path, as 10gbit@80ms")
	fl.StringVar(&f.request.Expect, "expect", "", "demands, as '900M,loss<0.1%,p99<20ms'")
	fl.StringArrayVar(&f.grades, "grade", nil, "from which value a quantity is POOR and BAD, as loss=0.05%,0.5%; linerate docs find-the-limit has the table")
	fl.StringVar(&f.from, "from", "", "the near HOST (default: this machine)")
	registerPrograms(fl, a.world().AllPrograms())
	fl.StringVar(&f.request.Title, "title", "", "a name for the session")
	return c
}

func (a *console) check(ctx context.Context, f checkFlags, fl *pflag.FlagSet, host string) error {
	f.request.Grades = strings.Join(f.grades, ";")
	if err := f.request.Validate(); err != nil {
		return err
	}
	if err := a.pathOver(a.path, fl); err != nil {
		return err
	}
	near, far, err := target.Pair(f.from, host, a.world())
	if err != nil {
		return err
	}
	if _, err := far.Fit(a.world(), model.Flow{}, givenValues(fl)); err != nil {
		return err
	}
	st, e, end, err := a.begin(ctx, near, far)
	if err != nil {
		return err
	}
	defer end()
	f.request.Trace = !f.noLocate
	f.request.Command = target.RedactAll(os.Args)
	s, err := check.Run(ctx, a.world(), e, st, f.request)
	if len(s.Runs) == 0 {
		return err
	}
	if rerr := a.report(context.WithoutCancel(ctx), st, s); rerr != nil {
		return rerr
	}
	return err
}

// checkDoc is linerate/check/v1.
type checkDoc struct {
	Name  string             `json:"name"`
	Lines []report.CheckLine `json:"lines"`
	Path  []model.Hop        `json:"path"`
}

// checkAlone checks this machine and its gateway.
func (a *console) checkAlone(ctx context.Context) error {
	m, err := check.Alone(ctx, a.world())
	if err != nil && fault.KindOf(err) != fault.Found {
		return err
	}
	d := checkDoc{Name: m.Facts.Name, Path: append([]model.Hop{}, m.Facts.Path...)}
	for _, l := range m.Lines() {
		d.Lines = append(d.Lines, report.CheckLine{Line: l, Label: l.Thing})
	}
	if !a.json {
		perr := term.RenderMachine(a.Out, m.Facts.Name, d.Lines, report.Boxes(m.Facts), a.termOptions())
		return errors.Join(err, perr)
	}
	if perr := a.document(format.CheckSchema, d); perr != nil {
		return perr
	}
	return err
}
