package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"linerate/internal/app/target"
	"linerate/internal/app/watch"
	"linerate/internal/control/session"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
	"linerate/internal/store"
	"linerate/internal/ui/config"
)

// Exit codes by name, from fault.Kind.
var (
	exitOK          = 0
	exitFailed      = fault.Failed.ExitCode()
	exitUsage       = fault.Usage.ExitCode()
	exitUnreachable = fault.Unreachable.ExitCode()
	exitUnsupported = fault.Unsupported.ExitCode()
	exitUntrusted   = fault.Untrusted.ExitCode()
	exitStore       = fault.Store.ExitCode()
	exitNotUndone   = fault.NotUndone.ExitCode()
	exitInterrupted = fault.Interrupted.ExitCode()
)

// world is an environment without a terminal, with the test's own variables.
type world struct {
	Env
	out, err bytes.Buffer
	vars     map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{vars: map[string]string{"LINERATE_DB": filepath.Join(t.TempDir(), "results.db"), "LINERATE_WAIT": "0s"}}
	w.Env = Env{
		Version: "test", Self: []string{"linerate"}, In: strings.NewReader(""), Out: &w.out, Err: &w.err,
		Getenv: func(key string) string { return w.vars[key] }, Now: time.Now, Width: func() int { return 80 },
	}
	return w
}

func (w *world) main(t *testing.T, args ...string) int {
	t.Helper()
	w.out.Reset()
	w.err.Reset()
	return Main(t.Context(), w.Env, args)
}

// TestFirstHour12Prune: prune removes what the flags say, and running sessions only if they say
// so too; the list shows how each session ended.
func TestFirstHour12Prune(t *testing.T) {
	w := newWorld(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	w.Now = func() time.Time { return now }
	st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
	for i, s := range []model.SessionState{model.SessionRunning, model.SessionDone, model.SessionFailed, model.SessionDone} {
		one := model.Session{
			ID: fmt.Sprintf("s%d", i), Kind: model.KindTest, Near: "this machine", Far: "nas", State: s, Reason: "because",
			Created: now.Add(-time.Duration(i+1) * 24 * time.Hour),
			Runs:    []model.Run{{Number: 1, State: model.RunValid, Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9e8}}}},
		}
		if i == 1 {
			one.Findings = []model.Finding{{Rule: "B07", Direction: model.To, Limit: "receive window"}}
		}
		must.Do(t, st.CreateSession(t.Context(), one))
	}
	defer func() { _ = st.Close() }() // until then the first one is running
	for _, c := range []struct {
		args []string
		code int
		says []string
		left string
	}{
		{[]string{"list"}, 0, []string{"s0  24 h  test  running  ", "s3  4 d   test  done            900 Mbit/s", "nas: because"}, "s0 s1 s2 s3"},
		{[]string{"list", "--finding", "window", "--limit", "1"}, 0, []string{"s1 "}, "s0 s1 s2 s3"},
		{[]string{"list", "--finding", "b07", "--state", "failed"}, 0, []string{"no such sessions"}, "s0 s1 s2 s3"},
		{[]string{"prune", "--older-than", "1d", "--dry-run"}, 0, []string{"s1 ", "3 sessions would be removed"}, "s0 s1 s2 s3"},
		{[]string{"prune", "--older-than", "1d"}, 2, []string{"no terminal to ask on"}, "s0 s1 s2 s3"},
		{[]string{"prune", "--keep", "3", "--yes"}, 0, []string{"removed 1 session from "}, "s0 s1 s2"},
		{[]string{"prune", "--state", "failed", "--yes"}, 0, []string{"s2 "}, "s0 s1"},
		{[]string{"prune", "--older-than", "2026-11-21", "--yes"}, 0, []string{"s1 "}, "s0"},
		{[]string{"prune", "--kind", "test", "--yes"}, 0, []string{"nothing to remove"}, "s0"},
		{[]string{"rm", "s0", "--yes"}, 2, []string{"session s0 is running", "with --force"}, "s0"},
		{[]string{"rm", "last", "s0", "--yes", "--force"}, 0, []string{"removed 1 session"}, ""},
	} {
		code := w.main(t, c.args...)
		must.True(t, code == c.code, "%q: exit code %d\n%s", c.args, code, w.err.String())
		for _, want := range c.says {
			must.True(t, strings.Contains(w.out.String()+w.err.String(), want), "%q does not say %q:\n%s%s", c.args, want, w.out.String(), w.err.String())
		}
		w.main(t, "list", "--json")
		var doc struct{ Sessions []struct{ ID string } }
		must.Do(t, json.Unmarshal(w.out.Bytes(), &doc))
		left := []string{}
		for _, s := range doc.Sessions {
			left = append(left, s.ID)
		}
		must.Equal(t, strings.Join(left, " "), c.left, "%q leaves", c.args)
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("anything"), exitFailed},
		{fault.Usagef("wrong"), exitUsage},
		{config.Errors{{Message: "wrong"}}, exitUsage},
		{session.ErrRefused, exitUnreachable},
		{session.ErrLost, exitUnreachable},
		{session.ErrBusy, exitUnreachable},
		{session.ErrVersion, exitUnreachable},
		{errors.ErrUnsupported, exitUnsupported},
		{fs.ErrPermission, exitUnsupported},
		{store.ErrNotFound, exitStore},
		{store.ErrFull, exitStore},
		{store.ErrNewer, exitStore},
		{store.ErrForeign, exitStore},
		{context.Canceled, exitInterrupted},
		{fault.WithKind(fault.NotUndone, context.Canceled), exitNotUndone},
	} {
		must.Equal(t, exitCode(c.err), c.want, "%v", c.err)
		if c.err == nil {
			continue
		}
		must.Equal(t, exitCode(fmt.Errorf("wrapped: %w", c.err)), c.want, "%v, wrapped", c.err)
		hinted := fault.WithHint(c.err, "do %s", "this")
		must.True(t, exitCode(hinted) == c.want && fault.HintOf(hinted) == "do this" && (errors.Is(hinted, c.err) || c.want == exitUsage), "%v with a hint: %d, %q", c.err, exitCode(hinted), fault.HintOf(hinted))
	}
	must.True(t, fault.WithHint(nil, "x") == nil && fault.WithKind(fault.Failed, nil) == nil, "an error out of nothing")
	for _, code := range []int{exitOK, exitFailed, exitUsage, exitUnreachable, exitUnsupported, exitUntrusted, exitStore, exitNotUndone, exitInterrupted} {
		must.True(t, strings.Contains(exitText, fmt.Sprintf("\n  %-3d  ", code)) || strings.HasPrefix(exitText, fmt.Sprintf("  %-3d  ", code)),
			"the help does not name exit code %d", code)
	}
}

func TestSessionRef(t *testing.T) {
	for in, want := range map[string]string{
		"last": "last", "last~0": "-1", "last~1": "-2", "last~12": "-13", "20261121T0132": "20261121T0132",
		"last~": "last~", "last~x": "last~x", "last~-1": "last~-1", "-2": "-2",
	} {
		must.Equal(t, sessionRef(in), want, "sessionRef(%q)", in)
	}
}

// TestOneDocument: stdout has exactly one document, even if a command prints its own and then
// fails.
func TestOneDocument(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args   []string
		code   int
		schema string
	}{
		{[]string{"list", "--json"}, exitOK, "linerate/list/v1"},
		{[]string{"show", "last", "--json"}, exitStore, "linerate/error/v1"},
		{[]string{"show", "--no-such", "--json"}, exitUsage, "linerate/error/v1"},
		{[]string{"--json=true", "nothing"}, exitUsage, "linerate/error/v1"},
		{[]string{"list", "--json=full"}, exitOK, "linerate/list/v1"},
		{[]string{"list", "--json=brief"}, exitOK, "linerate/list/v1"},
		{[]string{"nothing", "--json=full"}, exitUsage, "linerate/error/v1"},
	} {
		code := w.main(t, c.args...)
		must.True(t, code == c.code, "%q: exit code %d, want %d: %s", c.args, code, c.code, w.err.String())
		var doc struct {
			Schema   string `json:"schema"`
			ExitCode int    `json:"exit_code"`
		}
		err := json.Unmarshal(w.out.Bytes(), &doc)
		must.True(t, err == nil && doc.Schema == c.schema && doc.ExitCode == c.code, "%q: %v, %+v in %s", c.args, err, doc, w.out.String())
	}
	if code := w.main(t, "list", "--json=some"); code != exitUsage || w.out.Len() > 0 || !strings.Contains(w.err.String(), "want brief or full") {
		t.Errorf("--json=some: exit code %d, %s%s", code, w.out.String(), w.err.String())
	}
	code := w.main(t, "lab", "nothing", "--", "echo", "--json")
	must.True(t, code == exitUsage && w.out.Len() == 0, "--json of another program: exit code %d, %s", code, w.out.String())

	a := &console{Env: w.Env, json: true}
	w.out.Reset()
	if err := a.printUndone([]model.Change{{Knob: "tcp.sack", State: model.ChangeFailed}}); exitCode(err) != exitNotUndone {
		t.Fatalf("a change that is not undone: %v", err)
	} else {
		a.printError(err)
	}
	err := json.Unmarshal(w.out.Bytes(), new(map[string]any))
	must.True(t, err == nil, "undo and its error: %v in %s", err, w.out.String())
}

// TestEveryLineSaysWho: the program's name comes before each error, and the hint below them.
func TestEveryLineSaysWho(t *testing.T) {
	w := newWorld(t)
	a := &console{Env: w.Env}
	a.printError(fault.WithHint(errors.Join(errors.New("one"), errors.New("two")), "first\nsecond"))
	must.Equal(t, w.err.String(), "linerate: one\nlinerate: two\n  first\n  second\n")
}

func TestColor(t *testing.T) {
	for _, c := range []struct {
		terminal      bool
		noColor, term string
		want          bool
	}{
		{true, "", "xterm", true}, {false, "", "xterm", false}, {true, "1", "xterm", false}, {true, "", "dumb", false}, {true, "", "", true},
	} {
		w := newWorld(t)
		w.OutTerminal, w.vars["NO_COLOR"], w.vars["TERM"] = c.terminal, c.noColor, c.term
		must.Equal(t, (&console{Env: w.Env}).color(), c.want, "%+v", c)
	}
}

func TestStorePath(t *testing.T) {
	w := newWorld(t)
	home := t.TempDir()
	w.vars = map[string]string{"HOME": home, "LocalAppData": home, "XDG_DATA_HOME": filepath.Join(home, "data"), "LINERATE_DB": "named.db"}
	a := &console{Env: w.Env, db: "flag.db"}
	must.Equal(t, a.storePath(), "flag.db", "with --db")
	a.db = ""
	must.Equal(t, a.storePath(), "named.db", "with LINERATE_DB")
	delete(w.vars, "LINERATE_DB")
	got := a.storePath()
	must.True(t, strings.HasPrefix(got, home) && filepath.Base(got) == "linerate.db", "by default: %s", got)
	if runtime.GOOS == "linux" {
		got, want := a.storePath(), filepath.Join(home, "data", "linerate", "linerate.db")
		must.True(t, got == want, "with XDG_DATA_HOME: %s, want %s", got, want)
		delete(w.vars, "XDG_DATA_HOME")
		got, want = a.storePath(), filepath.Join(home, ".local", "share", "linerate", "linerate.db")
		must.True(t, got == want, "by default: %s, want %s", got, want)
	}
}

// TestWatchSaysWhoIsAway: one line in plain words.
func TestWatchSaysWhoIsAway(t *testing.T) {
	w := newWorld(t)
	err := fault.WithHint(errors.New("dial udp 10.0.0.2:5299: connect: network is unreachable"), "one hint\nanother one")
	(&console{Env: w.Env}).tellLook(t.Context(), "", watch.Outcome{Host: target.Target{Text: "nas"}, Path: &series.Path{Missed: 2}, Away: true, Err: err})
	must.Equal(t, w.out.String(), "nas could not be reached at 2 looks in a row: connect to 10.0.0.2:5299: network is unreachable; one hint another one\n")
}
