package judge

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/bench/internal/machines"
	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/lab/faults"
	"linerate/internal/must"
)

// said returns a session in which a direction measured share of a ceiling of 100 Mbit/s.
func said(share float64, findings ...model.Finding) *model.Session {
	return &model.Session{
		Plan:     model.Plan{Baseline: "one"},
		Findings: findings,
		Runs: []model.Run{{Setting: "one", State: model.RunValid, Values: []model.Value{
			{Direction: model.To, Metric: model.Goodput, Value: share * 100e6},
		}}},
	}
}

func finding(rule string, h model.Host, k model.FindingKind) model.Finding {
	return model.Finding{Direction: model.To, Rule: rule, Host: h, Kind: k, Confidence: 0.9}
}

// planted returns a case with one planted direction.
func planted(l faults.Label) faults.Case {
	l.Direction, l.Ceiling = model.To, units.BitRate(100e6)
	return faults.Case{Kind: "kind", Clean: !l.Planted, Labels: []faults.Label{l}}
}

func TestScore(t *testing.T) {
	t.Parallel()
	window := faults.Label{Planted: true, First: []faults.Answer{{Rule: "B07", Host: model.Far}}}
	clean := faults.Label{First: []faults.Answer{{Rule: "ceiling", Host: faults.Any}}}
	bloat := faults.Label{Planted: true, First: clean.First, Named: [][]faults.Answer{{{Rule: "B30", Host: ""}}}}
	full := finding("ceiling", model.Near, model.FindingFull)
	lost := finding("unknown", "", model.FindingNotFound)
	tests := map[string]struct {
		label           faults.Label
		s               *model.Session
		first, all, bit bool
		false           int
	}{
		"right":                      {window, said(0.3, finding("B07", model.Far, "")), true, true, true, 0},
		"wrong rule":                 {window, said(0.3, finding("B08", model.Far, "")), false, false, true, 0},
		"wrong host":                 {window, said(0.3, finding("B07", model.Near, "")), false, false, true, 0},
		"right, and more":            {window, said(0.3, finding("B07", model.Far, ""), finding("B10", model.Near, model.FindingBeside)), true, false, true, 0},
		"second":                     {window, said(0.3, finding("B10", model.Near, ""), finding("B07", model.Far, "")), false, false, true, 0},
		"nothing":                    {window, said(0.3), false, false, true, 0},
		"not found":                  {window, said(0.3, lost), false, false, true, 0},
		"full though it is not":      {window, said(0.3, full), false, false, true, 0},
		"full, did not bite":         {window, said(0.95, full), true, true, false, 0},
		"clean":                      {clean, said(0.95, full), true, true, true, 0},
		"clean, not found":           {clean, said(0.8, lost), false, false, true, 0},
		"clean, false":               {clean, said(0.95, full, finding("B30", "", model.FindingBeside)), true, false, true, 1},
		"clean, false first":         {clean, said(0.8, finding("B10", model.Near, "")), false, false, true, 1},
		"what has to be named":       {bloat, said(0.95, full, finding("B30", "", model.FindingBeside)), true, true, true, 0},
		"what had to be and was not": {bloat, said(0.95, full), true, false, true, 0},
	}
	for name, tt := range tests {
		r := Score(planted(tt.label), tt.s, 0)
		must.True(t, r.First == tt.first && r.All == tt.all && r.Bit == tt.bit && r.False == tt.false,
			"%s: first %v, all %v, bit %v, %d false", name, r.First, r.All, r.Bit, r.False)
	}
}

// TestStolen: a finding of stolen time is right if time was stolen, and otherwise false.
func TestStolen(t *testing.T) {
	t.Parallel()
	clean := faults.Label{First: []faults.Answer{{Rule: "ceiling", Host: faults.Any}}}
	s := said(0.95, finding("ceiling", model.Near, model.FindingFull), finding("B23", model.Near, model.FindingBeside))
	for share, wrong := range map[float64]int{0: 1, 0.01: 1, 0.03: 0, 0.2: 0} {
		r := Score(planted(clean), s, share)
		must.True(t, r.False == wrong, "%g stolen: %d false, want %d", share, r.False, wrong)
	}
}

func TestSums(t *testing.T) {
	t.Parallel()
	claim := func(confidence float64, right bool) Said {
		return Said{Rule: "B07", Confidence: confidence, Right: right}
	}
	rows := []Row{
		{Seed: 1, Bit: true, First: true, All: true, Said: []Said{claim(0.95, true), claim(0.95, true)}},
		{Seed: 2, Bit: true, Said: []Said{claim(0.95, false), claim(0.95, false), {Kind: model.FindingNotFound, Confidence: 0.7}}},
		{Seed: 3, Bit: true, Failed: "no answer"},
		{Seed: 4, Bit: false, First: true},
		{Seed: 5, Clean: true, Bit: true, First: true},
		{Seed: 6, Clean: true, Bit: true, First: true, False: 2},
		{Seed: 7, Clean: true, Bit: true, False: 1, Late: 0.5},
	}
	s := Add(rows)
	must.True(t, s.Planted == 3 && s.First == 1 && s.All == 1 && s.NotBit == 1 && s.Clean == 2 && s.FalsePaths == 1 && s.Busy == 1 &&
		s.Failed == 1 && s.Claims == 4, "%+v", s)
	must.True(t, !(math.Abs(s.Error-0.45) > 1e-9), "calibration error %g, want 0.45", s.Error) // 95 % claimed, half right
	text := Markdown(rows, "note")
	for _, part := range []string{"1 of 3, 33.3 %", "1 of 2, 50.0 %", "45.0 points", "| 95 to 100 %, mean 95 | 4 | 2 | 50 % |"} {
		must.Contain(t, text, part)
	}
}

// TestVerdicts: each bar is met or missed by itself, and what was not tried has no row.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	right := Row{Bit: true, First: true, All: true, Seconds: 12, Said: []Said{{Rule: "B07", Confidence: 0.98, Right: true}, {Rule: "B30", Kind: model.FindingBeside, Confidence: 0.98, Right: true}}}
	wrong := Row{Bit: true, Seconds: 91, Said: []Said{{Rule: "B10", Confidence: 0.99}}}
	blamed := Row{Clean: true, False: 1}
	words := func(rows ...Row) string {
		var out []string
		for _, v := range (Options{}).Verdicts(rows) {
			out = append(out, v.What[:5]+" "+v.Word)
		}
		return strings.Join(out, ", ")
	}
	for _, c := range []struct {
		rows []Row
		want string
	}{
		{[]Row{right, right}, "first met, findi met, expec met, longe met"},
		{[]Row{right, wrong}, "first missed, findi met, expec missed, longe missed"},
		{[]Row{right, blamed}, "first met, clean missed, findi met, expec met, longe met"},
		{[]Row{{Clean: true, First: true}}, "clean met, longe met"},
		{nil, ""},
	} {
		must.Equal(t, words(c.rows...), c.want, "%+v", c.rows)
	}
}

// TestKeep: finished rows are read again, a truncated line is not, and no evidence of an unseen
// seed is written.
func TestKeep(t *testing.T) {
	t.Parallel()
	o := Options{Last: 2000, Out: t.TempDir()}
	for _, seed := range []uint64{3, unseen + 1} {
		must.Do(t, keep(o, faults.Case{Seed: seed, Spec: "secret"}, Row{Seed: seed, Kind: "loss"}, []byte("{}")))
	}
	f := must.Get(os.OpenFile(filepath.Join(o.Out, "rows.jsonl"), os.O_APPEND|os.O_WRONLY, 0))(t)
	_, _ = f.WriteString(`{"seed":9,"ki`)
	_ = f.Close()
	rows, err := readRows(filepath.Join(o.Out, "rows.jsonl"), o)
	must.True(t, err == nil && len(rows) == 2 && rows[0].Seed == 3 && rows[1].Seed == unseen+1, "%+v, %v", rows, err)
	text, err := os.ReadFile(filepath.Join(o.Out, evidenceFile))
	must.True(t, err == nil && strings.Count(string(text), "\n") == 1 && strings.Contains(string(text), `"seed":3`), "evidence: %s, %v", text, err)
	b := brief(Row{Seed: unseen, Kind: "loss"})
	must.True(t, !strings.Contains(b, "loss"), "told of a seed that nobody looks at: %s", b)
}

// TestCommand: a case is measured with the command that a user would type.
func TestCommand(t *testing.T) {
	t.Parallel()
	c, ok := faults.Of("shared-bus", 1)
	if args := Command(c, true); !ok || args[0] != "check" && args[0] != "test" || slices.Contains(args, "--quick") {
		t.Errorf("the bus needs the whole check: %v", args)
	}
	c, ok = faults.Of("program-buffer", 1)
	args := Command(c, true)
	must.True(t, ok && args[0] == "test" && slices.Contains(args, "-w"), "%v", args)
}

// TestFailures: a program without output, or a missing one, is a wrong answer, and the next
// seed is tried.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"/bin/true", "/nonexistent"} {
		out := t.TempDir()
		rows, err := Run(context.Background(), Options{Program: program, First: 4, Last: 5, Kind: "clean", Out: out, Talk: &strings.Builder{}})
		must.True(t, err == nil && len(rows) == 2 && rows[0].Failed != "" && !rows[0].First, "%s: %+v, %v", program, rows, err)
		text, _ := os.ReadFile(filepath.Join(out, "rows.jsonl"))
		var r Row
		must.True(t, json.Unmarshal([]byte(strings.SplitN(string(text), "\n", 2)[0]), &r) == nil && r.Failed != "", "%s: %s", program, text)
	}
}

// TestAgain: earlier measurements are judged again with the current rules, from the stored
// evidence.
func TestAgain(t *testing.T) {
	t.Parallel()
	o := Options{Last: 99, Out: t.TempDir(), Talk: &strings.Builder{}}
	c := planted(faults.Label{First: []faults.Answer{{Rule: "unknown", Host: faults.Any}}})
	c.Seed = 7
	s := said(0.3, finding("B07", model.Far, "")) // no rule claims this for a session without evidence
	s.Kind = model.KindTest
	text := must.Get(json.Marshal(map[string]any{"session": s, "samples": []any{}}))(t)
	must.Do(t, keep(o, c, Row{Seed: 7, Kind: "kind", Seconds: 9, Late: 0.01, Said: []Said{{Rule: "B07"}}}, text))
	rows := must.Get(Again(o))(t)
	must.True(t, len(rows) == 1 && rows[0].First && rows[0].Said[0].Rule == "unknown" && rows[0].Seconds == 9 && rows[0].Late == 0.01, "%+v", rows)
	o.First = 8
	must.Len(t, must.Get(Again(o))(t), 0, "other seeds")
	must.Fail(t, must.Err(Again(Options{Out: t.TempDir()})), "no error where nothing was measured")
}

func TestCounts(t *testing.T) {
	t.Parallel()
	rows := []Row{
		{Said: []Said{{Rule: "B07", Right: true}, {Rule: "B10"}, {Rule: "unknown", Kind: model.FindingNotFound}}},
		{Said: []Said{{Rule: "B07"}, {Rule: "B10", Part: true}}}, {Late: 0.5, Said: []Said{{Rule: "B07"}}},
	}
	must.Equal(t, Counts(rows), "\t\t\"B07\": {1, 2},\n\t\t\"B10\": {0, 1},\n\t\t\"B10 in part\": {0, 1},\n")
}

// TestRecorded: a recording has what rules read from a document, and nothing about the machine
// that it was recorded on.
func TestRecorded(t *testing.T) {
	t.Parallel()
	s := said(0.5, finding("B07", model.Far, ""))
	s.Kind, s.Runs[0].Number = model.KindTest, 7
	s.Command = []string{"/home/me/bin/linerate", "test", "lab:lan", "--quiet", "--db", "/tmp/x"}
	s.Hosts = []model.HostFacts{{Host: model.Near, Name: "mine", Knobs: map[model.KnobID]fact.Of[string]{
		"tcp.sack": fact.Known("1", "test"), "tcp.ecn": fact.Unknown[string]("nobody asked"),
	}}, {Host: model.Far, Name: "yours"}}
	var d document
	text, err := json.Marshal(map[string]any{"session": s, "samples": []any{
		map[string]any{"run": 7, "samples": []model.Sample{{Value: 1}}}, map[string]any{"run": 8, "samples": []model.Sample{{Value: 2}}},
	}})
	must.Need(t, err == nil && json.Unmarshal(text, &d) == nil, "%v", err)
	r := d.recorded("a trap")
	got := strings.Join(r.Session.Command, " ")
	must.True(t, got == "linerate test lab:lan" && r.Planted == "a trap" && r.Session.Findings == nil, "%q, %q, %v", got, r.Planted, r.Session.Findings)
	must.True(t, len(r.Samples) == 1 && r.Samples[0].Value == 1, "samples of runs that nobody looks at: %v", r.Samples)
	h := r.Session.Hosts
	must.True(t, h[0].Name == "desk" && h[1].Name == "nas" && len(h[0].Knobs) == 1, "%+v", h)
}

// TestRecordFails: a program that measures nothing leaves no recording.
func TestRecordFails(t *testing.T) {
	t.Parallel()
	for _, r := range []Recording{{Name: "lab", Args: []string{"test"}}, {Name: "pair", Pair: "exit 3", Args: []string{"test"}}} {
		_, _, err := Record(context.Background(), "/bin/false", r)
		must.True(t, err != nil, "%s: no error", r.Name)
	}
}

// TestMachineCases: all kinds of machines can be judged under one name, and each by its own; a
// folder may hold several kinds; each requested card exists.
func TestMachineCases(t *testing.T) {
	t.Parallel()
	all := must.Get(Options{Kind: Machines, First: 3, Last: 4}.cases())(t)
	must.Need(t, len(all) == 2*len(faults.MachineKinds()), "%d cases", len(all))
	for _, c := range all {
		must.True(t, slices.ContainsFunc(cards(), func(one machines.Card) bool { return one.Model == c.Machine.Card }),
			"%s: the machines have no %s", c.Kind, c.Machine.Card)
		o := Options{Kind: c.Kind, First: c.Seed, Last: c.Seed}
		one, err := o.cases()
		claim, _ := o.Claim()
		must.True(t, err == nil && len(one) == 1 && one[0].Kind == c.Kind && claim == Machines, "%s: %+v, %v", c.Kind, one, err)
	}
	o := Options{Kind: "clean"}
	claim, _ := o.Claim()
	must.True(t, claim == "judge" && o.Missing() == "", "a lab: %q, %q", claim, o.Missing())
	must.Fail(t, must.Err((Options{Kind: "machine-none"}).cases()), "a kind that there is not")
}

// TestMachineCommand checks the command, and the position of far's address.
func TestMachineCommand(t *testing.T) {
	t.Parallel()
	for c, want := range map[*faults.Case]string{
		{Check: true}:                        "check  --quick",
		{Args: []string{"--to", "-t", "4s"}}: "test  --to -t 4s",
	} {
		must.Equal(t, strings.Join(machineCommand(*c), " "), want)
	}
}

// TestMachinesMissing: without images the kinds are skipped, and the message names what is
// missing.
func TestMachinesMissing(t *testing.T) {
	t.Setenv("LINERATE_VM", t.TempDir())
	must.True(t, (Options{Kind: Machines}).Missing() != "", "nothing is missing")
	skipped := lists.Count(Kinds(), func(k faults.Kind) bool { return strings.HasPrefix(k.Name, "machine-") && k.Skip != "" })
	must.Equal(t, skipped, len(faults.MachineKinds()), "kinds are skipped")
}

// TestPlaces: a place is right if it holds the full link and no node that could have excluded
// it, and the table counts each outcome once.
func TestPlaces(t *testing.T) {
	t.Parallel()
	// Link 2 of 4 is full, after a silent router 2.
	full := faults.Full{Direction: model.From, At: 2, Before: 1, Behind: 3, Routers: 3}
	none := faults.Full{Direction: model.From, None: true, Routers: 3}
	end := model.PlaceNode{Hop: 4, Host: model.Near}
	router := func(hop int) model.PlaceNode { return model.PlaceNode{Hop: hop, Address: "10.99.1.1"} }
	at := func(before, behind model.PlaceNode) *model.Place {
		return &model.Place{Kind: model.PlaceLink, Before: before, Behind: behind}
	}
	var rows []Row
	for name, c := range map[string]struct {
		full  faults.Full
		found []*model.Place // of the findings
		want  Place
	}{
		"as narrow as it can be": {full, []*model.Place{at(router(1), router(3))}, PlaceRight},
		"narrower":               {full, []*model.Place{at(router(2), router(3))}, PlaceRight},
		"wider before":           {full, []*model.Place{at(model.PlaceNode{Host: model.Far}, router(3))}, PlaceWide},
		"wider behind":           {full, []*model.Place{at(router(1), end)}, PlaceWide},
		"before it":              {full, []*model.Place{at(router(1), router(2))}, PlaceWrong},
		"behind it":              {full, []*model.Place{at(router(3), end)}, PlaceWrong},
		"none":                   {full, []*model.Place{nil}, PlaceMissing},
		"of the second finding":  {full, []*model.Place{nil, at(router(1), router(3))}, PlaceMissing},
		"nothing found":          {full, nil, PlaceMissing},
		"no link, none":          {none, []*model.Place{nil, nil}, PlaceRight},
		"no link, and a second":  {none, []*model.Place{nil, at(router(1), router(2))}, PlaceClaimed},
		"no link, the first":     {none, []*model.Place{at(router(1), end), nil}, PlaceClaimed},
	} {
		s := &model.Session{Findings: []model.Finding{{Direction: model.To, Rule: "ceiling", Place: at(router(3), end)}}}
		for _, p := range c.found {
			s.Findings = append(s.Findings, model.Finding{Direction: model.From, Rule: "B06", Place: p})
		}
		r := Score(faults.Case{Kind: "link-first", Clean: c.full.None, Located: &c.full}, s, 0)
		must.Equal(t, r.Place, c.want, name)
		must.True(t, r.First == (c.want == PlaceRight) && (len(c.found) == 0 || strings.HasPrefix(r.Named, "B06")), "%s: %+v", name, r)
		rows = append(rows, r)
	}
	rows = append(rows, Row{Kind: "link-first", Failed: "no answer"}, Row{Kind: "link-first", Place: PlaceWrong, Late: 0.5})
	o := Options{Kind: Routers}
	text := o.Table(rows, "note")
	for _, part := range []string{"| place of the full link right | ≥ 95 % | 2 of 10, 20.0 %", "| place wrong, of the same | ≤ 2 % | 2 of 10, 20.0 %", "| 1 of 3, 33.3 %", "14 cases: 1 during", "| 13 | 3 | 2 | 2 | 3 | 2 |"} {
		must.Contain(t, text, part)
	}
	var words []string
	for _, v := range o.Verdicts(append(rows[:0:0], Row{Place: PlaceRight}, Row{Clean: true, Place: PlaceClaimed})) {
		words = append(words, v.Claim+" "+v.Word)
	}
	must.Equal(t, strings.Join(words, ", "), "locate met, locate met, locate missed")
	cases := must.Get(Options{Kind: Routers, First: 0, Last: 9}.cases())(t)
	for i, k := range faults.RouterKinds() {
		one := must.Get(Options{Kind: k.Name, First: uint64(i), Last: uint64(i)}.cases())(t)
		must.True(t, cases[i].Kind == k.Name && one[0].Spec == cases[i].Spec && o.holds(one[0]), "%+v", cases[i])
	}
}
