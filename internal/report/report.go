// Package report is the report of a session as data: every number, sentence
// and table that a reader sees, chosen once, so that the formats in its
// sub-packages differ in looks only.
//
// Two words never meet. "No difference larger than the margin" is a finding;
// "not enough data" is the lack of one (statistics, section 4.4).
package report

import (
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/known"
	"linerate/internal/core/units"
	"linerate/internal/report/mesh"
)

// Document is the report of one session. Its JSON form is part of
// docs/schema/session-v1.schema.json.
type Document struct {
	ID            string             `json:"id"`
	Kind          model.Kind         `json:"kind"`
	Title         string             `json:"title"`
	Created       time.Time          `json:"created"`
	State         model.SessionState `json:"state"`
	Ending        string             `json:"ending"`                  // how and why it ended, in words
	Note          string             `json:"note,omitempty"`          // what a person wrote beside it
	Untrustworthy string             `json:"untrustworthy,omitempty"` // why no verdict may be believed; "" normally
	Header        Header             `json:"header"`
	Lines         []Line             `json:"lines"`
	FarEnds       []FarEnd           `json:"far_ends,omitempty"` // of an experiment over several
	Latencies     []Latency          `json:"latencies"`
	Own           []string           `json:"own,omitempty"` // what the engine says of its runs
	Search        *Search            `json:"search,omitempty"`
	Measured      []Measured         `json:"-"`               // before and after: of a search that was proved, of an experiment with its best setting
	Section       *traffic.Section   `json:"-"`               // of the engine alone; JSON has its data under its key
	Check         *CheckDocument     `json:"check,omitempty"` // of a session that checked a path
	Grid          *Grid              `json:"grid,omitempty"`  // of an experiment over all combinations of several settings
	Findings      []Finding          `json:"findings"`
	Tables        []Table            `json:"tables"`
	Noise         []Noise            `json:"noise"` // what the baseline compared with itself showed
	Plateaus      []Plateau          `json:"plateaus"`
	Classic       []Classic          `json:"classic"`
	Changes       []Changes          `json:"changes"`
	Warnings      []string           `json:"warnings"`
	Advice        string             `json:"advice,omitempty"` // what to do after an experiment, in a sentence
	Open          bool               `json:"-"`                // not everything is decided, as Advice says
	Next          []Step             `json:"next"`
}

// Between names the ends: "desk to nas", or all hosts of a mesh.
func (d Document) Between() string {
	if d.Kind == model.KindMesh {
		return d.Header.Far
	}
	return d.Header.Near + " to " + d.Header.Far
}

// Header says what was measured: the two ends and the path between them.
type Header struct {
	Near      string                 `json:"near"` // name of the host, or its target where it told none
	Far       string                 `json:"far"`
	Link      fact.Of[units.BitRate] `json:"link"`     // slowest link known on the path
	NearMTU   fact.Of[int]           `json:"near_mtu"` // bytes
	FarMTU    fact.Of[int]           `json:"far_mtu"`
	RTT       fact.Of[time.Duration] `json:"rtt_ns"`     // least that a kernel saw in any run
	Ceiling   fact.Of[units.BitRate] `json:"ceiling"`    // payload that the path can carry at most; of two directions the lower one
	NearQdisc fact.Of[string]        `json:"near_qdisc"` // egress scheduler of the interface
	FarQdisc  fact.Of[string]        `json:"far_qdisc"`
	DataPath  string                 `json:"data_path,omitempty"` // how data connections were made, where not as usual
}

// Of returns the name of a host.
func (h Header) Of(host model.Host) string {
	if host == model.Near {
		return h.Near
	}
	return h.Far
}

// Conditions are those of the path, as far as they are known: link, MTU, round trip.
func (h Header) Conditions() []string {
	var of []string
	if v, ok := h.Link.Get(); ok {
		of = append(of, "link "+v.String())
	}
	near, known := h.NearMTU.Get()
	far, also := h.FarMTU.Get()
	switch {
	case known && also && near != far:
		of = append(of, fmt.Sprintf("MTU %d and %d", near, far))
	case known:
		of = append(of, fmt.Sprintf("MTU %d", near))
	}
	if v, ok := h.RTT.Get(); ok {
		of = append(of, "round trip "+units.FormatDuration(v))
	}
	return of
}

// Line is what one direction carried, with the settings as they were (of the
// baseline, in an experiment): medians over its valid runs.
type Line struct {
	Direction   model.Direction        `json:"direction"`
	Label       string                 `json:"label"` // "to nas"
	Setting     string                 `json:"setting"`
	Runs        int                    `json:"runs"`
	Goodput     units.BitRate          `json:"goodput"`
	Ceiling     fact.Of[units.BitRate] `json:"ceiling"`     // payload that the path can carry at most in this direction
	Share       fact.Of[float64]       `json:"share"`       // of the ceiling, 0…1; unknown where more was measured than the ceiling
	Congestion  fact.Of[string]        `json:"congestion"`  // congestion control of the sender
	Retransmits fact.Of[int64]         `json:"retransmits"` // segments, of all runs together
	NearCPU     fact.Of[float64]       `json:"near_cpu"`    // of the measuring process, 1 is one core
	FarCPU      fact.Of[float64]       `json:"far_cpu"`
	LoadedRTT   fact.Of[time.Duration] `json:"loaded_rtt_ns"`       // smoothed round trip of the flow itself
	Datagrams   *Datagrams             `json:"datagrams,omitempty"` // of UDP
}

// Finding is what limits a direction, or that nothing does, as a sentence, with the
// knobs that could help.
type Finding struct {
	Rule       string            `json:"rule"`
	Kind       model.FindingKind `json:"kind,omitempty"` // "" for a limit
	Text       string            `json:"text"`
	Knobs      []model.KnobID    `json:"knobs,omitempty"`
	Host       string            `json:"host,omitempty"`       // name of the end to blame
	Main       bool              `json:"main,omitempty"`       // the direction's first one: a report ends with it
	Confidence float64           `json:"confidence,omitempty"` // 0…1
	Explains   fact.Of[float64]  `json:"explains,omitzero"`    // share of the gap to the ceiling
	NoKnob     string            `json:"no_knob,omitempty"`    // what helps where no setting does
	RuledOut   []string          `json:"ruled_out,omitempty"`
	Missing    []model.Missing   `json:"missing,omitempty"`
}

// Step is a command that leads on from here.
type Step struct {
	What    string `json:"what"`
	Command string `json:"command"`
}

// Options are what Build needs beyond the session. The zero value works.
type Options struct {
	// Samples of the runs. Without them the classic table has no rows over intervals.
	Samples model.Samples
	// Kinds say what their runs mean; nil is those that linerate always has.
	Kinds traffic.Kinds
	// Catalogue is that of the settings, as the process has it.
	Catalogue *knob.Index
}

// Build makes the report of s. It never fails: what s does not hold is unknown
// or absent in the report.
func Build(s model.Session, o Options) Document {
	b := newBuilder(&s)
	b.samples, b.counted, b.catalogue = o.Samples, Counted(s.Runs), o.Catalogue
	if o.Kinds != nil {
		b.kinds = o.Kinds
	}
	kind, _ := b.kinds.ByName(s.Plan.Flow.Engine)
	d := Document{
		ID: s.ID, Kind: s.Kind, Title: s.Title, Created: s.Created, State: s.State, Ending: ending(&s), Note: s.Note,
		Untrustworthy: b.untrustworthy(),
		Header:        b.header(),
		FarEnds:       farEnds(&s),
		Latencies:     b.latencies(),
		Own:           b.own(kind.Lines),
		Search:        b.search(),
		Grid:          b.grid(),
		Findings:      b.findings(),
		Tables:        b.tables(),
		Noise:         b.noise(),
		Plateaus:      b.plateaus(),
		Classic:       b.classic(),
		Changes:       b.changes(),
		Measured:      b.compared(),
		Warnings:      append(append([]string{}, s.Warnings...), b.own(kind.Warnings)...),
		Next:          slices.Concat(b.mends(true), b.tries(), b.mends(false), b.closer(), b.keep(), []Step{b.again()}),
	}
	d.Lines = b.lines()
	advice := b.advice()
	d.Advice, d.Open = advice.text, advice.open
	if kind.Section == nil && kind.Load != nil {
		kind, _ = b.kinds.ByName(kind.Load(s.Plan.Flow).Engine)
	}
	if kind.Section != nil && s.Kind != model.KindRun { // which compares its settings like any other
		d.Section = kind.Section(traffic.Told{Session: b.s, Runs: b.counted, Host: b.names.Of, Label: b.names.Way, Test: b.testCommand()})
	}
	if x := b.imported(); x != nil && d.Section == nil {
		d.Section, d.Classic = x, []Classic{}
	}
	if s.Mesh != nil { // whose runs are between many ends
		d.Section = mesh.Section(&s)
		d.Lines, d.Latencies, d.Classic = []Line{}, []Latency{}, []Classic{}
		d.Header.RTT = fact.Unknown[time.Duration]("a mesh has many paths")
	}
	if d.Section != nil {
		next := lists.Each(d.Section.Next, func(n traffic.Step) Step { return Step(n) })
		d.Next = append(next, d.Next...)
	}
	switch s.Kind {
	case model.KindTest:
		d.Warnings = append(b.warnings(b.baselineRuns()), slices.Concat(b.unmeasured(), b.refuted(d.Lines), b.own(kind.Warnings))...)
	case model.KindCopy, model.KindSweep:
		d.Warnings = b.warnings(s.Runs)
	case model.KindCheck:
		d.Check = b.buildCheck()
	case model.KindServed, model.KindImported, model.KindRun, model.KindTune, model.KindMesh, model.KindWatch: // of so many runs, only what the session as a whole is warned of
	}
	if s.Kind != model.KindCheck { // which says it of each measurement
		d.Warnings = append(d.Warnings, b.crowds(s.Runs)...)
	}
	switch {
	case s.Kind == model.KindCheck, s.Kind == model.KindWatch, s.Mesh != nil: // they have no blocks
	case s.State == model.SessionInterrupted, s.State == model.SessionStopped:
		d.Next = append([]Step{b.resume("go on at the next block")}, d.Next...)
	case s.State == model.SessionDone:
		d.Next = slices.Concat(b.further(), b.anew(), d.Next)
	}
	for i, l := range b.s.Plateaus[:len(d.Plateaus)] {
		said := advice.takes != "" && l.Decided && (l.Level == advice.takes || l.Leave && l.Baseline == advice.takes)
		d.Plateaus[i].Told = said || d.Grid != nil && l.Level != "" && l.Level == d.Grid.best
	}
	return d
}

// own are sentences of the engine on the runs that a report describes.
func (b *builder) own(say func(model.Flow, []model.Run) []string) []string {
	if say == nil {
		return nil
	}
	return say(b.s.Plan.Flow, b.baselineRuns())
}

// Untrustworthy says why no verdict of s may be believed; "" normally.
func Untrustworthy(s model.Session) string {
	b := newBuilder(&s)
	return b.untrustworthy()
}

// builder holds what all parts of a report look at.
type builder struct {
	s         *model.Session
	kinds     traffic.Kinds
	catalogue *knob.Index
	samples   model.Samples
	names     model.Names // of the ends
	counted   []model.Run // that descriptions are made from
}

// newBuilder returns what all parts of a report of s begin with.
func newBuilder(s *model.Session) builder {
	names := s.Names()
	return builder{s: s, kinds: known.All(), names: model.Names{Near: plain.Line(names.Near), Far: plain.Line(names.Far)}}
}

// warnings are the session's, and those of runs, each once.
func (b *builder) warnings(runs []model.Run) []string {
	out := append([]string{}, b.s.Warnings...)
	for _, r := range runs {
		out = lists.Once(out, r.Warnings...)
	}
	return out
}

// unmeasured warns of directions of which no run is valid, though something may have arrived.
func (b *builder) unmeasured() (out []string) {
	for _, d := range b.s.Plan.Directions {
		valid, why := false, ""
		for _, r := range b.s.Runs {
			if r.Flow.Direction == d && r.State != model.RunInterrupted && !diagnose.Dead(r, d) {
				valid, why = valid || r.State == model.RunValid, r.Reason
			}
		}
		if !valid && why != "" {
			out = append(out, b.names.Way(d)+": never measured: "+why)
		}
	}
	return out
}

// ending says in words how the session stands.
func ending(s *model.Session) string {
	text := map[model.SessionState]string{
		model.SessionRunning:     "still running",
		model.SessionStopped:     "stopped: the linerate that measured it was killed, or its machine went down",
		model.SessionDone:        "done",
		model.SessionInterrupted: "interrupted",
		model.SessionFailed:      "failed",
	}[s.State]
	if text == "" {
		text = string(s.State)
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// Counted returns the valid runs of those tries of blocks that hold no
// invalid one: an invalid run takes its whole block with it (statistics,
// section 1). Of the tries at one block the last counts, so that a block which a
// killed controller left half done, and which was repeated, is not counted twice.
func Counted(runs []model.Run) []model.Run {
	type try struct{ block, attempt int }
	spoilt := map[try]bool{}
	for _, r := range runs {
		if r.State == model.RunInvalid {
			spoilt[try{r.Block, r.Attempt}] = true
		}
	}
	last := map[int]int{} // attempt, by block
	for _, r := range runs {
		if !spoilt[try{r.Block, r.Attempt}] {
			last[r.Block] = max(last[r.Block], r.Attempt)
		}
	}
	var counted []model.Run
	for _, r := range runs {
		if r.State == model.RunValid && !spoilt[try{r.Block, r.Attempt}] && r.Attempt == last[r.Block] {
			counted = append(counted, r)
		}
	}
	compared := func(r model.Run) bool { return r.Setting != runs[0].Setting }
	dead := func(r model.Run) bool { return diagnose.Dead(r, r.Flow.Direction) }
	// Where nothing is compared, or nothing arrives one way, the other way counts by itself.
	if len(counted) == 0 && (!slices.ContainsFunc(runs, compared) || slices.ContainsFunc(runs, dead)) {
		for _, r := range runs {
			if r.State == model.RunValid {
				counted = append(counted, r)
			}
		}
	}
	return counted
}

// baselineRuns returns the counted runs with the settings as they were.
func (b *builder) baselineRuns() []model.Run {
	baseline := b.s.Plan.Baseline
	if b.s.Plan.Search != nil {
		baseline = concluded(b.s)
	}
	if baseline == "" {
		return b.counted
	}
	return b.runsOf(baseline)
}

// runsOf returns the counted runs of a setting.
func (b *builder) runsOf(setting string) (runs []model.Run) {
	for _, r := range b.counted {
		if r.Setting == setting {
			runs = append(runs, r)
		}
	}
	return runs
}

func (b *builder) findings() []Finding {
	out := []Finding{}
	told := map[model.Direction]bool{}
	for _, f := range b.s.Findings {
		g := b.finding(f)
		g.Main = !told[f.Direction]
		told[f.Direction] = true
		out = append(out, g)
	}
	return out
}

// finding is f as a sentence.
func (b *builder) finding(f model.Finding) Finding {
	g := Finding{
		Rule: f.Rule, Kind: f.Kind, Knobs: f.Knobs, Confidence: f.Confidence, Explains: f.Explains,
		NoKnob: f.NoKnob, RuledOut: f.RuledOut, Missing: f.Missing,
		Text: b.names.Way(f.Direction) + ": " + diagnose.Sentence(f, b.names.Of),
	}
	if f.Host != "" {
		g.Host = b.names.Of(f.Host)
	}
	return g
}
