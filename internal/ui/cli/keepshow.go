package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/app/keep"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
)

// toWrite shows what a keep would write on a host: on stdout, unless that has the JSON document.
func (a *console) toWrite(e app.ToWrite) {
	w := a.Out
	if a.json {
		w = a.Err
	}
	head := fmt.Sprintf("files of %s, %s", e.Host, e.Files.Format)
	if e.Files.Reason != "" {
		head += ": " + e.Files.Reason
	}
	fmt.Fprintln(w, head)
	for _, f := range e.Files.Files {
		part := ""
		if f.Block {
			part = ", a block of linerate's in it"
		}
		fmt.Fprintf(w, "%s  %s, mode %04o%s\n%s", f.Path, f.Change, f.Mode, part, f.Diff)
	}
	for _, s := range e.Files.Added {
		a.talk("note: %s: %s=%s stays, which was kept before", e.Host, s.Knob, s.Value)
	}
	a.tellExport(e.Files.Omitted, e.Files.Notes)
	a.tellOthers(e.Host, e.Files.Others, "would still set")
}

// tellOthers lists lines of other files that take precedence.
func (a *console) tellOthers(host string, lines map[model.KnobID]model.FileLine, verb string) {
	for _, id := range slices.Sorted(maps.Keys(lines)) {
		l := lines[id]
		fmt.Fprintf(a.Err, "warning: %s: %s:%d %s %s, to %q, and is read later or by another program\n", host, l.File, l.Number, verb, id, l.Text)
	}
}

// observeKeep prints the events of a keep.
func (a *console) observeKeep(e app.Event) {
	switch e := e.(type) {
	case app.ToWrite:
		a.toWrite(e)
	case app.Unproven:
		a.tellUnproven(e)
	case app.OfTheFlow:
		a.talk("left out: %s=%s belongs to the test traffic, not to a host", e.Setting.Knob, e.Setting.Value)
	case app.SmallestGood:
		why := "it gained most"
		if e.Tolerance > 0 {
			why = fmt.Sprintf("the smallest level within %s of the best", e.Tolerance)
		}
		a.talk("%s is taken: %s; --setting NAME takes another one that proved better: %s", e.Setting, why, strings.Join(e.Others, ", "))
	case app.NotKept:
		a.talk("not kept on %s: %s (%s) was confirmed and holds no more: %s", e.Host, e.Setting.Knob, e.Setting.Native, cmp.Or(e.Setting.Detail, "changed since"))
	case app.NothingToKeep:
		a.talk("note: nothing to keep on %s", e.Host)
	case app.KeptAlready:
		a.talk("%s runs Windows, which keeps what is set over a restart: all of it is kept already; linerate export --for windows-reg writes it as a file", e.Host)
	case app.TakenBack:
		a.talk("%s: its files are as they were", e.Host)
	}
}

// tellUnproven says what speaks against a setting that is kept anyway.
func (a *console) tellUnproven(e app.Unproven) {
	switch {
	case e.Distrusted:
		a.talk("warning: %s says that its verdicts must not be believed", e.What)
	case e.Verdicts != "":
		a.talk("warning: %s: kept by wish, not by proof: %s", e.What, e.Verdicts)
	case e.Guards != "":
		a.talk("warning: %s: kept despite its guards: %s", e.What, e.Guards)
	default:
		a.talk("note: %s: these settings were not measured", e.What)
	}
}

// printKeep prints the result of a keep.
func (a *console) printKeep(r keep.Request, got keep.Result) error {
	if a.json {
		return a.document("linerate/keep/v1", newKeepDoc(r, got))
	}
	for _, h := range got.Hosts {
		if !h.Done {
			continue
		}
		for _, path := range h.Written() {
			fmt.Fprintf(a.Out, "kept on %s: %s\n", h.Name, path)
		}
		a.tellOthers(h.Name, h.Got.Others, "sets")
	}
	for _, h := range got.Hosts {
		if got.Outcome == keep.Declined || got.Outcome == keep.Failed && !h.Done {
			continue
		}
		a.tellNow(r, got, h)
	}
	switch got.Outcome {
	case keep.Holds:
		fmt.Fprintln(a.Out, "nothing to do: all of it is kept already")
	case keep.Dry:
		fmt.Fprintln(a.Out, "nothing was written")
	case keep.Declined:
		fmt.Fprintln(a.Out, "declined: nothing was written")
	case keep.Written:
		back := r.Word(model.Far)
		if r.Both && len(got.Hosts) > 1 {
			back += ", and linerate undo --kept,"
		}
		fmt.Fprintf(a.Out, "linerate undo --kept%s takes it back\n", back)
	case keep.Failed:
	}
	return nil
}

// tellNow says what else to do on a host, and what takes effect only later.
func (a *console) tellNow(r keep.Request, got keep.Result, h *keep.Host) {
	var open []string
	later := 0
	for _, one := range h.Running() {
		if one.Same {
			continue
		}
		now := "not known"
		if one.Now != nil {
			now = a.formatKnob(one.Knob, *one.Now)
		}
		later++
		if l, other := h.Got.Others[one.Knob]; other && l.Text != one.Kept {
			fmt.Fprintf(a.Out, "%s: %s is %s now; what it will be from the next start depends on %s:%d\n", h.Name, one.Knob, now, l.File, l.Number)
		} else {
			fmt.Fprintf(a.Out, "%s: %s is %s now, and %s from the next start\n", h.Name, one.Knob, now, a.formatKnob(one.Knob, one.Kept))
		}
		if !keep.AtBootOnly(a.knobs, one.Knob, h.Facts.OS) {
			open = append(open, fmt.Sprintf("%s=%s", one.Knob, one.Kept))
		}
	}
	if len(open) > 0 {
		link := ""
		if r.Link != "" {
			link = " --interface " + plain.ShellWord(r.Link)
		}
		fmt.Fprintf(a.Out, "now, with a way back: linerate set %s%s%s\n", strings.Join(open, " "), link, r.Word(h.Side))
	}
	if later > 0 || got.Outcome == keep.Written {
		how := "now, on %s, as root: %s\n"
		if len(open) > 0 {
			how = "or on %s, as root: %s\n"
		}
		for _, c := range h.Got.Commands {
			fmt.Fprintf(a.Out, how, h.Name, c)
		}
	}
}

// keepDoc is linerate/keep/v1.
type keepDoc struct {
	Outcome keep.Outcome  `json:"outcome"`
	Source  string        `json:"source"`
	Hosts   []keepHostDoc `json:"hosts"`
}

type keepHostDoc struct {
	Host   model.Host `json:"host"`
	Name   string     `json:"name"`
	System string     `json:"system"`
	keep.Keeping
	Settings []keep.Running `json:"settings"`
}

func newKeepDoc(r keep.Request, got keep.Result) keepDoc {
	d := keepDoc{Outcome: got.Outcome, Source: r.Source.Label, Hosts: []keepHostDoc{}}
	for _, h := range got.Hosts {
		d.Hosts = append(d.Hosts, keepHostDoc{h.Side, h.Name, h.Facts.OS, h.Got, append([]keep.Running{}, h.Running()...)})
	}
	return d
}

// listKept lists what is kept on this machine, or on HOST.
func (a *console) listKept(ctx context.Context, host, state string) error {
	h, shut, err := a.openFiles(ctx, host, state)
	if err != nil {
		return err
	}
	defer shut()
	records, err := h.Client.Kept(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.document("linerate/kept/v1", map[string]any{"host": h.Client.Name(), "records": append([]keep.Record{}, records...)})
	}
	if len(records) == 0 {
		fmt.Fprintln(a.Out, "nothing is kept")
	}
	for _, r := range records {
		fmt.Fprintf(a.Out, "%s  %s  %s\n", r.ID, r.Time.Local().Format("2006-01-02 15:04"), cmp.Or(r.Source, "source not known"))
		for _, f := range r.Files {
			fmt.Fprintf(a.Out, "  %s\n", f)
		}
		for _, s := range r.Settings {
			fmt.Fprintf(a.Out, "  %s=%s\n", s.Knob, a.formatKnob(s.Knob, s.Value))
		}
	}
	return nil
}

// openFiles opens one host, for access to its files.
func (a *console) openFiles(ctx context.Context, host, state string) (h *app.Host, shut func(), err error) {
	if host != "" && state != "" {
		return nil, nil, fault.Usagef("--state is for this machine; write it into the command of exec:, as in exec:ADDRESS linerate agent --state DIR")
	}
	return keep.OpenAlone(ctx, a.world(), a.reach(), a.hereOptions(state, ""), host)
}
