package config

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestCommandFactor reads a command of flags and of a plan file; alone it is compared
// with the hosts as they are, beside others both of its levels are in the grid.
func TestCommandFactor(t *testing.T) {
	f, err := ParseFactor("far.cmd:shaper=tc qdisc add dev eth0 root tbf rate 20mbit,x=1", knobs{})
	want := model.Command{Run: "tc qdisc add dev eth0 root tbf rate 20mbit,x=1", Limit: DefaultCommandTime}
	must.Need(t, err == nil && f.Command == want && f.String() == "far.cmd:shaper" && len(f.Levels) == 2, "%+v, %v", f, err)
	file := File{Factors: []Factor{f}}
	must.Say(t, file.Validate(), "no command that takes it back; add --undo shaper=", "without its undo")
	if err := Undo(file.Factors, "shaper=tc qdisc del dev eth0 root"); err != nil || file.Factors[0].Command.Undo != "tc qdisc del dev eth0 root" {
		t.Fatalf("%+v, %v", file.Factors, err)
	}
	settings, baseline := file.Settings()
	must.True(t, baseline == Current && len(settings) == 2 && settings[1].Name == "shaper" && settings[1].Assignments[0].Value == model.On && settings[1].Assignments[0].Command.Undo != "", "%q of %+v", baseline, settings)
	other, _ := ParseFactor("cmd:vpn=up", knobs{})
	file.Factors = append(file.Factors, other)
	must.Do(t, Undo(file.Factors, "cmd:vpn=down"))
	settings, baseline = file.Settings() // all off is the baseline: nothing is changed
	if baseline != "shaper=off vpn=off" || len(settings) != 4 || len(settings[3].Assignments) != 3 || file.Validate() != nil {
		t.Errorf("%q of %+v, %v", baseline, settings, file.Validate())
	}
	file, err = Parse("plan.yaml", []byte("far: nas\nfactors:\n- {knob: far.cmd:shaper, run: 'up, 1', undo: down, limit: 7s}\n- {knob: window, levels: [64KiB, 1MiB]}\n"), knobs{}, kinds())
	must.True(t, err == nil && file.Factors[0].Command == (model.Command{Run: "up, 1", Undo: "down", Limit: 7 * time.Second}),
		"%+v, %v", file.Factors, err)
	if settings, baseline = file.Settings(); baseline != Current || len(settings) != 5 {
		t.Errorf("%q of %+v", baseline, settings)
	}
}

// TestCommandMistakes are told with what would be right.
func TestCommandMistakes(t *testing.T) {
	for in, want := range map[string]string{
		"left.cmd:x=true":         `unknown host "left"`,
		"cmd:=true":               `"" is no name for a command`,
		"cmd:a b=true":            `"a b" is no name for a command`,
		"cmd:x= ":                 `there is no command; give the command as one line`,
		"cmd:x=true\nfalse":       `characters that are not shown`,
		"cmd:x=\u202etrue":        `characters that are not shown`,
		"cmd:x=" + long("y"):      `more than 4096 bytes`,
		"cmd:" + long("z") + "=1": `is no name for a command`,
	} {
		if _, err := ParseFactor(in, knobs{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", in[:min(len(in), 40)], err, want)
		}
	}
	f, _ := ParseFactor("far.cmd:x=true", knobs{})
	for in, want := range map[string]string{"x": "has no command", "y=true": "there is no command", "near.cmd:x=true": "there is no command", "x=": "there is no undo command"} {
		must.Say(t, Undo([]Factor{f}, in), want, "--undo %q", in)
	}
	for in, want := range map[string]string{
		"{knob: cmd:x, run: a}":                          "no command that takes it back",
		"{knob: cmd:x, undo: a}":                         "there is no command",
		"{knob: cmd:x, run: a, undo: b, levels: [on]}":   "has no other levels",
		"{knob: cmd:x, run: a, undo: b, limit: 1h}":      "too long for a command",
		"{knob: far.cmd:x, host: near, run: a, undo: b}": "contradicts",
		"{knob: window, levels: [1K, 2K], run: a}":       "run, undo and limit are of commands",
	} {
		must.Say(t, must.Err(Parse("p", []byte("factors:\n- "+in+"\n"), knobs{}, kinds())), want, "%s", in)
	}
}

func long(s string) string { return strings.Repeat(s, 5000) }
