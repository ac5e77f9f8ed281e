package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/reach"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
)

const (
	pin  = "uP2W8hvl0QyUPsbPpt7JYhtjzyVTAmKDCJOIOCmeqzk"
	link = "linerate://" + pin + ".c2VjcmV0IG9mIHRoZSB0ZXN0IGFuZCBub3RoaW5nIGVsc2U@nas:5299"
)

func TestCompareRows(t *testing.T) {
	session := func(near string, values map[string][]float64) model.Session {
		s := model.Session{Near: near, Far: "lab:lan", Plan: model.Plan{Twin: "current (twin)"}}
		for _, name := range []string{"current", "64KiB", "current (twin)"} {
			if len(values[name]) > 0 {
				s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: name})
			}
			for _, v := range values[name] {
				s.Runs = append(s.Runs, model.Run{Setting: name, State: model.RunValid,
					Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: v}}})
			}
		}
		return s
	}
	a := session("lab:lan", map[string][]float64{"current": {100, 300, 200}, "current (twin)": {5}})
	b := session("this machine", map[string][]float64{"current": {400}, "64KiB": {50}})
	b.Runs = append(b.Runs, model.Run{Setting: "current", State: model.RunInvalid,
		Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9000}}})
	rows := compareRows(a, b)
	must.Need(t, len(rows) == 2, "%d rows: %+v", len(rows), rows)
	if r := rows[0]; r.Setting != "current" || *r.A != (summary{3, 200, 200, 100, 300}) || r.B.N != 1 || r.Ratio == nil || *r.Ratio != 2 {
		t.Errorf("%+v", r)
	}
	r := rows[1]
	must.True(t, r.Setting == "64KiB" && r.A == nil && r.B != nil && r.Ratio == nil, "%+v", r)
	must.True(t, route(a) == "lab:lan" && route(b) == "this machine -> lab:lan", "%s, %s", route(a), route(b))
}

// TestResumedPair demands that every kind of stored session finds its ends
// again; a lab is stored as both.
func TestResumedPair(t *testing.T) {
	exec := "exec:10.0.0.2 linerate agent"
	for name, c := range map[string]struct {
		f         runFlags
		s         model.Session
		args      []string
		near, far reach.Kind
	}{
		"lab":       {s: model.Session{Near: "lab:lan", Far: "lab:lan"}, near: reach.Here, far: reach.Lab},
		"exec":      {f: runFlags{allowExec: true}, s: model.Session{Near: app.ThisMachine, Far: exec}, near: reach.Here, far: reach.Exec},
		"both exec": {f: runFlags{allowExec: true}, s: model.Session{Near: exec, Far: "exec:10.0.0.3 linerate agent"}, near: reach.Exec, far: reach.Exec},
		"link":      {s: model.Session{Near: app.ThisMachine, Far: "linerate://" + pin + "@nas:5299"}, args: []string{link}, near: reach.Here, far: reach.Serve},
		"own exec":  {f: runFlags{from: exec}, s: model.Session{Near: exec, Far: exec}, args: []string{exec}, near: reach.Exec, far: reach.Exec},
		"new ends":  {f: runFlags{far: link, from: exec}, s: model.Session{Near: "lab:lan", Far: "lab:lan"}, near: reach.Exec, far: reach.Serve},
		"new lab":   {f: runFlags{far: "lab:wan"}, s: model.Session{Near: "lab:lan", Far: "lab:lan"}, near: reach.Here, far: reach.Lab},
	} {
		near, far, err := c.f.resumedPair(c.s, c.args, app.Env{Getenv: os.Getenv})
		must.True(t, err == nil && near.Kind == c.near && far.Kind == c.far, "%s: %+v, %+v, %v", name, near, far, err)
		must.True(t, (name != "link" || far.Link.Secret != "") && (name != "new lab" || far.Text == "lab:wan"),
			"%s: the stored end won over the one given: %+v", name, far)
	}
}

// TestNoCommandOfAFileRunsUnasked: a plan file and a database may be somebody
// else's, and so are the commands in them.
func TestNoCommandOfAFileRunsUnasked(t *testing.T) {
	touched := filepath.Join(t.TempDir(), "touched")
	evil := "exec:127.0.0.1 touch " + touched
	for name, c := range map[string]struct {
		text string // of the plan
		args []string
	}{
		"far":                 {"far: '" + evil + "'\nfactors: [{knob: window, levels: [64KiB]}]\n", nil},
		"near":                {"near: '" + evil + "'\nfar: lab:lan\nfactors: [{knob: window, levels: [64KiB]}]\n", []string{"--far", "exec:127.0.0.1 true"}},
		"without quotes":      {"far: " + evil + "\nfactors: [{knob: window, levels: [64KiB]}]\n", nil},
		"folded":              {"far: >-\n  exec:127.0.0.1\n  touch " + touched + "\nfactors: [{knob: window, levels: [64KiB]}]\n", nil},
		"with a blank before": {"far: ' " + evil + "'\nfactors: [{knob: window, levels: [64KiB]}]\n", nil},
		"with another exec":   {"far: '" + evil + "'\nfactors: [{knob: window, levels: [64KiB]}]\n", []string{"--from", "exec:127.0.0.1 true"}},
	} {
		plan := filepath.Join(t.TempDir(), "plan.yaml")
		must.Do(t, os.WriteFile(plan, []byte(c.text), 0o600))
		var out, errs strings.Builder
		code := Main(t.Context(), Env{Version: "v", Self: []string{"linerate"}, Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now},
			append([]string{"run", plan, "--db", ":memory:"}, c.args...))
		must.True(t, code == exitUsage && strings.Contains(errs.String(), "wants to run a command on this machine") && strings.Contains(errs.String(), "--allow-exec"), "%s: exit code %d\n%s", name, code, errs.String())
		_, err := os.Stat(touched)
		must.Need(t, err != nil, "%s: the command of the plan ran", name)
	}
	s := model.Session{ID: "1", Near: "this machine", Far: evil}
	_, _, err := (&runFlags{}).resumedPair(s, nil, app.Env{Getenv: os.Getenv})
	must.True(t, exitCode(err) == exitUsage && strings.Contains(fault.HintOf(err), "--far '"+evil+"'"), "a stored session: %v, hint %q", err, fault.HintOf(err))
}
