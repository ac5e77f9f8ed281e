package config

import (
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

const grouped = `far: nas
factors:
  - {knob: link.mtu, levels: [1500, 9000], group: true}
  - {knob: window, levels: [64KiB, 1MiB]}
`

// A factor of a file that is a group is what the plan holds, and the baseline one of the
// combinations.
func TestGroupOfAPlanFile(t *testing.T) {
	f := must.Get(Parse("plan.yaml", []byte(grouped), knobs{}, kinds()))(t)
	o := f.Options()
	if o.Held != "link.mtu" || o.Baseline != "mtu=1500 window=64KiB" || len(o.Settings) != 4 {
		t.Errorf("holds %q, baseline %q, %d settings", o.Held, o.Baseline, len(o.Settings))
	}
	o.Flow, o.Blocks = model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 1e9}, 20
	p, err := plan.New(o)
	must.True(t, err == nil && len(plan.Groups(p, 5)) == 2, "%v", err)
	if f, err = Parse("plan.yaml", []byte(strings.Replace(grouped, ", group: true", "", 1)), knobs{}, kinds()); err != nil || f.Options().Held != "" || f.Options().Baseline != Current {
		t.Errorf("without a group: %+v, %v", f.Options(), err)
	}
	if err := f.Hold("link.mtu"); err != nil || f.Options().Held != "link.mtu" {
		t.Errorf("--group: %q, %v", f.Options().Held, err)
	}
	must.Say(t, f.Hold("link.mtv"), "did you mean link.mtu?")
}

func TestGroupsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"of the flow":  {"[64KiB, 1MiB]}", "[64KiB, 1MiB], group: true}", "one factor at most"},
		"flow alone":   {", group: true}\n  - {knob: window, levels: [64KiB, 1MiB]}", "}\n  - {knob: window, levels: [64KiB, 1MiB], group: true}", "window is of the flow"},
		"nothing else": {"\n  - {knob: window, levels: [64KiB, 1MiB]}", "", "link.mtu is the only factor"},
		"neither":      {"group: true", "group: 3", "neither true nor false"},
	} {
		must.Say(t, must.Err(Parse("plan.yaml", []byte(strings.Replace(grouped, c.from, c.to, 1)), knobs{}, kinds())), c.want, "%s", name)
	}
}
