package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app/here"
	"linerate/internal/app/inspect"
	"linerate/internal/core/knob"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
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
netsh, PowerShell, networksetup, cpupower, modprobe and options lines; quote them.`,
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

// explain prints what names mean. Names that nobody knows come last, as an error.
func (a *console) explain(ctx context.Context, names []string, link string) error {
	all, unknown := inspect.Explain(ctx, here.New(a.world(), here.Options{Link: link}), names)
	if a.json && len(all) > 0 {
		if err := a.document(explainSchema, map[string]any{"system": runtime.GOOS, "names": all}); err != nil {
			return err
		}
	}
	if !a.json {
		for i, e := range all {
			if i > 0 {
				fmt.Fprintln(a.Out)
			}
			printExplanation(a.Out, e)
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

// printExplanation shows an explanation to people.
func printExplanation(w io.Writer, e inspect.Explanation) {
	head := len(e.Sets) + len(e.Unknown) + len(e.Dead) + len(e.Outside)
	if len(e.Sets)+len(e.Unknown) > 0 {
		sets := make([]string, len(e.Sets))
		for i, s := range e.Sets {
			sets[i] = string(s.Knob) + "=" + s.Value
		}
		fmt.Fprintln(w, e.Name)
		line(w, "sets", strings.Join(sets, " "))
		line(w, "not known", strings.Join(e.Unknown, ", "))
	}
	for _, o := range e.Outside {
		fmt.Fprintf(w, "%s: a setting of %s that linerate does not set\n", e.Name, o.System)
		line(w, "does", o.Does)
		line(w, "instead", strings.Trim(plain.Join(o.Instead, ", ")+", "+o.Advice, ", "))
		line(w, "source", o.Source)
	}
	for _, d := range e.Dead {
		fmt.Fprintf(w, "%s no longer exists on %s\n", e.Name, d.System)
		line(w, "was", fmt.Sprintf("%s (%s)", d.Was, d.Lived))
		line(w, "now", d.Now)
		line(w, "instead", strings.Trim(plain.Join(d.Instead, ", ")+", "+d.Advice, ", "))
		line(w, "source", d.Source)
	}
	for i, p := range e.Knobs {
		if i > 0 || head > 0 {
			fmt.Fprintln(w)
		}
		printPage(w, p)
	}
}

func printPage(w io.Writer, p inspect.Page) {
	fmt.Fprintf(w, "%s: %s\n", p.Knob, p.Summary)
	if p.Scope == knob.ScopeFlow {
		line(w, "belongs to", "the test traffic; it changes no host")
	}
	if v, ok := p.Value.Get(); ok {
		text := p.Of.Format(v)
		if p.SetBy != nil {
			text += fmt.Sprintf(", set by %s:%d", p.SetBy.File, p.SetBy.Line)
		}
		line(w, "here", text)
	}
	line(w, "unit", p.Unit)
	for _, c := range p.Choices {
		line(w, "value "+c.Value, c.Meaning)
	}
	for _, d := range p.Defaults {
		line(w, "default", d.Value+" ("+d.System+")")
	}
	line(w, "risk", p.RiskText)
	line(w, "worth a try", p.When)
	line(w, "leave it", p.Avoid)
	line(w, "verified by", p.Verify)
	for _, s := range p.Systems {
		fmt.Fprintf(w, "  on %s: %s\n", s.System, s.Native)
		switch {
		case s.Range == "":
			line(w, "  range", "read-only")
		case len(p.Choices) == 0:
			line(w, "  range", s.Range)
		}
		line(w, "  effect", s.Effect)
		line(w, "  needs", strings.Join(s.Needs, "; "))
		line(w, "  permanent", s.Permanent)
		line(w, "  also", strings.Join(s.Also, ", "))
		line(w, "  note", s.Note)
		if !s.Settable && s.Range != "" {
			line(w, "  by linerate", "not settable")
		}
	}
	line(w, "source", p.Source)
}

// line prints a labelled line, where there is something to say.
func line(w io.Writer, label, text string) {
	if text != "" {
		fmt.Fprintf(w, "  %-13s %s\n", label, text)
	}
}
