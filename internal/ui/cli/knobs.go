package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app/inspect"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/fault"
	"linerate/internal/report/format"
)

// knobChecker checks plan files and flags against the catalogue, and against what the kinds of
// traffic let a plan vary.
type knobChecker struct {
	*knob.Index
	kinds traffic.Kinds
	end   func(target string) (string, error) // returns a far end's text without its command; nil if none may be named
}

// Check implements config.KnobChecker.
func (c knobChecker) Check(id model.KnobID, value string) (string, error) {
	if k, ok := c.ByID(id); ok {
		return k.Parse(value)
	}
	if id == model.FarEnd {
		if c.end == nil {
			return "", errNoEnds
		}
		return c.end(value)
	}
	if id == model.EngineKnob {
		return c.engine(value)
	}
	switch _, o, ok := c.kinds.Owner(string(id)); {
	case !ok:
		return "", c.UnknownError(id)
	case o.Level == nil:
		return "", fault.New(fault.Usage, errors.New(o.Name+" is the same in all runs of a plan"), "say it of the flow")
	default:
		return o.Level(value)
	}
}

// engine checks the name of a kind of traffic that flags can name, too.
func (c knobChecker) engine(value string) (string, error) {
	names := c.kinds.Names()
	if slices.Contains(names, value) {
		return value, nil
	}
	return "", fault.Usagef("%s%q is not one of %s", meantWord(value, names), value, strings.Join(names, ", "))
}

// OfFlow implements config.KnobChecker.
func (c knobChecker) OfFlow(id model.KnobID) bool {
	k, ok := c.ByID(id)
	return !ok || k.Scope == knob.ScopeFlow
}

// Known implements config.KnobChecker.
func (c knobChecker) Known() []model.KnobID {
	ids := lists.Each(c.All(), func(k knob.Knob) model.KnobID { return k.ID })
	if c.end != nil {
		ids = append(ids, model.FarEnd)
	}
	ids = append(ids, model.EngineKnob)
	for _, k := range c.kinds {
		for _, o := range k.Options {
			ids = append(ids, model.KnobID(o.Name))
		}
	}
	return ids
}

// knobsFlags say which knobs to show.
type knobsFlags struct {
	link, match string
	all         bool
}

func (a *console) knobsCommand() *cobra.Command {
	var f knobsFlags
	c := &cobra.Command{
		Use: "knobs [HOST]", Short: "the settings that linerate knows, and their values",
		Long: `knobs lists the settings of this machine, or of HOST, by theme: the current value,
the system's default, the range, the native name, and the permanent file that sets it,
as far as the files of the system show. Settings of a link and a route are those of
the way out, by the default route, or to HOST; --interface names another one.
Settings of the flow belong to the test traffic and change no host.`,
		Example: `  linerate knobs
  linerate knobs --match rmem
  linerate knobs --interface lo --all
  linerate knobs lab:rate=1gbit,rtt=10ms,far.tcp.recv_buffer_max=64KiB --json
  linerate knobs explain tcp.recv_buffer_max`,
		Args: atMostHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.readKnobs(cmd.Context(), args, f.link)
			if err != nil {
				return err
			}
			rows := h.Settings(f.match, f.all)
			if len(rows) == 0 {
				return fault.WithHint(&fault.Error{Kind: fault.Usage, Err: fmt.Errorf("no setting matches %q", f.match)},
					"linerate knobs --all --match %s looks at other systems too; linerate knobs explain NAME knows old names", f.match)
			}
			return a.printKnobs(h, rows)
		},
	}
	c.Flags().StringVar(&f.link, "interface", "", "interface whose link settings to show (this machine only)")
	c.Flags().StringVar(&f.match, "match", "", "only settings whose name, native name or meaning holds this text")
	c.Flags().BoolVar(&f.all, "all", false, "settings of other systems too")
	c.AddCommand(a.explainCommand())
	return c
}

// readKnobs reads this machine's settings, or those of a host.
func (a *console) readKnobs(ctx context.Context, args []string, link string) (inspect.Host, error) {
	switch {
	case len(args) == 0:
		return inspect.Near(ctx, a.here("", link), link)
	case link != "":
		return inspect.Host{}, fault.Usagef("--interface is for this machine; on HOST the interface that leads here is shown")
	}
	return inspect.Far(ctx, a.world(), a.reach(), args[0], true)
}

// formatKnob formats a canonical value for people.
func (a *console) formatKnob(id model.KnobID, canonical string) string {
	if k, ok := a.knobs.ByID(id); ok {
		return k.Format(canonical)
	}
	return canonical
}

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
		Args: atMostHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.readFacts(cmd.Context(), args, to)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(format.FactsSchema, factsDoc{f})
			}
			p := a.page()
			writeFacts(p, a.knobs, f)
			if err := p.Print(a.Out); err != nil {
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
			err = fault.WithHint(fault.Usagef("--to %s: %s", to, f.Interface.Reason()), "write the address of a host that can be reached from here")
		}
		return f, err
	}
	if to != "" {
		return model.HostFacts{}, fault.Usagef("--to is for this machine; on HOST the route that leads here is shown")
	}
	h, err := inspect.Far(ctx, a.world(), a.reach(), args[0], false)
	return h.HostFacts, err
}
