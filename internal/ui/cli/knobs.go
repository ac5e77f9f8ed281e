package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/knob"
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
	Knob    model.KnobID    `json:"knob"`
	Scope   knob.Scope      `json:"scope"`
	Summary string          `json:"summary"`
	Value   fact.Of[string] `json:"value"`
	Native  string          `json:"native,omitempty"`
	Effect  knob.Effect     `json:"effect,omitempty"`
	Risk    int             `json:"risk"`
}

func (a *app) knobsCommand() *cobra.Command {
	var link string
	c := &cobra.Command{
		Use: "knobs [HOST]", Short: "the settings that linerate knows, and how they stand",
		Long: `knobs lists every setting with its current value on this machine, or on HOST.
Settings of the flow belong to the test traffic and change no host.`,
		Example: `  linerate knobs
  linerate knobs --interface lo
  linerate knobs lab:rate=1gbit,rtt=10ms,b.tcp.recv_buffer_max=64KiB --json`,
		Args: atMostOne("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, values, err := a.readKnobs(cmd.Context(), args, link)
			if err != nil {
				return err
			}
			if err := a.printKnobs(host, knobRows(values)); err != nil {
				return err
			}
			if len(args) == 0 && link == "" {
				a.talk("settings of a link are shown with --interface NAME")
			}
			return nil
		},
	}
	c.Flags().StringVar(&link, "interface", "", "interface whose link settings to show (this machine only)")
	return c
}

// readKnobs reads this machine's knobs, or those of a host.
func (a *app) readKnobs(ctx context.Context, args []string, link string) (string, map[model.KnobID]fact.Of[string], error) {
	if len(args) == 0 {
		if link != "" {
			if _, err := net.InterfaceByName(link); err != nil {
				return "", nil, withHint(usagef("--interface: no interface %q here", link), "known are %s", interfaceNames())
			}
		}
		h := a.newHostKnobs("", link)
		f, err := h.facts(ctx, "")
		return f.Name, f.Knobs, err
	}
	if link != "" {
		return "", nil, usagef("--interface is for this machine; on HOST the interface that leads here is shown")
	}
	near, far, err := parsePair("", args[0])
	if err != nil {
		return "", nil, err
	}
	e, err := a.open(ctx, near, far)
	if err != nil {
		return "", nil, err
	}
	defer e.close()
	name := e.hosts[1].Name
	if e.lab != nil {
		name = "lab host b"
	}
	return name, e.hosts[1].Knobs, nil
}

// interfaceNames lists this machine's interfaces for a hint.
func interfaceNames() string {
	all, err := net.Interfaces()
	if err != nil {
		return "not readable: " + err.Error()
	}
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.Name
	}
	return strings.Join(names, ", ")
}

func knobRows(values map[model.KnobID]fact.Of[string]) []knobRow {
	var rows []knobRow
	for _, k := range knob.Catalogue() {
		r := knobRow{Knob: k.ID, Scope: k.Scope, Summary: k.Summary, Effect: k.Effect, Risk: int(k.Risk)}
		v, ok := values[k.ID]
		switch {
		case k.Scope == knob.ScopeFlow:
			r.Value = fact.Unknown[string]("set by each run")
		case !ok:
			r.Value = fact.Unknown[string]("not read")
		default:
			r.Value, r.Native = v, v.Source()
		}
		rows = append(rows, r)
	}
	return rows
}

func (a *app) printKnobs(host string, rows []knobRow) error {
	if a.json {
		return a.document(reportjson.KnobsSchema, map[string]any{"host": host, "knobs": rows})
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "settings of %s\n", host)
	fmt.Fprintln(w, "  knob\tvalue\tnative\tmeaning")
	var unknown []string
	for _, r := range rows {
		if r.Scope == knob.ScopeFlow {
			continue
		}
		value := "unknown"
		if v, ok := r.Value.Get(); ok {
			value = formatKnob(r.Knob, v)
		} else {
			unknown = append(unknown, fmt.Sprintf("%s: %s", r.Knob, r.Value.Reason()))
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", r.Knob, value, r.Native, r.Summary)
	}
	fmt.Fprintln(w, "\nsettings of the test flow, no host is changed\n  knob\tmeaning")
	for _, r := range rows {
		if r.Scope == knob.ScopeFlow {
			fmt.Fprintf(w, "  %s\t%s\n", r.Knob, r.Summary)
		}
	}
	sort.Strings(unknown)
	if len(unknown) > 0 {
		fmt.Fprintln(w, "\nunknown")
	}
	for _, u := range unknown {
		fmt.Fprintf(w, "  %s\n", u)
	}
	return w.Flush()
}

// formatKnob prints a canonical value for people.
func formatKnob(id model.KnobID, canonical string) string {
	if k, ok := knob.ByID(id); ok {
		return k.Format(canonical)
	}
	return canonical
}

func (a *app) undoCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "undo [HOST]", Short: "put back what a session that was cut short left changed",
		Long: `undo finishes what the journal says was not finished: every setting that still
holds what linerate wrote gets its old value back, newest first. What somebody
else changed meanwhile is left alone and reported. Agents do the same at start.`,
		Example: "  linerate undo\n  linerate undo 'exec:10.0.0.2 ip netns exec b linerate agent'",
		Args:    atMostOne("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			changes, err := a.undoOn(cmd.Context(), args, state)
			if err != nil && len(changes) == 0 {
				return err
			}
			return errors.Join(a.printUndone(changes), err)
		},
	}
	c.Flags().StringVar(&state, "state", "", "directory of the journal (default: $LINERATE_STATE, else the system's)")
	return c
}

func (a *app) undoOn(ctx context.Context, args []string, state string) ([]model.Change, error) {
	if len(args) == 0 {
		return a.newHostKnobs(state, "").Revert(ctx)
	}
	t, err := parseTarget(args[0])
	if err != nil {
		return nil, err
	}
	if state != "" {
		return nil, usagef("--state is for this machine; write it into the command of exec:, as in exec:ADDRESS linerate agent --state DIR")
	}
	switch t.kind {
	case targetServe:
		return nil, withHint(usagef("linerate serve changes no settings: there is nothing that it could undo"),
			"run linerate undo on that host, or reach it with exec:ADDRESS COMMAND...")
	case targetLab:
		return nil, usagef("a lab ends with its command: there is nothing to undo in it")
	case targetForeign:
		return nil, usagef("%s changes no settings: there is nothing that it could undo", t)
	case targetHere, targetExec, targetSSH:
	}
	peer, err := a.dialTarget(ctx, t)
	if err != nil {
		return nil, err
	}
	c, err := session.Open(ctx, peer, session.Options{Host: model.Far, Version: a.Version})
	if err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	changes, err := c.Recovered(ctx)
	var kept []model.Change
	if err == nil {
		kept, err = c.Revert(ctx)
	}
	_, cerr := c.Close(ctx)
	return append(changes, kept...), errors.Join(err, cerr)
}

func (a *app) printUndone(changes []model.Change) error {
	if a.json {
		if changes == nil {
			changes = []model.Change{}
		}
		if err := a.document("linerate/undo/v1", map[string]any{"changes": changes}); err != nil {
			return err
		}
	} else if len(changes) == 0 {
		fmt.Fprintln(a.Out, "nothing to undo")
	}
	var left []string
	for _, c := range changes {
		if !a.json {
			fmt.Fprintf(a.Out, "%s (%s): %s\n", c.Knob, c.Native, undoneText(c))
		}
		if c.State == model.ChangeFailed || c.State == model.ChangeApplied {
			left = append(left, string(c.Knob))
		}
	}
	if len(left) > 0 {
		return &fault{code: exitNotUndone, err: fmt.Errorf("%d of %d changes not undone", len(left), len(changes)),
			hint: "see the reasons above; root is needed for most settings"}
	}
	return nil
}

func undoneText(c model.Change) string {
	switch c.State {
	case model.ChangeUndone:
		return fmt.Sprintf("back to %q", c.Old)
	case model.ChangeForeign:
		return "changed by somebody else meanwhile, left alone: " + c.Detail
	case model.ChangeApplied:
		return "still changed: " + c.Detail
	default:
		return "not undone: " + c.Detail
	}
}
