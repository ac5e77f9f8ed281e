package cli

import (
	"context"

	"github.com/spf13/cobra"

	"linerate/internal/app/reach"
	"linerate/internal/core/model"
	reportjson "linerate/internal/report/json"
)

// factsDoc is linerate/facts/v1.
type factsDoc struct {
	Facts model.HostFacts `json:"facts"`
}

func (a *console) factsCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use: "facts [HOST]", Short: "what a host is: machine, bus, interfaces, the route to the other end",
		Long: `facts shows what is known about this machine, or of HOST, and changes nothing: the
machine, the route to the other end, and every interface with its driver, bus,
link mode, legal MTU, rings, queues and offloads. The interface that leads to
the other end comes first. What cannot be read is listed with the reason.`,
		Example: `  linerate facts
  linerate facts --to 192.0.2.7
  linerate facts lab:rate=1gbit,rtt=10ms --json`,
		Args: atMostOne("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.readFacts(cmd.Context(), args, to)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(reportjson.FactsSchema, factsDoc{f})
			}
			if err := printFacts(a.Out, f); err != nil {
				return err
			}
			if len(args) == 0 && to == "" {
				a.talk("the route to another host is shown with --to ADDRESS")
			}
			return nil
		},
	}
	c.Flags().StringVar(&to, "to", "", "name or address of the other end (this machine only)")
	return c
}

// readFacts reads this machine's facts, or those of a host.
func (a *console) readFacts(ctx context.Context, args []string, to string) (model.HostFacts, error) {
	if len(args) == 0 {
		f, err := a.here("", "").Facts(ctx, to)
		f.Host = model.Near
		if err == nil && to != "" && !f.Interface.IsKnown() {
			err = withHint(usagef("--to %s: %s", to, f.Interface.Reason()), "write the address of a host that can be reached from here")
		}
		return f, err
	}
	if to != "" {
		return model.HostFacts{}, usagef("--to is for this machine; on HOST the route that leads here is shown")
	}
	near, far, err := reach.Pair("", args[0], a.Getenv)
	if err != nil {
		return model.HostFacts{}, err
	}
	e, err := a.reach().Open(ctx, near, far)
	if err != nil {
		return model.HostFacts{}, err
	}
	defer e.Close()
	f := e.Hosts[1]
	if e.InLab {
		f.Name = "lab host b"
	}
	return f, nil
}
