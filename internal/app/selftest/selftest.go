// Package selftest has linerate try itself on this machine: what it reads of it, what it
// measures over loopback, whether its records can be kept, and, where that is wanted,
// whether a setting can be changed and comes back. The report is for whoever mends
// linerate, who has no such machine.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/app/inspect"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/rescue"
)

// State says how one thing stands.
type State string

// The states.
const (
	OK     State = "ok"
	Unseen State = "unseen" // not on this machine, or not with these rights: no fault
	Wrong  State = "wrong"
)

// Line is one thing that was tried.
type Line struct {
	Part  string  `json:"part"` // facts, counters, settings, loopback, records, changes, faults
	Name  string  `json:"name"`
	State State   `json:"state"`
	Text  string  `json:"text"`              // what it says, or why not
	Took  float64 `json:"seconds,omitempty"` // of what was measured or changed
}

// Report is what came of all of it.
type Report struct {
	Version string    `json:"version"` // linerate's
	System  string    `json:"system"`  // linux/amd64
	Began   time.Time `json:"began"`
	Full    bool      `json:"full"` // names and addresses are in it
	Lines   []Line    `json:"lines"`
}

// Request is what is wanted beside reading and measuring.
type Request struct {
	Settings bool   // change harmless settings, one by one, and take each back
	Yes      bool   // without asking a person before that
	Full     bool   // leave names and addresses in the report
	State    string // directory of the journal; "" is the system's
	// Results tries the place of the results, and says where that is.
	Results func(ctx context.Context) (where string, err error)
	// Only bounds Settings to these; nil is all that are harmless.
	Only []model.KnobID
}

// Count is how many lines are in a state.
func (r Report) Count(s State) (n int) {
	for _, l := range r.Lines {
		if l.State == s {
			n++
		}
	}
	return n
}

// CountOf is how many lines of a part are in each state.
func (r Report) CountOf(part string) map[State]int {
	counts := map[State]int{}
	for _, l := range r.Lines {
		if l.Part == part {
			counts[l.State]++
		}
	}
	return counts
}

// trial is a self-test that goes on.
type trial struct {
	app.Env
	Request
	machine *here.Machine
	host    inspect.Host
	report  Report
	notBack []string // settings that are not as they were
}

// Run tries everything. Its error is of kind fault.Found where something is wrong, and of
// kind fault.NotUndone where a setting did not come back; the report is whole in both
// cases. Other errors mean that there is none.
func Run(ctx context.Context, env app.Env, q Request) (Report, error) {
	t := &trial{Env: env, Request: q, machine: here.New(env, here.Options{State: q.State})}
	defer func() { _ = t.machine.Close() }()
	t.report = Report{Version: env.Version, System: runtime.GOOS + "/" + runtime.GOARCH, Began: env.Now(), Full: q.Full}
	if q.Settings && !q.Yes {
		switch answer, err := env.Ask(ctx, app.Question{Kind: app.TrySettings, Host: app.ThisMachine}); {
		case errors.Is(err, app.ErrNobody):
			return t.report, fault.WithHint(fault.Usagef("settings would be changed, and there is no terminal to agree on"), "--yes agrees beforehand")
		case err != nil:
			return t.report, err
		case !answer.Yes:
			t.Settings = false
			t.add("changes", "all", Unseen, "not wanted")
		}
	}
	type part struct {
		at string
		do func(context.Context)
	}
	parts := []part{
		{"what this machine is", t.facts},
		{"its settings", t.settings},
		{"measurements over loopback", t.loopback},
		{"results and journal", t.records},
	}
	if t.Settings {
		parts = append(parts, part{"harmless settings, each for a moment", t.changes})
	}
	for _, p := range parts {
		if err := ctx.Err(); err != nil {
			return t.report, err
		}
		t.Observe(app.Looking{At: p.at})
		t.safely(p.at, func() { p.do(ctx) })
	}
	if err := ctx.Err(); err != nil {
		return t.report, err
	}
	if !q.Full {
		t.report.hide(t.host.HostFacts, env.Getenv)
	}
	return t.report, t.verdict()
}

func (t *trial) verdict() error {
	switch n := t.report.Count(Wrong); {
	case len(t.notBack) > 0:
		return fault.New(fault.NotUndone, fmt.Errorf("not as they were: %v", t.notBack), "linerate undo takes back what the journal knows of")
	case n > 0:
		return fault.WithKind(fault.Found, fmt.Errorf("%d of %d things are wrong", n, len(t.report.Lines)))
	}
	return nil
}

// safely has a panic be one of the things that are wrong: what linerate does on a system
// that nobody tried is what the report is for.
func (t *trial) safely(at string, do func()) {
	rescue.From(func(err error) { t.add("faults", at, Wrong, "%v", err) }, do)()
}

// add adds a line, which stays one: a panic has many, of which the first ones tell.
func (t *trial) add(part, name string, s State, format string, args ...any) {
	lines := strings.FieldsFunc(fmt.Sprintf(format, args...), func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	text := strings.Join(lines[:min(len(lines), mostLines)], " | ")
	t.report.Lines = append(t.report.Lines, Line{Part: part, Name: name, State: s, Text: text})
}

// mostLines are kept of what has many: the value of a panic, and where it was.
const mostLines = 16

// timed is add for what began at began.
func (t *trial) timed(began time.Time, part, name string, s State, format string, args ...any) {
	t.add(part, name, s, format, args...)
	t.report.Lines[len(t.report.Lines)-1].Took = time.Since(began).Seconds()
}
