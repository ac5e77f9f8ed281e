package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app/inspect"
	"linerate/internal/app/local"
	"linerate/internal/core/knob"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/report/term"
)

// explainSchema names the document of linerate knobs explain.
const explainSchema = "linerate/explain/v1"

func (a *console) explainCommand() *cobra.Command {
	var link string
	c := &cobra.Command{
		Use: "explain NAME...", Short: "what a setting is, by its name here, on any system, or in an old guide",
		Long: `explain prints all that linerate knows about settings: meaning, range, defaults by
version, native name by system, what a change needs and risks, how to see that it
took effect, how to make it permanent. NAME is linerate's own name, the native name
of any system, a line of a tuning guide as it stands, or a name from an old guide that
no longer exists: then it prints what replaced it. Of a line it prints what the line
would set, in linerate's words. It reads sysctl, ethtool, ip, tc, ifconfig, rc.conf,
netsh, PowerShell, networksetup, cpupower, modprobe, options, setpci, tuned-adm,
mlnx_tune, set_irq_affinity*.sh, systemctl, service and echo lines; quote them.`,
		Example: `  linerate knobs explain link.mtu
  linerate knobs explain tcp_rmem kern.ipc.maxsockbuf
  linerate knobs explain 'sysctl -w net.inet.tcp.inflight_enable=0'
  linerate knobs explain 'ethtool -G eth0 rx 8192 tx 8192'
  linerate knobs explain GlobalMaxTcpWindowSize --json`,
		Args: someArgs(1, math.MaxInt, "NAME..."),
		RunE: func(cmd *cobra.Command, args []string) error { return a.explain(cmd.Context(), args, link) },
	}
	c.Flags().StringVar(&link, "interface", "", "interface of which to show the current values of a link's settings")
	c.Flags().BoolP("write", "w", false, "nothing: it stands in pasted commands of sysctl")
	_ = c.Flags().MarkHidden("write") // it was defined above
	return c
}

// explain prints what names mean. Unknown names come last, as an error.
func (a *console) explain(ctx context.Context, names []string, link string) error {
	all, unknown := inspect.Explain(ctx, local.New(a.world(), local.Options{Link: link}), names)
	if a.json && len(all) > 0 {
		if err := a.document(explainSchema, map[string]any{"system": runtime.GOOS, "names": all}); err != nil {
			return err
		}
	}
	if !a.json && len(all) > 0 {
		p := a.page()
		for _, e := range all {
			p.Gap()
			explanation(p, e)
		}
		if err := p.Print(a.Out); err != nil {
			return err
		}
	}
	switch {
	case len(unknown) > 0:
		return fault.New(fault.Usage, errors.Join(unknown...), "linerate knobs --all lists all settings; --match TEXT searches in them")
	case len(all) == 0:
		return fault.WithHint(fault.Usagef("no setting named"), "see linerate knobs explain --help")
	}
	return nil
}

// explanation prints an explanation for people.
func explanation(p term.Page, e inspect.Explanation) {
	line := func(label, text string) { p.Field(explainLabel, label, text) }
	if len(e.Sets)+len(e.Refused)+len(e.Unknown) > 0 {
		sets := make([]string, len(e.Sets))
		for i, s := range e.Sets {
			sets[i] = string(s.Knob) + "=" + s.Value
		}
		p.Text("%s", e.Name)
		line("sets", strings.Join(sets, " "))
		line("refused", strings.Join(e.Refused, "; "))
		line("not known", strings.Join(e.Unknown, ", "))
	}
	for _, o := range e.Outside {
		p.Text("%s (%s): linerate does not do this itself", e.Name, o.System)
		line("does", o.Does)
		line("instead", strings.Trim(plain.Join(o.Instead, ", ")+"; "+o.Advice, "; "))
		line("source", o.Source)
	}
	for _, d := range e.Dead {
		p.Text("%s no longer exists on %s", e.Name, d.System)
		line("was", fmt.Sprintf("%s (%s)", d.Was, d.Lived))
		line("now", d.Now)
		line("instead", strings.Trim(plain.Join(d.Instead, ", ")+", "+d.Advice, ", "))
		line("source", d.Source)
	}
	for _, k := range e.Knobs {
		p.Gap()
		knobPage(p, k)
	}
}

// explainLabel is the width of the labels of an explanation.
const explainLabel = 13

func knobPage(to term.Page, p inspect.Page) {
	line := func(label, text string) { to.Field(explainLabel, label, text) }
	to.Text("%s: %s", p.Knob, p.Summary)
	if p.Scope == knob.ScopeFlow {
		line("belongs to", "the test traffic; it changes no host")
	}
	if v, ok := p.Value.Get(); ok {
		text := p.Of.Format(v)
		if p.SetBy != nil {
			text += fmt.Sprintf(", set by %s:%d", p.SetBy.File, p.SetBy.Line)
		}
		line("here", text)
	}
	line("unit", p.Unit)
	for _, c := range p.Choices {
		line("value "+c.Value, c.Meaning)
	}
	for _, d := range p.Defaults {
		line("default", d.Value+" ("+d.System+")")
	}
	line("risk", p.RiskText)
	line("worth a try", p.When)
	line("leave it", p.Avoid)
	line("verified by", p.Verify)
	for _, s := range p.Systems {
		to.Note(fmt.Sprintf("on %s: %s", s.System, s.Native))
		switch {
		case s.Range == "":
			line("  range", "read-only")
		case len(p.Choices) == 0:
			line("  range", s.Range)
		}
		line("  effect", s.Effect)
		line("  needs", strings.Join(s.Needs, "; "))
		line("  permanent", s.Permanent)
		line("  also", strings.Join(s.Also, ", "))
		line("  note", s.Note)
		if !s.Settable && s.Range != "" {
			line("  by linerate", "not settable")
		}
	}
	line("source", p.Source)
}
