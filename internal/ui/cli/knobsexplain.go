package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app/here"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// explainSchema names the document of linerate knobs explain.
const explainSchema = "linerate/explain/v1"

// explanation is one name in linerate/explain/v1.
type explanation struct {
	Name  string      `json:"name"`  // as it was understood
	Knobs []knobPage  `json:"knobs"` // that it means, or that stand behind it
	Dead  []deadEntry `json:"dead"`  // settings of that name that are no more
}

// knobPage is all that is known of one knob.
type knobPage struct {
	Knob     model.KnobID    `json:"knob"`
	Summary  string          `json:"summary"`
	Scope    knob.Scope      `json:"scope"`
	Unit     string          `json:"unit"`
	Risk     int             `json:"risk"`
	RiskText string          `json:"risk_text"`
	When     string          `json:"when"`   // the symptom that calls for it
	Avoid    string          `json:"avoid"`  // when to leave it alone
	Verify   string          `json:"verify"` // how to see that a value took effect
	Source   string          `json:"source"` // of range and meaning
	Systems  []systemPage    `json:"systems"`
	Defaults []defaultEntry  `json:"defaults"`
	Choices  []choiceEntry   `json:"choices"`
	Value    fact.Of[string] `json:"value"` // on this machine
	SetBy    *setBy          `json:"set_by,omitempty"`
}

// systemPage is a knob on one system.
type systemPage struct {
	System    string   `json:"system"`
	Native    string   `json:"native"`
	Also      []string `json:"also"`
	Range     string   `json:"range"` // "" for what can be read only
	Effect    string   `json:"effect"`
	Needs     []string `json:"needs"`
	Permanent string   `json:"permanent"`
	Note      string   `json:"note"`
	Settable  bool     `json:"settable"` // by linerate set
}

type defaultEntry struct {
	System string `json:"system"`
	Value  string `json:"value"`
}

type choiceEntry struct {
	Value   string `json:"value"`
	Meaning string `json:"meaning"`
}

// deadEntry is a setting of old guides.
type deadEntry struct {
	System  string         `json:"system"`
	Lived   string         `json:"lived"`
	Was     string         `json:"was"`
	Now     string         `json:"now"`
	Instead []model.KnobID `json:"instead"`
	Advice  string         `json:"advice"`
	Source  string         `json:"source"`
}

func (a *console) explainCommand() *cobra.Command {
	var link string
	c := &cobra.Command{
		Use: "explain NAME...", Short: "what a setting is, by its name here, on any system, or in an old guide",
		Long: `explain prints all that linerate knows about settings: meaning, range, defaults by
version, native name by system, what a change needs and risks, how to see that it
took effect, how to make it permanent. NAME is linerate's own name, the native name
of any system, with its command and value as pasted from a guide if you like, or a
name from an old guide that no longer exists: then it prints what replaced it.`,
		Example: `  linerate knobs explain link.mtu
  linerate knobs explain tcp_rmem kern.ipc.maxsockbuf
  linerate knobs explain 'sysctl -w net.inet.tcp.inflight_enable=0'
  linerate knobs explain GlobalMaxTcpWindowSize --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return argsFault(cmd, "takes NAME...", args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.explain(cmd.Context(), args, link) },
	}
	c.Flags().StringVar(&link, "interface", "", "interface of which to show the current values of a link's settings")
	c.Flags().BoolP("write", "w", false, "nothing: it stands in pasted commands of sysctl")
	_ = c.Flags().MarkHidden("write") // it was defined above
	return c
}

// explain prints what names mean. Names that nobody knows come last, as an error.
func (a *console) explain(ctx context.Context, names []string, link string) error {
	machine := here.New(a.world(), here.Options{Link: link})
	var all []explanation
	var unknown []string
	for _, name := range names {
		if slices.Contains([]string{"sysctl", "sudo"}, name) { // of a pasted command
			continue
		}
		e, ok := knob.Explain(name)
		if !ok {
			unknown = append(unknown, knob.UnknownError(model.KnobID(e.Name)).Error())
			continue
		}
		all = append(all, explained(ctx, machine, e))
	}
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
			e.print(a.Out)
		}
	}
	switch {
	case len(unknown) > 0:
		return withHint(usagef("%s", strings.Join(unknown, "\n")), "linerate knobs --all lists all settings; --match TEXT searches in them")
	case len(all) == 0:
		return withHint(usagef("no setting named"), "see linerate knobs explain --help")
	}
	return nil
}

// explained gathers the pages of a name: the knob itself, or those behind a
// native name, or those that replace a dead one.
func explained(ctx context.Context, machine *here.Machine, e knob.Explanation) explanation {
	out := explanation{Name: e.Name, Knobs: []knobPage{}, Dead: []deadEntry{}}
	var ids []model.KnobID
	add := func(id model.KnobID) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if e.Knob != nil {
		add(e.Knob.ID)
	} else {
		for _, u := range e.Uses {
			add(u.Knob.ID)
		}
	}
	for _, id := range e.Replaced() {
		add(id)
	}
	values, _ := machine.Read(ctx, ids) // it fails only while a host recovers
	found := map[model.KnobID]model.FileLine{}
	if len(ids) > 0 {
		found, _ = machine.Origins(ctx, ids) // it has no error of its own
	}
	for _, id := range ids {
		if k, ok := knob.ByID(id); ok {
			p := knobPageOf(k)
			p.Value = values[id]
			r := hostKnobValues{system: runtime.GOOS, origins: found}.row(k, "")
			p.SetBy = r.SetBy
			out.Knobs = append(out.Knobs, p)
		}
	}
	for _, d := range e.Dead {
		out.Dead = append(out.Dead, deadEntry{d.System, d.Lived, d.Was, d.Now, append([]model.KnobID{}, d.Instead...), d.Advice, knob.Cite(d.Source)})
	}
	return out
}

// knobPageOf is what the catalogue says of a knob.
func knobPageOf(k knob.Knob) knobPage {
	p := knobPage{
		Knob: k.ID, Summary: k.Summary, Scope: k.Scope, Unit: unitOf(k), Risk: int(k.Risk), RiskText: k.Risk.Words(),
		When: k.When, Avoid: k.Avoid, Verify: k.Verify, Source: knob.Cite(k.Source),
		Systems: []systemPage{}, Defaults: []defaultEntry{}, Choices: []choiceEntry{},
	}
	for _, c := range k.Choices {
		p.Choices = append(p.Choices, choiceEntry{c.Value, c.Meaning})
	}
	for _, d := range k.Defaults {
		p.Defaults = append(p.Defaults, defaultEntry{d.System, d.Value})
	}
	for _, system := range knob.Systems() {
		n, ok := k.Native[system]
		if !ok {
			continue
		}
		s := systemPage{
			System: system, Native: n.Name, Also: append([]string{}, n.Also...), Effect: k.EffectOn(system).Words(), Needs: append([]string{}, k.Needs(system)...),
			Permanent: n.Permanent(system), Note: n.Note,
			Settable: n.Mechanism != knob.NotYet && !n.ReadOnly && !k.ReadOnly && k.EffectOn(system) != knob.EffectBoot,
		}
		if !n.ReadOnly && !k.ReadOnly {
			s.Range = k.Range(system)
		}
		p.Systems = append(p.Systems, s)
	}
	return p
}

// unitOf is the unit of a knob for people.
func unitOf(k knob.Knob) string {
	switch {
	case k.Unit != "":
		return k.Unit
	case k.Type == knob.TypeBytes:
		return "bytes"
	case k.Type == knob.TypeRate:
		return "bit/s"
	}
	return ""
}

// print shows an explanation to people.
func (e explanation) print(w io.Writer) {
	for _, d := range e.Dead {
		fmt.Fprintf(w, "%s no longer exists on %s\n", e.Name, d.System)
		line(w, "was", fmt.Sprintf("%s (%s)", d.Was, d.Lived))
		line(w, "now", d.Now)
		var instead []string
		for _, id := range d.Instead {
			instead = append(instead, string(id))
		}
		line(w, "instead", strings.Join(append(instead, nonEmpty(d.Advice)...), ", "))
		line(w, "source", d.Source)
	}
	for i, p := range e.Knobs {
		if i > 0 || len(e.Dead) > 0 {
			fmt.Fprintln(w)
		}
		p.print(w)
	}
}

func (p knobPage) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", p.Knob, p.Summary)
	if p.Scope == knob.ScopeFlow {
		line(w, "belongs to", "the test traffic; it changes no host")
	}
	k, _ := knob.ByID(p.Knob)
	if v, ok := p.Value.Get(); ok {
		text := k.Format(v)
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

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
