package cli

import (
	"context"

	"github.com/spf13/cobra"

	"linerate/internal/app/change"
	"linerate/internal/app/inspect"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
)

func (a *console) profileDiff() *cobra.Command {
	var link, role string
	c := &cobra.Command{
		Use: "diff FILE [HOST]", Short: "a profile beside what a host holds",
		Long: `diff shows which settings of a profile this machine, or HOST, has already, and
whether anything speaks against using it there: another system or kernel, another
link, or values that do not fit together with the ones that the host has.`,
		Example: "  linerate profile diff tall.yaml --interface lo\n  linerate profile diff tall.yaml \"$NAS\" --role receiver",
		Args:    someArgs(1, 2, "FILE and at most one HOST"),
	}
	roleFlag(c, &role)
	c.Flags().StringVar(&link, "interface", "", "interface for settings of a link (this machine only)")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := a.readProfile(args[0])
		if err != nil {
			return err
		}
		h, err := change.ChooseHost(p, role)
		if err != nil {
			return err
		}
		facts, err := a.hostFacts(cmd.Context(), args[1:], link)
		if err != nil {
			return err
		}
		return a.printDiff(inspect.Compare(h, facts))
	}
	return c
}

// hostFacts reads this machine's facts with its knobs, or those of a host.
func (a *console) hostFacts(ctx context.Context, args []string, link string) (model.HostFacts, error) {
	if len(args) == 0 {
		return a.here("", link).Facts(ctx, "")
	}
	if link != "" {
		return model.HostFacts{}, fault.Usagef("--interface is for this machine; on HOST the interface that leads here is meant")
	}
	h, err := inspect.Far(ctx, a.world(), a.reach(), args[0], false)
	return h.HostFacts, err
}

func (a *console) printDiff(d inspect.Comparison) error {
	if a.json {
		return a.document("linerate/profilediff/v1", d)
	}
	p := a.page()
	var rows [][]string
	for _, s := range d.Settings {
		rows = append(rows, []string{string(s.Knob), a.formatKnob(s.Knob, s.Want), a.valueText(s), map[bool]string{true: "same", false: "differs"}[s.Same]})
	}
	p.Title("profile beside %s", d.Host)
	p.Table([]string{"knob", "profile", "host", ""}, rows, nil)
	for _, l := range d.Conflict {
		p.Text("conflict: %s", l)
	}
	for _, l := range d.Doubts {
		p.Text("doubt: %s", l)
	}
	return p.Print(a.Out)
}

func (a *console) valueText(d profile.Difference) string {
	if v, ok := d.Now.Get(); ok {
		return a.formatKnob(d.Knob, v)
	}
	return "unknown: " + d.Now.Reason()
}
