package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"linerate/internal/app/here"
	"linerate/internal/app/reach"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/host/persist/native"
)

// talkOut is where people read what would be written: stdout, unless that holds
// the document.
func (k *keeping) talkOut() io.Writer {
	if k.app.json {
		return k.app.Err
	}
	return k.app.Out
}

// show shows the files of all hosts as they would be.
func (k *keeping) show(w io.Writer) {
	for _, e := range k.ends {
		head := fmt.Sprintf("files of %s, %s", e.name, e.got.Format)
		if e.got.Reason != "" {
			head += ": " + e.got.Reason
		}
		fmt.Fprintln(w, head)
		for _, f := range e.got.Files {
			part := ""
			if f.Block {
				part = ", a block of linerate's in it"
			}
			fmt.Fprintf(w, "%s  %s, mode %04o%s\n%s", f.Path, f.Change, f.Mode, part, f.Diff)
		}
		for _, s := range e.got.Added {
			k.app.talk("note: %s: %s=%s stays, which was kept before", e.name, s.Knob, s.Value)
		}
		k.app.tellExport(native.Output{Omitted: e.got.Omitted, Notes: e.got.Notes})
		k.tellOthers(e, "would still set")
	}
}

// tellOthers says which lines of other files win.
func (k *keeping) tellOthers(e *keepEnd, verb string) {
	for _, id := range slices.Sorted(maps.Keys(e.got.Others)) {
		l := e.got.Others[id]
		fmt.Fprintf(k.app.Err, "warning: %s: %s:%d %s %s, to %q, and is read later or by another program\n", e.name, l.File, l.Number, verb, id, l.Text)
	}
}

// print says what became of a keep.
func (k *keeping) print() error {
	if k.app.json {
		return k.app.document("linerate/keep/v1", k.doc())
	}
	out := k.app.Out
	for _, e := range k.ends {
		if !e.done {
			continue
		}
		for _, f := range e.got.Files {
			if f.Change != session.FileSame {
				fmt.Fprintf(out, "kept on %s: %s\n", e.name, f.Path)
			}
		}
		k.tellOthers(e, "sets")
	}
	for _, e := range k.ends {
		if k.outcome == keepDeclined || k.outcome == keepFailed && !e.done {
			continue
		}
		k.tellNow(out, e)
	}
	switch k.outcome {
	case keepHolds:
		fmt.Fprintln(out, "nothing to do: all of it is kept already")
	case keepDry:
		fmt.Fprintln(out, "nothing was written")
	case keepDeclined:
		fmt.Fprintln(out, "declined: nothing was written")
	case keepWritten:
		fmt.Fprintf(out, "linerate undo --kept%s takes it back\n", k.backWord())
	}
	return nil
}

// backWord is HOST behind undo, and the note about this machine.
func (k *keeping) backWord() string {
	if k.host == "" {
		return ""
	}
	s := " " + shellWord(reach.Redact(k.host))
	if k.flags.both && len(k.ends) > 1 {
		s += ", and linerate undo --kept,"
	}
	return s
}

// tellNow says what else to do on a host, and what takes effect later only.
func (k *keeping) tellNow(w io.Writer, e *keepEnd) {
	var open []string
	later := 0
	for _, r := range e.running() {
		if r.Same {
			continue
		}
		now := "not known"
		if r.Now != nil {
			now = formatKnob(r.Knob, *r.Now)
		}
		later++
		fmt.Fprintf(w, "%s: %s is %s now, and %s from the next start\n", e.name, r.Knob, now, formatKnob(r.Knob, r.Kept))
		if !atBootOnly(r.Knob, e.facts.OS) {
			open = append(open, fmt.Sprintf("%s=%s", r.Knob, r.Kept))
		}
	}
	if len(open) > 0 {
		fmt.Fprintf(w, "now, with a way back: linerate set %s%s\n", strings.Join(open, " "), k.hostWord(e))
	}
	if later > 0 || k.outcome == keepWritten {
		for _, c := range e.got.Commands {
			fmt.Fprintf(w, "or on %s, as root: %s\n", e.name, c)
		}
	}
}

// claims notes who else sets what is kept. An agent that does not know is no
// fault.
func (k *keeping) claims(ctx context.Context, e *keepEnd) error {
	var ids []model.KnobID
	for _, s := range e.ask.Settings {
		ids = append(ids, s.Knob)
	}
	all, err := lastClaims(ctx, e.client, ids)
	if err != nil {
		return err
	}
	for _, c := range all {
		ours := slices.ContainsFunc(e.got.Files, func(f session.KeepFile) bool { return f.Path == c.File })
		if _, told := e.got.Others[c.Knob]; !ours && !told {
			e.got.Notes = append(e.got.Notes, c.String())
		}
	}
	return nil
}

// lastClaims are those of the programs at work that count, one for each knob. An
// agent that does not know has none.
func lastClaims(ctx context.Context, c *session.Client, ids []model.KnobID) ([]model.Claim, error) {
	all, err := c.Claims(ctx, ids)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	last := make(map[model.KnobID]model.Claim)
	for _, one := range all {
		if one.Active.Or(true) {
			last[one.Knob] = one
		}
	}
	var out []model.Claim
	for _, id := range slices.Sorted(maps.Keys(last)) {
		out = append(out, last[id])
	}
	return out, err
}

// keepDoc is linerate/keep/v1.
type keepDoc struct {
	Outcome string        `json:"outcome"`
	Source  string        `json:"source"`
	Hosts   []keepHostDoc `json:"hosts"`
}

type keepHostDoc struct {
	Host     model.Host       `json:"host"`
	Name     string           `json:"name"`
	System   string           `json:"system"`
	Format   model.FileFormat `json:"format"`
	Reason   string           `json:"reason"`
	Record   string           `json:"record"` // "" where nothing was written
	Files    []keepFileDoc    `json:"files"`
	Settings []running        `json:"settings"`
	Added    []knobValue      `json:"added"`
	Commands []string         `json:"commands"`
	Omitted  []model.Omission `json:"omitted"`
	Notes    []string         `json:"notes"`
	Others   []keepOtherDoc   `json:"others"`
}

type keepFileDoc struct {
	Path   string             `json:"path"`
	Change session.FileChange `json:"change"`
	Block  bool               `json:"block"`
	Mode   string             `json:"mode"` // octal
	Diff   string             `json:"diff"`
}

type keepOtherDoc struct {
	Knob model.KnobID `json:"knob"`
	File string       `json:"file"`
	Line int          `json:"line"`
	Text string       `json:"text"`
}

func (k *keeping) doc() keepDoc {
	d := keepDoc{Outcome: k.outcome, Source: k.source.label, Hosts: []keepHostDoc{}}
	for _, e := range k.ends {
		g := e.got
		h := keepHostDoc{
			Host: e.host, Name: e.name, System: e.facts.OS, Format: g.Format, Reason: g.Reason, Record: g.Record, Files: []keepFileDoc{},
			Settings: append([]running{}, e.running()...), Added: knobValues(g.Added), Commands: append([]string{}, g.Commands...),
			Omitted: append([]model.Omission{}, g.Omitted...), Notes: append([]string{}, g.Notes...), Others: []keepOtherDoc{},
		}
		for _, f := range g.Files {
			h.Files = append(h.Files, keepFileDoc{f.Path, f.Change, f.Block, fmt.Sprintf("%04o", f.Mode), f.Diff})
		}
		for _, id := range slices.Sorted(maps.Keys(g.Others)) {
			l := g.Others[id]
			h.Others = append(h.Others, keepOtherDoc{id, l.File, l.Number, l.Text})
		}
		d.Hosts = append(d.Hosts, h)
	}
	return d
}

func knobValues(list []model.Assignment) []knobValue {
	all := []knobValue{}
	for _, s := range list {
		all = append(all, knobValue{s.Knob, s.Value})
	}
	return all
}

// keptDoc is linerate/kept/v1.
type keptDoc struct {
	Host    string          `json:"host"`
	Records []keptRecordDoc `json:"records"`
}

type keptRecordDoc struct {
	ID       string      `json:"id"`
	Time     time.Time   `json:"time"`
	Source   string      `json:"source"`
	Files    []string    `json:"files"`
	Settings []knobValue `json:"settings"`
}

// listKept lists what is kept on this machine, or on HOST.
func (a *console) listKept(ctx context.Context, host, state string) error {
	c, err := a.openFiles(ctx, host, state)
	if err != nil {
		return err
	}
	defer a.world().HangUp(c)
	records, err := c.Kept(ctx)
	if err != nil {
		return err
	}
	if a.json {
		d := keptDoc{Host: c.Name(), Records: []keptRecordDoc{}}
		for _, r := range records {
			d.Records = append(d.Records, keptRecordDoc{r.ID, r.Time.UTC(), r.Source, append([]string{}, r.Files...), knobValues(r.Settings)})
		}
		return a.document("linerate/kept/v1", d)
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
			fmt.Fprintf(a.Out, "  %s=%s\n", s.Knob, formatKnob(s.Knob, s.Value))
		}
	}
	return nil
}

// openFiles opens a session with the host whose files are meant, alone.
func (a *console) openFiles(ctx context.Context, host, state string) (*session.Client, error) {
	if host == "" {
		h, err := here.Open(ctx, a.world(), a.hereOptions(state, ""))
		if err != nil {
			return nil, err
		}
		return h.Client, nil
	}
	t, err := reach.Parse(host, a.Getenv)
	if err == nil {
		err = hasFiles(t)
	}
	if err != nil {
		return nil, err
	}
	if state != "" {
		return nil, usagef("--state is for this machine; write it into the command of exec:, as in exec:ADDRESS linerate agent --state DIR")
	}
	return a.reach().Alone(ctx, t)
}
