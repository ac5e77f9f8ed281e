// Package selftest has linerate test itself on this machine: what it reads from it, what it
// measures over loopback, whether it can store its records, and, on request, whether a
// setting can be changed and restored. The report is for the developers of linerate, who have
// no such machine.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/inspect"
	"linerate/internal/app/local"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/panics"
)

// State is the result of one test.
type State string

// The states.
const (
	OK     State = "ok"
	Unseen State = "unseen" // not on this machine, or not with these rights: not a fault
	Wrong  State = "wrong"
)

// Line is one test.
type Line struct {
	Part  string  `json:"part"` // facts, counters, settings, loopback, records, changes, faults
	Name  string  `json:"name"`
	State State   `json:"state"`
	Text  string  `json:"text"`              // the value or result, or why there is none
	Took  float64 `json:"seconds,omitempty"` // duration of a measurement or change
}

// Report is the result of all tests.
type Report struct {
	Version string    `json:"version"` // linerate's
	System  string    `json:"system"`  // linux/amd64
	Began   time.Time `json:"began"`
	Full    bool      `json:"full"` // names and addresses are in it
	Lines   []Line    `json:"lines"`
}

// Request says what to do besides reading and measuring.
type Request struct {
	Settings bool   // change harmless settings, one by one, and undo each
	Yes      bool   // do not ask the user before that
	Full     bool   // leave names and addresses in the report
	State    string // directory of the journal; "" is the system's
	// Results tests where results are stored, and returns the place.
	Results func(ctx context.Context) (where string, err error)
	// Only limits Settings to these; nil means all harmless ones.
	Only []model.KnobID
}

// Count returns the number of lines in a state.
func (r Report) Count(s State) (n int) {
	for _, l := range r.Lines {
		if l.State == s {
			n++
		}
	}
	return n
}

// CountOf returns the number of lines of a part in each state.
func (r Report) CountOf(part string) map[State]int {
	counts := map[State]int{}
	for _, l := range r.Lines {
		if l.Part == part {
			counts[l.State]++
		}
	}
	return counts
}

// trial is a self-test in progress.
type trial struct {
	app.Env
	Request
	machine *local.Machine
	host    inspect.Host
	report  Report
	notBack []string // settings that were not restored
}

// Run runs all tests. Its error is of kind fault.Found if something is wrong, and of kind
// fault.NotUndone if a setting was not restored; in both cases the report is complete. After
// any other error it is not.
func Run(ctx context.Context, env app.Env, q Request) (Report, error) {
	t := &trial{Env: env, Request: q, machine: local.New(env, local.Options{State: q.State})}
	defer func() { _ = t.machine.Close() }()
	t.report = Report{Version: env.Version, System: runtime.GOOS + "/" + runtime.GOARCH, Began: env.Now(), Full: q.Full}
	if q.Settings && !q.Yes {
		switch answer, err := env.Ask(ctx, app.Question{Kind: app.TrySettings, Host: app.ThisMachine}); {
		case errors.Is(err, app.ErrNoTerminal):
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

// safely records a panic as a fault: the report is there to show what linerate does on an
// untested system.
func (t *trial) safely(at string, do func()) {
	panics.From(func(err error) { t.add("faults", at, Wrong, "%v", err) }, do)()
}

// add adds a line; it joins the first lines of a longer text, such as a panic.
func (t *trial) add(part, name string, s State, format string, args ...any) {
	lines := strings.FieldsFunc(fmt.Sprintf(format, args...), func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	text := strings.Join(lines[:min(len(lines), mostLines)], " | ")
	t.report.Lines = append(t.report.Lines, Line{Part: part, Name: name, State: s, Text: text})
}

// mostLines is how many lines to keep of a long text: the value of a panic, and its place.
const mostLines = 16

// timed is add for a test that started at began.
func (t *trial) timed(began time.Time, part, name string, s State, format string, args ...any) {
	t.add(part, name, s, format, args...)
	t.report.Lines[len(t.report.Lines)-1].Took = time.Since(began).Seconds()
}
