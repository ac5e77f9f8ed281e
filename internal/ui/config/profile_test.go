package config

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/profile"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// line draws one line of text for a profile, including hostile ones.
func line(allowEmpty bool) *rapid.Generator[string] {
	least := 1
	if allowEmpty {
		least = 0
	}
	return rapid.Custom(func(t *rapid.T) string {
		r := rapid.OneOf(rapid.SampledFrom([]rune(`"'\:#{}[]&*!|>%@,-?`+"`$(){{}}<>=~ ü\u00adß世🜁")), rapid.RuneFrom(nil, unicode.L, unicode.N, unicode.P, unicode.S))
		s := strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return '_'
		}, rapid.StringOfN(r, least, 40, -1).Draw(t, "text")))
		if s == "" && !allowEmpty {
			s = "x"
		}
		return s
	})
}

func profiles() *rapid.Generator[profile.Profile] {
	return rapid.Custom(func(t *rapid.T) profile.Profile {
		p := profile.Profile{Title: line(true).Draw(t, "title")}
		roles := rapid.SampledFrom([][]profile.Role{
			{profile.Both}, {profile.Near, profile.Far}, {profile.Both, profile.Sender}, {profile.Receiver},
		}).Draw(t, "roles")
		for _, role := range roles {
			h := profile.Host{
				Role: role, System: line(true).Draw(t, "system"), Kernel: line(true).Draw(t, "kernel"),
				LinkRate: units.BitRate(rapid.Uint32().Draw(t, "rate")), MTU: rapid.IntRange(0, 65535).Draw(t, "mtu"),
				Settings: []profile.Setting{{Knob: "tcp.recv_buffer_max", Value: "65536"}, {Knob: "tcp.congestion_control", Value: "bbr"}},
			}
			for name, text := range rapid.MapOfN(line(false), line(false), 0, 3).Draw(t, "before") {
				if h.Before == nil {
					h.Before = map[string]string{}
				}
				h.Before[name] = text
			}
			p.Hosts = append(p.Hosts, h)
		}
		if rapid.Bool().Draw(t, "measured") {
			p.Evidence = evidence(t)
		}
		return p
	})
}

func evidence(t *rapid.T) *profile.Evidence {
	e := &profile.Evidence{
		Session: line(true).Draw(t, "session"), Setting: line(true).Draw(t, "setting"), Baseline: line(true).Draw(t, "baseline"),
		Date: time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "date"), 0).UTC(),
	}
	for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(fingerprint.Keys()), 0, 4, rapid.ID).Draw(t, "conditions") {
		if e.Print == nil {
			e.Print = fingerprint.Print{}
		}
		e.Print[k] = line(false).Draw(t, "condition")
	}
	for range rapid.IntRange(0, 3).Draw(t, "verdicts") {
		low, high := rapid.Float64Range(-3, 0).Draw(t, "low"), rapid.Float64Range(0, 3).Draw(t, "high")
		if rapid.Bool().Draw(t, "unbounded") {
			high = math.Inf(1)
		}
		e.Verdicts = append(e.Verdicts, profile.Verdict{
			Direction: model.To, Metric: model.Goodput, Outcome: rapid.SampledFrom([]model.Outcome{model.Better, model.Worse, model.Equivalent, model.Undecided}).Draw(t, "outcome"),
			Blocks: rapid.IntRange(0, 1000).Draw(t, "blocks"), Estimate: rapid.Float64Range(-3, 3).Draw(t, "estimate"),
			Low: model.Bound(low), High: model.Bound(high), Confidence: rapid.Float64Range(0, 1).Draw(t, "confidence"),
		})
	}
	return e
}

// TestProfileRoundTrip: Text's output parses back to the same profile, whatever the texts are,
// and comments change nothing.
func TestProfileRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles().Draw(t, "profile")
		must.Dof(t, p.Validate(), "not valid")
		comment := line(true).Draw(t, "comment")
		text := p.Text(func(model.KnobID, string) string { return comment + "\nprofile: 2" })
		got, err := ParseProfile("p.yaml", text, knobs{})
		must.Need(t, err == nil, "%v\n%s", err, text)
		diff := cmp.Diff(p, got, cmpopts.EquateEmpty())
		must.Need(t, diff == "", "%s\n%s", diff, text)
	})
}

func TestParseProfileMistakes(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "p.yaml:1:1: the file is empty"},
		{"a plan", "far: nas\n", `unknown key "far"`},
		{"no version", "hosts: [{role: both, knobs: {link.mtu: 9000}}]", "p.yaml:1:1: this is not a profile; begin with profile: 2"},
		{"newer", "profile: 3\nhosts: [{role: both, knobs: {link.mtu: 9000}}]", "p.yaml:1:10: profile: version 3 is newer than this linerate"},
		{"role", "profile: 2\nhosts: [{role: boss, knobs: {link.mtu: 9000}}]", `unknown role "boss"`},
		{"no role", "profile: 2\nhosts: [{knobs: {link.mtu: 9000}}]", "hosts[0]: has no role"},
		{"no knobs", "profile: 2\nhosts: [{role: both}]", "hosts[0]: has no knobs"},
		{"knob", "profile: 2\nhosts:\n  - role: both\n    knobs:\n      link.mtuu: 9000", `p.yaml:5:7: hosts[0].knobs: unknown knob "link.mtuu"; did you mean link.mtu?`},
		{"flow knob", "profile: 2\nhosts: [{role: both, knobs: {window: 64KiB}}]", "belongs to the test traffic"},
		{"value", "profile: 2\nhosts: [{role: both, knobs: {link.mtu: many}}]", `value "many" of link.mtu`},
		{"twice", "profile: 2\nhosts: [{role: both, knobs: {link.mtu: 9000, link.mtu: 1500}}]", "is given twice"},
		{"roles", "profile: 2\nhosts: [{role: near, knobs: {link.mtu: 9000}}, {role: sender, knobs: {link.mtu: 9000}}]", "near and far do not mix with sender and receiver"},
		{"outcome", "profile: 2\nhosts: [{role: near, knobs: {link.mtu: 9000}}]\nevidence: {verdicts: [{outcome: great}]}", `outcome "great"`},
		{"number", "profile: 2\nhosts: [{role: near, knobs: {link.mtu: 9000}}]\nevidence: {verdicts: [{outcome: better, estimate: .inf}]}", "is not a number"},
		{"date", "profile: 2\nhosts: [{role: near, knobs: {link.mtu: 9000}}]\nevidence: {date: yesterday}", "is not a date"},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.Say(t, must.Err(ParseProfile("p.yaml", []byte(c.text), knobs{})), c.want)
		})
	}
}

// TestProfile1 parses a profile of the first release.
func TestProfile1(t *testing.T) {
	want := profile.Profile{
		Title: "window of the nas",
		Hosts: []profile.Host{{
			Role: profile.Receiver, System: "linux", Kernel: "6.8.0", LinkRate: 1e9, MTU: 1500,
			Settings: []profile.Setting{{Knob: "tcp.recv_buffer_max", Value: "4194304"}}, Before: map[string]string{"net.ipv4.tcp_rmem": "4096 131072 65536"},
		}},
		Evidence: &profile.Evidence{
			Session: "20261121T013209-x7k2", Setting: "4M", Baseline: "current", Date: time.Date(2026, 11, 21, 1, 32, 9, 0, time.UTC),
			Verdicts: []profile.Verdict{{
				Direction: model.To, Metric: model.Goodput, Outcome: model.Better, Blocks: 8, Estimate: 0.43, Low: 0.4, High: model.Bound(math.Inf(1)), Confidence: 0.95,
			}},
			Print: fingerprint.Print{fingerprint.RoundTrip: "10 ms"},
		},
	}
	text := must.Get(os.ReadFile("testdata/profile1.yaml"))(t)
	must.NoDiff(t, cmp.Diff(want, must.Get(ParseProfile("profile1.yaml", text, knobs{}))(t), cmpopts.EquateEmpty()))
}

// TestParseProfileByHand: values written by a person become canonical.
func TestParseProfileByHand(t *testing.T) {
	p := must.Get(ParseProfile("p.yaml", []byte("profile: 2\nhosts:\n  - {role: receiver, knobs: {tcp.recv_buffer_max: 4MiB}}\nevidence: {date: 2026-11-21}\n"), knobs{}))(t)
	must.Equal(t, p.Hosts[0].Settings[0], (profile.Setting{Knob: "tcp.recv_buffer_max", Value: "4194304"}))
	must.Equal(t, p.Evidence.Date.Format(time.DateOnly), "2026-11-21", "%v", p.Evidence.Date)
}

func FuzzParseProfile(f *testing.F) {
	f.Add([]byte("profile: 2\ntitle: x\nhosts:\n  - role: both\n    system: linux\n    knobs:\n      link.mtu: 9000\n    before:\n      \"mtu\": \"1500\"\n"))
	f.Add([]byte("profile: 2\nhosts: [{role: near, knobs: {link.mtu: 9000}}]\nevidence: {session: s, verdicts: [{outcome: better, low: 0.1, blocks: 3}]}"))
	for _, evidence := range []string{"{}", "{verdicts: []}", "{date: 0001-01-01}", "{date: 2026-11-21T10:00:00.5Z}", "{date: 9999-12-31T23:59:59-01:00}", "{date: 0001-01-01T00:00:00+01:00}"} {
		f.Add([]byte("profile: 2\nhosts: [{role: near, knobs: {link.mtu: 9000}}]\nevidence: " + evidence))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseProfile("p.yaml", data, knobs{})
		if err != nil {
			return
		}
		again, err := ParseProfile("p.yaml", p.Text(nil), knobs{})
		must.Need(t, err == nil, "what was read cannot be read again: %v\n%s", err, p.Text(nil))
		diff := cmp.Diff(p, again, cmpopts.EquateEmpty())
		must.Need(t, diff == "", "%v", diff)
	})
}

// endsToo also knows far ends: a link keeps its pin and loses its secret.
type endsToo struct{ knobs }

func (e endsToo) Known() []model.KnobID { return append(e.knobs.Known(), model.FarEnd) }

func (e endsToo) Check(id model.KnobID, value string) (string, error) {
	if id == model.FarEnd {
		return strings.Replace(value, ".secret@", "@", 1), nil
	}
	return e.knobs.Check(id, value)
}

// A lab keeps its commas, and a far end has a short name unless another one has the same.
func TestFarEndsOfAFlag(t *testing.T) {
	f := must.Get(ParseFactor("far=nas, lab:rate=1gbit,rtt=2ms,to.loss=1%,root@pi,linerate://PIN.secret@10.0.0.7:5299,exec:10.0.0.8 ssh x linerate agent,exec:10.0.0.9 a,exec:10.0.0.9 b", endsToo{}))(t)
	var names, values []string
	for _, l := range f.Levels {
		names, values = append(names, l.Text), append(values, l.Value)
	}
	want := []string{"nas", "lab:rate=1gbit,rtt=2ms,to.loss=1%", "pi", "10.0.0.7", "10.0.0.8", "exec:10.0.0.9 a", "exec:10.0.0.9 b"}
	must.True(t, slices.Equal(names, want), "names %q, want %q", names, want)
	must.True(t, values[3] == "linerate://PIN@10.0.0.7:5299" && f.Targets[values[3]] == "linerate://PIN.secret@10.0.0.7:5299", "%q is opened with %q", values[3], f.Targets[values[3]])
	must.Say(t, must.Err(ParseFactor("far=nas,nas", endsToo{})), "same value", "twice")
}

// If far ends are a factor the first one is the baseline, unless another host is named beside
// them; in a plan file as on the command line.
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

// A group factor of a file is what the plan holds, and the baseline is one of the combinations.
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
	must.Do(t, f.Hold("link.mtu"))
	must.Equal(t, f.Complete().Held, "link.mtu", "--group")
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
