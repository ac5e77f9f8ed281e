package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/app/reach"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	reportjson "linerate/internal/report/json"
)

// knobChecker lets plan files and flags ask the catalogue.
type knobChecker struct{}

// Check implements config.KnobChecker.
func (knobChecker) Check(id model.KnobID, value string) (string, error) {
	k, ok := knob.ByID(id)
	if !ok {
		return "", knob.UnknownError(id)
	}
	return k.Parse(value)
}

// Known implements config.KnobChecker.
func (knobChecker) Known() []model.KnobID {
	var ids []model.KnobID
	for _, k := range knob.Catalogue() {
		ids = append(ids, k.ID)
	}
	return ids
}

// knobRow is one knob in linerate/knobs/v1.
type knobRow struct {
	Knob     model.KnobID    `json:"knob"`
	Scope    knob.Scope      `json:"scope"`
	Theme    string          `json:"theme"`
	Summary  string          `json:"summary"`
	Value    fact.Of[string] `json:"value"`
	Default  string          `json:"default,omitempty"`
	Range    string          `json:"range,omitempty"`
	SetBy    *setBy          `json:"set_by,omitempty"`
	Native   string          `json:"native,omitempty"`
	Effect   knob.Effect     `json:"effect,omitempty"`
	Risk     int             `json:"risk"`
	ReadOnly bool            `json:"read_only"`

	of knob.Knob
}

// setBy is the line of a permanent file that sets a knob.
type setBy struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Value string `json:"value"` // canonical, or native where it cannot be understood
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
the value at boot, the range, the native name, and the permanent file that sets it,
as far as the files of the system show. Settings of a link and a route are those of
the way out, by the default route, or to HOST; --interface names another one.
Settings of the flow belong to the test traffic and change no host.`,
		Example: `  linerate knobs
  linerate knobs --match rmem
  linerate knobs --interface lo --all
  linerate knobs lab:rate=1gbit,rtt=10ms,b.tcp.recv_buffer_max=64KiB --json
  linerate knobs explain tcp.recv_buffer_max`,
		Args: atMostOne("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.readKnobs(cmd.Context(), args, f.link)
			if err != nil {
				return err
			}
			rows := knobRows(k, f)
			if len(rows) == 0 {
				return withHint(&app.Fault{Kind: app.Usage, Err: fmt.Errorf("no setting of %s matches %q", k.name, f.match)},
					"linerate knobs --all --match %s looks at other systems too; linerate knobs explain NAME knows old names", f.match)
			}
			return a.printKnobs(k, rows)
		},
	}
	c.Flags().StringVar(&f.link, "interface", "", "interface whose link settings to show (this machine only)")
	c.Flags().StringVar(&f.match, "match", "", "only settings whose name, native name or meaning holds this text")
	c.Flags().BoolVar(&f.all, "all", false, "settings of other systems too")
	c.AddCommand(a.explainCommand())
	return c
}

// hostKnobValues are the knobs of one host, and where they come from.
type hostKnobValues struct {
	name, system, kernel string
	link                 string // whose settings of a link they are; "" where none is known
	values               map[model.KnobID]fact.Of[string]
	origins              map[model.KnobID]model.FileLine
}

// readKnobs reads this machine's knobs, or those of a host.
func (a *console) readKnobs(ctx context.Context, args []string, link string) (hostKnobValues, error) {
	ids := here.KnobIDs()
	if len(args) == 0 {
		if link != "" {
			if _, err := net.InterfaceByName(link); err != nil {
				return hostKnobValues{}, withHint(usagef("--interface: no interface %q here", link), "known are %s", here.LinkNames())
			}
		}
		h := a.here("", link)
		f, err := h.WayOut(ctx)
		if err != nil {
			return hostKnobValues{}, err
		}
		origins, err := h.Origins(ctx, ids)
		return hostKnobValues{f.Name, f.OS, f.Kernel.Or(""), cmp.Or(link, f.Interface.Or("")), f.Knobs, origins}, err
	}
	if link != "" {
		return hostKnobValues{}, usagef("--interface is for this machine; on HOST the interface that leads here is shown")
	}
	near, far, err := reach.Pair("", args[0], a.Getenv)
	if err != nil {
		return hostKnobValues{}, err
	}
	e, err := a.reach().Open(ctx, near, far)
	if err != nil {
		return hostKnobValues{}, err
	}
	defer e.Close()
	f := e.Hosts[1]
	k := hostKnobValues{name: f.Name, system: f.OS, kernel: f.Kernel.Or(""), link: f.Interface.Or(""), values: f.Knobs}
	if e.InLab { // its files are this machine's, which set nothing in it
		k.name = "lab host b"
		return k, nil
	}
	if e.Far == nil {
		return k, nil
	}
	k.origins, err = e.Far.Origins(ctx, ids)
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil // not known, then
	}
	return k, err
}

// knobRows are the knobs to show, by theme.
func knobRows(h hostKnobValues, f knobsFlags) []knobRow {
	var rows []knobRow
	catalogue := knob.NewIndex()
	for _, theme := range knob.Themes() {
		for _, id := range theme.Knobs {
			k, _ := catalogue.ByID(id)
			if _, here := k.Native[h.system]; !here && k.Scope != knob.ScopeFlow && !f.all || !matches(k, f.match) {
				continue
			}
			rows = append(rows, h.row(k, theme.Name))
		}
	}
	return rows
}

func (h hostKnobValues) row(k knob.Knob, theme string) knobRow {
	n := k.Native[h.system]
	r := knobRow{
		of: k, Knob: k.ID, Scope: k.Scope, Theme: theme, Summary: k.Summary, Effect: k.EffectOn(h.system), Risk: int(k.Risk),
		ReadOnly: k.ReadOnly || n.ReadOnly, Default: k.DefaultOn(h.system, h.kernel),
	}
	if v, err := k.Parse(r.Default); err == nil { // the rest are rules: "by memory"
		r.Default = k.Format(v)
	}
	if !r.ReadOnly {
		r.Range = k.Range(h.system)
	}
	v, ok := h.values[k.ID]
	switch {
	case k.Scope == knob.ScopeFlow:
		r.Value = fact.Unknown[string]("set by each run")
	case !ok:
		r.Value = fact.Unknown[string]("not read")
	default:
		r.Value, r.Native = v, v.Source()
	}
	if l, ok := h.origins[k.ID]; ok {
		r.SetBy = &setBy{File: l.File, Line: l.Number, Value: l.Text}
		if v, err := k.Decode(h.system, l.Text); err == nil {
			r.SetBy.Value = v
		}
	}
	return r
}

// matches reports whether a knob is meant by a text.
func matches(k knob.Knob, text string) bool {
	text = strings.ToLower(text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if has(string(k.ID)) || has(k.Summary) {
		return true
	}
	for _, n := range k.Native {
		if has(n.Name) || has(strings.ReplaceAll(n.Name, ".", "/")) {
			return true
		}
	}
	return false
}

// formatKnob prints a canonical value for people.
func formatKnob(id model.KnobID, canonical string) string {
	if k, ok := knob.ByID(id); ok {
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
