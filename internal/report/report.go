// Package report builds the report of a session as data: every number, sentence and table that
// a reader sees, chosen once, so that the formats in its sub-packages differ in appearance
// only.
//
// Two statements must not be confused. "No difference larger than the margin" is a finding;
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
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
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
	Ending        string             `json:"ending"`                  // how and why it ended, as text
	Note          string             `json:"note,omitempty"`          // the user's remark
	Untrustworthy string             `json:"untrustworthy,omitempty"` // why no verdict may be trusted; "" normally
	Header        Header             `json:"header"`
	Lines         []Line             `json:"lines"`
	FarEnds       []FarEnd           `json:"far_ends,omitempty"` // of an experiment over several
	Latencies     []Latency          `json:"latencies"`
	Own           []string           `json:"own,omitempty"` // the engine's sentences on its runs
	Search        *Search            `json:"search,omitempty"`
	Measured      []Measured         `json:"-"`               // before and after: for a confirmed search, or an experiment with its best setting
	Section       *traffic.Section   `json:"-"`               // specific to the engine; JSON has its data under its key
	Check         *CheckDocument     `json:"check,omitempty"` // for a check
	Grid          *Grid              `json:"grid,omitempty"`  // of an experiment over all combinations of several settings
	Findings      []Finding          `json:"findings"`
	Tables        []Table            `json:"tables"`
	Noise         []Noise            `json:"noise"` // from comparing the baseline with itself
	Plateaus      []Plateau          `json:"plateaus"`
	Classic       []Classic          `json:"classic"`
	Changes       []Changes          `json:"changes"`
	Warnings      []string           `json:"warnings"`
	Advice        string             `json:"advice,omitempty"` // recommendation after an experiment, a sentence
	Open          bool               `json:"-"`                // something is undecided, as Advice says
	Next          []Step             `json:"next"`
	// Cures are those of Next that mend a finding without an experiment.
	Cures []Step `json:"-"`
}

// Between names the ends: "desk to nas", or all hosts of a mesh.
func (d Document) Between() string {
	if d.Kind == model.KindMesh {
		return d.Header.Far
	}
	return d.Header.Near + " to " + d.Header.Far
}

// Header describes the measured hosts and the path between them.
type Header struct {
	Near      string                 `json:"near"` // name of the host, or its target if it reported none
	Far       string                 `json:"far"`
	Link      fact.Of[units.BitRate] `json:"link"`     // slowest link known on the path
	NearMTU   fact.Of[int]           `json:"near_mtu"` // bytes
	FarMTU    fact.Of[int]           `json:"far_mtu"`
	RTT       fact.Of[time.Duration] `json:"rtt_ns"`     // least that a kernel saw in any run
	Ceiling   fact.Of[units.BitRate] `json:"ceiling"`    // most payload that the path can carry; the lower of two directions
	NearQdisc fact.Of[string]        `json:"near_qdisc"` // egress scheduler of the interface
	FarQdisc  fact.Of[string]        `json:"far_qdisc"`
	DataPath  string                 `json:"data_path,omitempty"` // how data connections were made, if not in the default way
}

// Of returns the name of a host.
func (h Header) Of(host model.Host) string {
	if host == model.Near {
		return h.Near
	}
	return h.Far
}

// Conditions returns the known conditions of the path: link, MTU, round trip.
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

// Line is the result of one direction with the baseline: medians over its valid runs.
type Line struct {
	Direction   model.Direction        `json:"direction"`
	Label       string                 `json:"label"` // "to nas"
	Setting     string                 `json:"setting"`
	Runs        int                    `json:"runs"`
	Goodput     units.BitRate          `json:"goodput"`
	Ceiling     fact.Of[units.BitRate] `json:"ceiling"`     // most payload that the path can carry in this direction
	Share       fact.Of[float64]       `json:"share"`       // of the ceiling, 0…1; unknown if the measurement exceeds the ceiling
	Congestion  fact.Of[string]        `json:"congestion"`  // congestion control of the sender
	Retransmits fact.Of[int64]         `json:"retransmits"` // segments, of all runs together
	NearCPU     fact.Of[float64]       `json:"near_cpu"`    // of the measuring process, 1 is one core
	FarCPU      fact.Of[float64]       `json:"far_cpu"`
	LoadedRTT   fact.Of[time.Duration] `json:"loaded_rtt_ns"`       // smoothed round trip of the flow itself
	Datagrams   *Datagrams             `json:"datagrams,omitempty"` // of UDP
}

// Finding is the limit of a direction, or that there is none, as a sentence, with the knobs
// that could help.
type Finding struct {
	Rule       string            `json:"rule"`
	Kind       model.FindingKind `json:"kind,omitempty"` // "" for a limit
	Text       string            `json:"text"`
	Knobs      []model.KnobID    `json:"knobs,omitempty"`
	Host       string            `json:"host,omitempty"`       // name of the end that causes it
	Main       bool              `json:"main,omitempty"`       // the first one of the direction, at the end of a report
	Confidence float64           `json:"confidence,omitempty"` // 0…1
	Explains   fact.Of[float64]  `json:"explains,omitzero"`    // share of the gap to the ceiling
	NoKnob     string            `json:"no_knob,omitempty"`    // what helps if no setting does
	RuledOut   []string          `json:"ruled_out,omitempty"`
	Missing    []model.Missing   `json:"missing,omitempty"`
}

// Step is a follow-up command.
type Step struct {
	What    string `json:"what"`
	Command string `json:"command"`
}

// Options are what Build needs beyond the session. The zero value works.
type Options struct {
	// Samples of the runs. Without them the classic table has no rows over intervals.
	Samples model.Samples
	// Kinds interpret the runs; nil is linerate's own list.
	Kinds traffic.Kinds
	// Catalogue is the process's catalogue of settings.
	Catalogue *knob.Index
	// Store is the database that the session was read from, for the next commands; "" is that
	// of the session's own command.
	Store string
}

// Build returns the report of s. It never fails: values that s lacks are unknown or absent in
// the report.
func Build(s model.Session, o Options) Document {
	b := newBuilder(&s)
	b.samples, b.counted, b.catalogue, b.store = o.Samples, Counted(s.Runs), o.Catalogue, o.Store
	if o.Kinds != nil {
		b.kinds = o.Kinds
	}
	kind, _ := b.kinds.ByName(s.Plan.Flow.Engine)
	urgent, others := b.mends(true), b.mends(false)
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
		Cures:         slices.Concat(urgent, others),
		Next:          slices.Concat(urgent, b.tries(), others, b.closer(), b.undisturbed(), b.keep(), []Step{b.again()}),
	}
	d.Lines = b.lines()
	advice := b.advice()
	d.Advice, d.Open = advice.text, advice.open
	if kind.Section == nil && kind.Load != nil {
		kind, _ = b.kinds.ByName(kind.Load(s.Plan.Flow).Engine)
	}
	if kind.Section != nil && s.Kind != model.KindRun { // a run compares its settings like any other
		d.Section = kind.Section(traffic.Measured{Session: b.s, Runs: b.counted, Host: b.names.Of, Label: b.names.Way, Test: b.testCommand()})
	}
	if x := b.imported(); x != nil && d.Section == nil {
		d.Section, d.Classic = x, []Classic{}
	}
	if s.Mesh != nil { // its runs are between many ends
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
	case model.KindServed, model.KindImported, model.KindRun, model.KindTune, model.KindMesh, model.KindWatch: // many runs: only the session's own warnings
	}
	if s.Kind != model.KindCheck { // a check has it per measurement
		d.Warnings = append(d.Warnings, b.crowds(s.Runs)...)
	}
	switch {
	case s.Kind == model.KindCheck, s.Kind == model.KindWatch, s.Mesh != nil: // they have no blocks
	case s.State == model.SessionInterrupted, s.State == model.SessionStopped:
		d.Next = append([]Step{b.resume("run", "go on at the next block")}, d.Next...)
	case s.State == model.SessionDone:
		d.Next = slices.Concat(b.further(), b.anew(), d.Next)
	}
	for i, l := range b.s.Plateaus[:len(d.Plateaus)] {
		said := advice.takes != "" && l.Decided && (l.Level == advice.takes || l.Leave && l.Baseline == advice.takes)
		d.Plateaus[i].Advised = said || d.Grid != nil && l.Level != "" && l.Level == d.Grid.best
	}
	return d
}

// own returns the engine's sentences on the runs that a report describes.
func (b *builder) own(say func(model.Flow, []model.Run) []string) []string {
	if say == nil {
		return nil
	}
	return say(b.s.Plan.Flow, b.baselineRuns())
}

// Untrustworthy says why no verdict of s may be trusted; "" normally.
func Untrustworthy(s model.Session) string {
	b := newBuilder(&s)
	return b.untrustworthy()
}

// builder holds the input of all parts of a report.
type builder struct {
	s         *model.Session
	kinds     traffic.Kinds
	catalogue *knob.Index
	samples   model.Samples
	store     string      // see Options.Store
	names     model.Names // of the ends
	counted   []model.Run // the runs that descriptions use
}

// newBuilder returns the common input of all parts of a report of s.
func newBuilder(s *model.Session) builder {
	names := s.Names()
	return builder{s: s, kinds: metric.Kinds(), names: model.Names{Near: plain.Line(names.Near), Far: plain.Line(names.Far)}}
}

// warnings returns the warnings of the session and of runs, each once.
func (b *builder) warnings(runs []model.Run) []string {
	out := append([]string{}, b.s.Warnings...)
	for _, r := range runs {
		out = lists.Once(out, r.Warnings...)
	}
	return out
}

// unmeasured warns of directions without a valid run, though something may have arrived.
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

// ending describes the state of the session.
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

// Counted returns the valid runs of those attempts at blocks that have no invalid one: an
// invalid run takes its whole block with it (statistics, section 1). Only the last attempt at a
// block counts, so that a block which a killed controller left incomplete, and which was
// repeated, is not counted twice.
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
	// If nothing is compared, or one direction is dead, the other direction counts by itself.
	if len(counted) == 0 && (!slices.ContainsFunc(runs, compared) || slices.ContainsFunc(runs, dead)) {
		for _, r := range runs {
			if r.State == model.RunValid {
				counted = append(counted, r)
			}
		}
	}
	return counted
}

// baselineRuns returns the counted runs of the baseline.
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
	shown := map[model.Direction]bool{}
	for _, f := range b.s.Findings {
		g := b.finding(f)
		g.Main = !shown[f.Direction]
		shown[f.Direction] = true
		out = append(out, g)
	}
	return out
}

// finding formats f as a sentence.
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
