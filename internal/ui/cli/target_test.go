package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/core/model"
)

const (
	pin  = "uP2W8hvl0QyUPsbPpt7JYhtjzyVTAmKDCJOIOCmeqzk"
	link = "linerate://nas:5299/?pin=" + pin + "&secret=c2VjcmV0IG9mIHRoZSB0ZXN0IGFuZCBub3RoaW5nIGVsc2U"
)

func TestParseTarget(t *testing.T) {
	got, err := parseTarget(link)
	if err != nil || got.kind != targetServe || got.link.Addr != "nas:5299" || got.link.Pin != pin || got.link.Secret == "" {
		t.Errorf("link: %+v, %v", got, err)
	}
	if strings.Contains(got.String(), "secret") || !strings.Contains(got.String(), pin) {
		t.Errorf("what is kept of a link: %s", got)
	}
	got, err = parseTarget("exec:10.0.0.2 ip netns exec b linerate agent")
	if err != nil || got.kind != targetExec || got.addr != "10.0.0.2" || !slices.Equal(got.argv, strings.Fields("ip netns exec b linerate agent")) {
		t.Errorf("exec: %+v, %v", got, err)
	}
	got, err = parseTarget("lab:rate=1gbit,b.tcp.sack=off")
	if err != nil || got.kind != targetLab || got.lab.AB.Rate != 1e9 || len(got.lab.Knobs) != 1 {
		t.Errorf("lab: %+v, %v", got, err)
	}
	for in, want := range map[string]ssh.Target{
		"someone@nas": {User: "someone", Host: "nas"}, "ssh://nas": {Host: "nas"}, "ssh://root@[fe80::1]:2222": {User: "root", Host: "fe80::1", Port: 2222},
	} {
		if got, err := parseTarget(in); err != nil || got.kind != targetSSH || got.ssh != want || got.text != in {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "nas", "nas:5299", "10.0.0.2", "[fe80::1]:1", "a b", "someone@nas:22", "ssh://", "ssh://someone:secret@nas", "x@-oProxyCommand=id", "exec:", "exec:10.0.0.2",
		"lab:rate=fast",
	} {
		if got, err := parseTarget(in); exitCode(err) != exitUsage {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

// TestParseLinkAt reads links from a file and the environment, warns of a file that
// others may read, and never shows what it holds instead of a link.
func TestParseLinkAt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nas.link")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	write(link+"\n", 0o600)
	got, err := parseTarget("@" + file)
	if err != nil || got.kind != targetServe || got.link.Secret == "" || got.warning != "" || strings.Contains(got.text, "secret") {
		t.Errorf("%+v, %v", got, err)
	}
	if runtime.GOOS != "windows" {
		write(link, 0o640)
		if got, err := parseTarget("@" + file); err != nil || !strings.Contains(got.warning, "others may read it") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	t.Setenv(linkVariable, " "+link+" ")
	if got, err := parseTarget("@"); err != nil || got.link.Addr != "nas:5299" {
		t.Errorf("%+v, %v", got, err)
	}
	t.Setenv(linkVariable, "")
	write("hunter2 "+link, 0o600)
	for _, in := range []string{"@", "@" + file, "@" + file + ".none", "@" + filepath.Dir(file)} {
		if got, err := parseTarget(in); exitCode(err) != exitUsage || hintOf(err) == "" && in != "@"+file && in != "@"+filepath.Dir(file) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
}

func TestParsePair(t *testing.T) {
	near, far, err := parsePair("", "lab:lan")
	if err != nil || near.kind != targetHere || far.kind != targetLab {
		t.Errorf("%+v %+v %v", near, far, err)
	}
	if near, _, err = parsePair("exec:10.0.0.1 ssh a linerate agent", link); err != nil || near.kind != targetExec {
		t.Errorf("%+v %v", near, err)
	}
	for _, pair := range [][2]string{{"lab:lan", link}, {link, "lab:lan"}, {"nas", link}, {"", "nas"}} {
		if _, _, err := parsePair(pair[0], pair[1]); exitCode(err) != exitUsage {
			t.Errorf("%q: %v", pair, err)
		}
	}
}

// TestRedact demands that no secret is stored or shown.
func TestRedact(t *testing.T) {
	got := redactAll([]string{"linerate", "test", link, "--title", "x", "linerate://%zz"})
	if text := strings.Join(got, " "); strings.Contains(text, "c2VjcmV0") || !strings.Contains(text, "pin="+pin) || strings.Contains(text, "%zz") {
		t.Errorf("%q", got)
	}
	if got[0] != "linerate" || got[4] != "x" {
		t.Errorf("%q", got)
	}
}

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
	if len(rows) != 2 {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	if r := rows[0]; r.Setting != "current" || *r.A != (summary{3, 200, 200, 100, 300}) || r.B.N != 1 || r.Ratio == nil || *r.Ratio != 2 {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.Setting != "64KiB" || r.A != nil || r.B == nil || r.Ratio != nil {
		t.Errorf("%+v", r)
	}
	if route(a) != "lab:lan" || route(b) != "this machine -> lab:lan" {
		t.Errorf("%s, %s", route(a), route(b))
	}
}

// TestResumedPair demands that every kind of stored session finds its ends
// again; a lab is stored as both.
func TestResumedPair(t *testing.T) {
	exec := "exec:10.0.0.2 linerate agent"
	for name, c := range map[string]struct {
		f         runFlags
		s         model.Session
		args      []string
		near, far targetKind
	}{
		"lab":       {s: model.Session{Near: "lab:lan", Far: "lab:lan"}, near: targetHere, far: targetLab},
		"exec":      {f: runFlags{allowExec: true}, s: model.Session{Near: app.ThisMachine, Far: exec}, near: targetHere, far: targetExec},
		"both exec": {f: runFlags{allowExec: true}, s: model.Session{Near: exec, Far: "exec:10.0.0.3 linerate agent"}, near: targetExec, far: targetExec},
		"link":      {s: model.Session{Near: app.ThisMachine, Far: "linerate://nas:5299/?pin=" + pin}, args: []string{link}, near: targetHere, far: targetServe},
		"own exec":  {f: runFlags{from: exec}, s: model.Session{Near: exec, Far: exec}, args: []string{exec}, near: targetExec, far: targetExec},
		"new ends":  {f: runFlags{far: link, from: exec}, s: model.Session{Near: "lab:lan", Far: "lab:lan"}, near: targetExec, far: targetServe},
		"new lab":   {f: runFlags{far: "lab:wan"}, s: model.Session{Near: "lab:lan", Far: "lab:lan"}, near: targetHere, far: targetLab},
	} {
		near, far, err := c.f.resumedPair(c.s, c.args)
		if err != nil || near.kind != c.near || far.kind != c.far {
			t.Errorf("%s: %+v, %+v, %v", name, near, far, err)
		}
		if name == "link" && far.link.Secret == "" || name == "new lab" && far.text != "lab:wan" {
			t.Errorf("%s: the stored end won over the one given: %+v", name, far)
		}
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
		if err := os.WriteFile(plan, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		code := Main(t.Context(), Env{Version: "v", Self: []string{"linerate"}, Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now},
			append([]string{"run", plan, "--db", ":memory:"}, c.args...))
		if code != exitUsage || !strings.Contains(errs.String(), "wants to run a command on this machine") || !strings.Contains(errs.String(), "--allow-exec") {
			t.Errorf("%s: exit code %d\n%s", name, code, errs.String())
		}
		if _, err := os.Stat(touched); err == nil {
			t.Fatalf("%s: the command of the plan ran", name)
		}
	}
	s := model.Session{ID: "1", Near: "this machine", Far: evil}
	if _, _, err := (&runFlags{}).resumedPair(s, nil); exitCode(err) != exitUsage || !strings.Contains(hintOf(err), "--far '"+evil+"'") {
		t.Errorf("a stored session: %v, hint %q", err, hintOf(err))
	}
}
