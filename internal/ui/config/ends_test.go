package config

import (
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

// endsToo knows far ends besides: the pin of a link stays, its secret goes.
type endsToo struct{ knobs }

func (e endsToo) Known() []model.KnobID { return append(e.knobs.Known(), model.FarEnd) }

func (e endsToo) Check(id model.KnobID, value string) (string, error) {
	if id == model.FarEnd {
		return strings.Replace(value, ".secret@", "@", 1), nil
	}
	return e.knobs.Check(id, value)
}

// A lab keeps its commas, and a far end has a short name where no other has the same.
func TestFarEndsOfAFlag(t *testing.T) {
	f, err := ParseFactor("far=nas, lab:rate=1gbit,rtt=2ms,to.loss=1%,root@pi,linerate://PIN.secret@10.0.0.7:5299,exec:10.0.0.8 ssh x linerate agent,exec:10.0.0.9 a,exec:10.0.0.9 b", endsToo{})
	must.Do(t, err)
	var names, values []string
	for _, l := range f.Levels {
		names, values = append(names, l.Text), append(values, l.Value)
	}
	want := []string{"nas", "lab:rate=1gbit,rtt=2ms,to.loss=1%", "pi", "10.0.0.7", "10.0.0.8", "exec:10.0.0.9 a", "exec:10.0.0.9 b"}
	must.True(t, slices.Equal(names, want), "names %q, want %q", names, want)
	if values[3] != "linerate://PIN@10.0.0.7:5299" || f.Targets[values[3]] != "linerate://PIN.secret@10.0.0.7:5299" {
		t.Errorf("%q is opened with %q", values[3], f.Targets[values[3]])
	}
	must.Say(t, must.Err(ParseFactor("far=nas,nas", endsToo{})), "same value", "twice")
}

// Where far ends are a factor the first is the baseline, unless another host is named
// beside them; in a plan file as on the command line.
func TestFarEndsOfAPlanFile(t *testing.T) {
	const text = "factors:\n  - {knob: far, levels: [nas, pi]}\n"
	for name, c := range map[string]struct {
		text, baseline string
		settings       int
	}{
		"alone":      {text, "nas", 2},
		"beside one": {"far: rack\n" + text, Current, 3},
		"a grid":     {text + "  - {knob: window, levels: [64KiB, 1MiB]}\n", "nas window=64KiB", 4},
	} {
		f, err := Parse("plan.yaml", []byte(c.text), endsToo{}, kinds())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o := f.Complete()
		o.Flow = model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 1e9}
		p, err := plan.New(o)
		must.True(t, err == nil && o.Baseline == c.baseline && len(o.Settings) == c.settings && slices.Contains(p.FarEnds(), "pi"), "%s: baseline %q, %d settings, far ends %q, %v", name, o.Baseline, len(o.Settings), p.FarEnds(), err)
	}
	for name, c := range map[string][2]string{
		"of a host":  {"factors: [{knob: near.far, levels: [nas, pi]}]", "belongs to the flow"},
		"a setting":  {"settings: [{name: x, set: {far: nas}}, {name: y}]", "far ends are no setting"},
		"with also":  {"factors: [{knob: far, also: [window], levels: [1000, 2000]}]", "no setting moves with a far end"},
		"as a group": {text + "  - {knob: link.mtu, levels: [1500, 9000], group: true}\n", "take turns"},
	} {
		f, err := Parse("plan.yaml", []byte(c[0]), endsToo{}, kinds())
		if err == nil {
			o := f.Complete()
			o.Flow = model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 1e9}
			_, err = plan.New(o)
		}
		must.Say(t, err, c[1], "%s", name)
	}
}

const grouped = `far: nas
factors:
  - {knob: link.mtu, levels: [1500, 9000], group: true}
  - {knob: window, levels: [64KiB, 1MiB]}
`

// A factor of a file that is a group is what the plan holds, and the baseline one of the
// combinations.
func TestGroupOfAPlanFile(t *testing.T) {
	f := must.Get(Parse("plan.yaml", []byte(grouped), knobs{}, kinds()))(t)
	o := f.Complete()
	must.True(t, o.Held == "link.mtu" && o.Baseline == "mtu=1500 window=64KiB" && len(o.Settings) == 4,
		"holds %q, baseline %q, %d settings", o.Held, o.Baseline, len(o.Settings))
	o.Flow, o.MaxBlocks = model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 1e9}, 20
	p, err := plan.New(o)
	must.True(t, err == nil && len(plan.Groups(p, 5)) == 2, "%v", err)
	if f, err = Parse("plan.yaml", []byte(strings.Replace(grouped, ", group: true", "", 1)), knobs{}, kinds()); err != nil || f.Complete().Held != "" || f.Complete().Baseline != Current {
		t.Errorf("without a group: %+v, %v", f.Complete(), err)
	}
	if err := f.Hold("link.mtu"); err != nil || f.Complete().Held != "link.mtu" {
		t.Errorf("--group: %q, %v", f.Complete().Held, err)
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
