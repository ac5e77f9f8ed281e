package cli

import (
	"context"

	"github.com/spf13/cobra"

	"linerate/internal/app/hub"
	"linerate/internal/app/reach"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/report"
	reportfleet "linerate/internal/report/fleet"
	reportmesh "linerate/internal/report/mesh"
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
and the events.

On the machine of the hub no flag is needed. Elsewhere copy the file view.link, which the
hub names when it starts, and name it: --hub @view.link, or put the link into $LINERATE_LINK.
Whoever has that link may look, and do nothing else.

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
	fl.StringVar(&f.hub, "hub", "", "the hub's view link, or @FILE (default: of the hub of this machine)")
	fl.BoolVar(&f.open, "open", false, "show it as a page in the browser")
	fl.IntVar(&f.page.port, "port", 0, "with --open: port of 127.0.0.1 to listen on; 0 takes a free one")
	fl.BoolVar(&f.page.noOpen, "no-open", false, "print the link of that page, and open no browser")
	fl.StringVar(&f.state, "state", "", "directory of the state of a hub on this machine (default: $LINERATE_STATE, else the system's)")
	return c
}

// fleetView is a hub's view with the reports of this program.
type fleetView struct {
	*hub.View
	a *console
}

// Document implements web.FleetSource.
func (c fleetView) Document(s model.Session) report.Document {
	return report.Build(s, report.Options{Kinds: c.a.kinds(), Catalogue: c.a.knobs})
}

func (a *console) fleetView(f fleetFlags) (fleetView, error) {
	text, err := a.viewLink(f.hub, f.state)
	if err != nil {
		return fleetView{}, err
	}
	t, err := reach.Parse(text, a.world())
	if err != nil {
		return fleetView{}, err
	}
	v, err := hub.NewView(t)
	return fleetView{v, a}, err
}

func (a *console) fleet(ctx context.Context, f fleetFlags) error {
	c, err := a.fleetView(f)
	if err != nil {
		return err
	}
	if f.open || f.page.noOpen {
		s, err := web.ListenFleet(ctx, f.page.port, c, web.FleetEvery)
		if err != nil {
			return fault.WithHint(err, "leave --port out, and a free one is taken")
		}
		return a.serveUI(ctx, s, f.page)
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
	head, all := reportfleet.Summary(&s)
	page.Text("%s", head)
	for _, e := range all {
		page.Line(e.Line())
	}
	m := reportfleet.Mesh(&s)
	if d := reportmesh.Of(&m); d.Level > 0 && len(d.Hosts) <= reportmesh.Widest {
		page.Gap()
		header, rows := reportmesh.Matrix(&m)
		page.Table(header, rows, nil)
	}
	return page.Print(a.Out)
}
