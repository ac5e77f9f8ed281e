package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"linerate/internal/app/hub"
	"linerate/internal/core/fleet"
	"linerate/internal/fault"
	reportfleet "linerate/internal/report/fleet"
	reportmesh "linerate/internal/report/mesh"
	"linerate/internal/report/term"
	"linerate/internal/ui/web"
)

// fleetFlags are the flags of a look at a fleet.
type fleetFlags struct {
	hub, state string
	open       bool
	page       uiFlags
}

func (a *console) fleetCommand() *cobra.Command {
	var f fleetFlags
	c := &cobra.Command{
		Use: "fleet", Short: "what the hosts of a hub measure: a matrix, and what is wrong, in ten lines",
		Long: `fleet asks a hub for the state of its fleet: hosts, pairs, what has changed since when and
what changed on the hosts at that time, what is odd, which hosts are silent. Up to ten hosts
are a matrix of goodput as well. --json has everything: all numbers, the queue, the results
and the events. So do matrix, queue and plan, which show more of the same.

On the machine of the hub no flag is needed. Elsewhere copy the file view.link, which the
hub names when it starts, and name it: --hub @view.link, or put the link into $LINERATE_LINK.
Whoever has that link may look, and do nothing else; drain, resume, remove, test and invite
want the one in operate.link.

--open shows it as a page in the browser, with the history of each path, which follows what
the hub learns. linerate answers on this machine alone, as linerate ui does, until ctrl-c.`,
		Example: `  linerate fleet
  linerate fleet --open
  linerate fleet --hub @view.link
  linerate fleet --json`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.fleet(cmd.Context(), f) },
	}
	fl := c.Flags()
	fl.BoolVar(&f.open, "open", false, "show it as a page in the browser")
	fl.IntVar(&f.page.port, "port", 0, "with --open: port of 127.0.0.1 to listen on; 0 takes a free one")
	fl.BoolVar(&f.page.noOpen, "no-open", false, "print the link of that page, and open no browser")
	all := c.PersistentFlags()
	all.StringVar(&f.hub, "hub", "", "link of the hub, to look or to operate, or @FILE (default: of the hub of this machine)")
	all.StringVar(&f.state, "state", "", "directory of the state of a hub on this machine (default: $LINERATE_STATE, else the system's)")
	c.AddCommand(a.fleetViews(&f)...)
	c.AddCommand(a.fleetOperations(&f)...)
	return c
}

func (a *console) fleetSource(f fleetFlags, file string) (*hub.View, error) {
	text, err := a.hubLink(f.hub, f.state, file)
	if err != nil {
		return nil, err
	}
	l, err := hub.ParseLink(text, a.Getenv)
	return hub.NewView(l), err
}

func (a *console) fleet(ctx context.Context, f fleetFlags) error {
	if f.open || f.page.noOpen {
		c, err := a.fleetSource(f, hub.ViewFile)
		if err != nil {
			return err
		}
		s, err := web.ListenFleet(ctx, f.page.port, c, web.FleetEvery)
		if err != nil {
			return fault.WithHint(err, "leave --port out, and a free one is taken")
		}
		return a.serveUI(ctx, s, f.page)
	}
	return a.fleetView(ctx, f, func(page *term.Page, s *fleet.Status) {
		head, all := reportfleet.Summary(s)
		page.Text("%s", head)
		for _, e := range all {
			page.Line(e.Line())
		}
		if len(s.Hosts) <= reportmesh.Widest && s.Seen > 0 {
			page.Gap()
			header, rows := reportfleet.Matrix(s, reportfleet.Goodput)
			page.Table(header, rows, nil)
		}
	})
}

// fleetViews returns the commands that show one part of a fleet's state.
func (a *console) fleetViews(f *fleetFlags) []*cobra.Command {
	metric := string(reportfleet.Goodput)
	view := func(name, short, long string, show func(*term.Page, *fleet.Status)) *cobra.Command {
		return &cobra.Command{
			Use: name, Short: short, Long: long, Example: "  linerate fleet " + name + "\n  linerate fleet " + name + " --hub @view.link", Args: exactArgs(),
			RunE: func(cmd *cobra.Command, _ []string) error {
				if !slices.Contains(reportfleet.Metrics(), reportfleet.Metric(metric)) {
					return fault.Usagef("--metric: %q is not goodput, rtt or loss", metric)
				}
				return a.fleetView(cmd.Context(), *f, show)
			},
		}
	}
	matrix := view("matrix", "goodput, round trip or loss of all pairs of a hub's hosts", `matrix shows what each host reaches with each other one: the median of the last three looks.
Of more than ten hosts it shows the median of each host.`, func(page *term.Page, s *fleet.Status) {
		header, rows := reportfleet.Matrix(s, reportfleet.Metric(metric))
		page.Table(header, rows, nil)
	})
	matrix.Flags().StringVar(&metric, "metric", metric, "goodput, rtt (round trip without load) or loss")
	return []*cobra.Command{matrix,
		view("queue", "who measures with whom next, and what became of the last runs", `queue shows the windows that the hub has planned, up to an hour ahead, and below them the newest
results: what became of each, and why.`, func(page *term.Page, s *fleet.Status) {
			header, rows := reportfleet.Queue(s)
			page.Table(header, rows, nil)
		}),
		view("plan", "what the hosts of a hub measure in an hour, and why pairs are left out", `plan shows what measuring costs: looks of each host in an hour, as far as its owner allows, the
data that it sends for them at the goodput of its paths, and how often each pair comes up. Below
stands which pairs have no number or no longer get one, and why.`, func(page *term.Page, s *fleet.Status) {
			head, header, rows, left := reportfleet.Plan(s)
			page.Text("%s", head)
			page.Gap()
			page.Table(header, rows, nil)
			page.Gap()
			for _, line := range left {
				page.Line("  " + line)
			}
		}),
	}
}

// fleetView shows the state of a fleet, or prints it as a document.
func (a *console) fleetView(ctx context.Context, f fleetFlags, show func(*term.Page, *fleet.Status)) error {
	c, err := a.fleetSource(f, hub.ViewFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.document(reportfleet.Schema, s)
	}
	page := a.page()
	if show(&page, &s); len(s.Hosts) < 2 {
		page.Line("  next    on each host that is to measure, two at least: linerate agent --hub LINK, with the link that linerate hub prints")
	}
	return page.Print(a.Out)
}
