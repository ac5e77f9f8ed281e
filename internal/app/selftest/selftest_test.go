package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/inspect"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// world returns this machine with a user, and a journal of its own.
func world(t *testing.T, p *apptest.Person) (app.Env, Request) {
	t.Helper()
	env := apptest.Env(p)
	env.Catalogue = knob.NewIndex()
	return env, Request{State: filepath.Join(t.TempDir(), "state"), Results: func(context.Context) (string, error) { return "memory", nil }}
}

// states returns the states of the lines of a part, by name.
func states(r Report, part string) map[string]State {
	all := map[string]State{}
	for _, l := range r.Lines {
		if l.Part == part {
			all[l.Name] = l.State
		}
	}
	return all
}

// TestThisMachine: every engine measures over loopback, every setting has a line, counters
// move, and results that cannot be stored are reported as wrong.
func TestThisMachine(t *testing.T) {
	var p apptest.Person
	env, q := world(t, &p)
	q.Results = func(context.Context) (string, error) { return "", errors.New("the disk is full") }
	r, err := Run(t.Context(), env, q)
	must.Equal(t, fault.KindOf(err), fault.Found, "%v", err)
	text, _ := json.MarshalIndent(r.Lines, "", " ")
	for _, f := range flows() {
		s := states(r, "loopback")[f.Engine]
		must.True(t, s == OK, "%s is %q\n%s", f.Engine, s, text)
	}
	kinds := env.Kinds()
	must.True(t, len(flows()) == len(env.Engines.Kinds()), "%d flows for the engines among %d kinds", len(flows()), len(kinds))
	wanted := lists.Count(knob.Catalogue(), func(k knob.Knob) bool {
		_, here := k.Native[strings.Split(r.System, "/")[0]]
		return here && k.Scope != knob.ScopeFlow
	})
	got := len(states(r, "settings"))
	must.True(t, got == wanted && wanted >= 10, "%d settings of %d", got, wanted)
	s := states(r, "counters")
	must.True(t, s["all"] == OK, "counters: %v", s)
	s = states(r, "records")
	must.True(t, s["results"] == Wrong && s["journal"] == OK, "records: %v", s)
	_, changed := states(r, "changes")["all"]
	must.True(t, !changed && len(p.Asked()) == 0, "settings were asked for")
	left, _ := os.ReadDir(q.State)
	must.True(t, len(left) == 0, "left behind: %v", left)
	host, _ := os.Hostname()
	must.True(t, len(host) <= 1 || host == "localhost" || !strings.Contains(string(text), `"`+host), "the name of this machine is in it:\n%s", text)
}

// TestPanics: a panic is reported as wrong in one line, and the following tests still run.
func TestPanics(t *testing.T) {
	q := Request{State: filepath.Join(t.TempDir(), "state"), Results: func(context.Context) (string, error) { panic("no memory") }}
	one := &trial{Request: q}
	one.safely("records", func() { one.records(t.Context()) })
	one.safely("a thing", func() { panic("nothing there") })
	lines := one.report.Lines
	must.True(t, len(lines) == 3 && lines[0].State == Wrong && strings.Contains(lines[0].Text, "no memory") && lines[1].State == OK &&
		lines[2].Part == "faults" && strings.HasPrefix(lines[2].Text, "a bug in linerate: nothing there | goroutine ") &&
		!strings.Contains(lines[2].Text, "\n"), "%+v", lines)
}

// TestAsks: nothing is changed unless the user agrees, and without a user nothing is done at
// all.
func TestAsks(t *testing.T) {
	var alone apptest.Person
	env, q := world(t, &alone)
	q.Settings = true
	r, err := Run(t.Context(), env, q)
	must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(fault.HintOf(err), "--yes") && len(r.Lines) == 0, "%v, %d lines", err, len(r.Lines))
	p := apptest.Person{Answer: func(_ context.Context, q app.Question) (app.Answer, error) {
		must.Equal(t, q.Kind, app.TrySettings, "asked %+v", q)
		return app.Answer{}, nil
	}}
	env, q = world(t, &p)
	q.Settings = true
	r, err = Run(t.Context(), env, q)
	must.Need(t, err == nil || fault.KindOf(err) == fault.Found, "%v", err)
	s := states(r, "changes")
	must.True(t, len(s) == 1 && s["all"] == Unseen && len(p.Asked()) == 1, "%v, asked %v", s, p.Asked())
}

// TestAnother: only harmless, readable and writable settings get another value, within their
// own range.
func TestAnother(t *testing.T) {
	index := knob.NewIndex()
	for _, c := range []struct {
		id         model.KnobID
		now, other string
	}{
		{"tcp.recv_buffer_max", "6291456", "12582912"},
		{"tcp.listen_queue", "4096", "8192"},
		{"tcp.mtu_probing", "0", "1"},
		{"tcp.mtu_probing", "1", "0"},
		{"tcp.sack", "1", ""},    // may lower throughput
		{"link.mtu", "1500", ""}, // may cut the connection
		{"tcp.recv_buffer_max", "", ""},
	} {
		k, ok := index.ByID(c.id)
		must.Need(t, ok, "%v", c.id)
		s := inspect.Setting{Knob: c.id, Of: k, Scope: k.Scope, Value: fact.Known(c.now, "test")}
		if c.now == "" {
			s.Value = fact.Unknown[string]("not there")
		}
		got, ok := another(s, "linux")
		must.True(t, got == c.other && ok == (c.other != ""), "%s=%s: %q, %v", c.id, c.now, got, ok)
	}
	for _, system := range knob.Systems() {
		for _, k := range knob.Catalogue() {
			s := inspect.Setting{Knob: k.ID, Of: k, Scope: k.Scope, Value: fact.Known("1", "test")}
			if other, ok := another(s, system); ok {
				_, err := k.Parse(other)
				must.True(t, err == nil && k.Risk <= knob.RiskWaste && !k.ReadOnly && other != "1", "%s on %s: %q, %v", k.ID, system, other, err)
			}
		}
	}
}

// TestHides: addresses of every form, hardware addresses and names are hidden; what does not
// identify the owner stays.
func TestHides(t *testing.T) {
	env := func(name string) string { return map[string]string{"USER": "eve", "HOSTNAME": "desk"}[name] }
	for in, want := range map[string]string{
		"mac 52:54:00:AB:cd:ef, 52-54-00-ab-cd-ef":                    "mac (MAC), (MAC)",
		"from 192.0.2.7:5299 to 2001:db8::1 and [fe80::1%eth0]:22":    "from (address) to (address) and [(address)%eth0]:22",
		"::1 and 127.0.0.1:80 and 0.0.0.0":                            "::1 and 127.0.0.1:80 and 0.0.0.0",
		"kernel 6.1.0-18-amd64, 12:30:59, net.ipv4.tcp_rmem, 1.5 MiB": "kernel 6.1.0-18-amd64, 12:30:59, net.ipv4.tcp_rmem, 1.5 MiB",
		"/home/eve/.local of Desk.example.org; steve":                 "/home/(name)/.local of (name); steve",
		"desktop": "desktop",
	} {
		r := Report{Lines: []Line{{Text: in}}}
		if r.hide(model.HostFacts{Name: "desk.example.org"}, env); r.Lines[0].Text != want {
			t.Errorf("%q\n got %q\nwant %q", in, r.Lines[0].Text, want)
		}
	}
}
