// Package tune is the closed loop as a state machine: it decides what to measure next, draws
// conclusions, and chooses the final settings. It measures nothing itself.
//
//  1. Look: the caller diagnoses the incumbent, which is the baseline at first, and
//     reports how near to the ceiling each direction is and which settings could help.
//  2. Race: the most promising value of each setting runs beside the incumbent in
//     blocks. The first that beats it by more than the margin, with all guards
//     holding, becomes the incumbent, and the machine looks again: a setting has
//     no effect while another one is the limit.
//     A thorough search then screens, once per direction, the settings that no
//     finding names.
//  3. Trim: parts of the incumbent that make no difference are removed.
//  4. Plateau: a remaining size gets its smallest good value.
//  5. Confirm: the winner against the baseline in fresh blocks. The numbers of the
//     earlier steps are biased upwards by selection and never reported as a gain.
//
// The machine is deterministic: the same looks, blocks and answers lead to the same step, so
// that an interrupted search continues by replaying the stored inputs (statistics.md section
// 11).
package tune

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/candidate"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Options apply to the whole search. The zero value of a field is its default.
type Options struct {
	Margin     float64       `json:"margin"`               // smallest gain that matters, log ratio; 0 is the default of plans
	Enough     float64       `json:"enough"`               // share of the ceiling from which nothing is left to gain; 0 is 0.97
	Objective  model.Metric  `json:"objective,omitempty"`  // "" is goodput
	Guards     []model.Guard `json:"guards,omitempty"`     // harm that no setting may do; Reading.Harm has their order
	AtOnce     int           `json:"at_once"`              // most candidates of one race; 0 is 4
	RaceBlocks int           `json:"race_blocks"`          // most blocks of one race; 0 is 8
	TrimBlocks int           `json:"trim_blocks"`          // blocks of trimming and of a plateau; 0 is 6
	Thorough   bool          `json:"thorough,omitempty"`   // once, screen the settings that no finding names, if something is left to gain
	Seed       uint64        `json:"seed,omitempty"`       // of the order of a screening
	NoPlateau  bool          `json:"no_plateau,omitempty"` // keep the winning size, without looking for a smaller one
	Adapt      bool          `json:"adapt,omitempty"`      // derive the length of runs from pilots, which are as long as the plan says
	RTT        time.Duration `json:"rtt_ns,omitempty"`     // of the path without load, 0 if unknown
}

// Enough is the default share of the ceiling from which nothing is left to gain (diagnosis.md
// section 1, step 4).
const Enough = 0.97

// Defaults of Options (p).
const (
	defaultAtOnce = 4
	defaultRace   = 8
	leastBlocks   = 2    // before anything is accepted
	leastDrop     = 3    // before a candidate is dropped for lack of effect
	raceLevel     = 0.90 // one-sided; the confirmation follows (statistics.md section 11.4)
	trimLevel     = 0.95
	harmLevel     = 0.99 // at which a guard rules out a candidate before a race is over, for good
	plateauLevels = 4    // compared values of a size, a factor of 2 apart
)

func (o Options) withDefaults() Options {
	o.Margin = cmp.Or(o.Margin, stats.LogMargin(stats.DefaultMargin))
	o.Enough = cmp.Or(o.Enough, Enough)
	o.Objective = cmp.Or(o.Objective, model.Goodput)
	o.AtOnce = cmp.Or(o.AtOnce, defaultAtOnce)
	o.RaceBlocks = cmp.Or(o.RaceBlocks, defaultRace)
	o.TrimBlocks = cmp.Or(o.TrimBlocks, stats.RankBlocks)
	return o
}

// RaceTime returns how long one candidate races, at least and at most, given the time per run.
func RaceTime(o Options, run time.Duration) (least, most time.Duration) {
	o = o.withDefaults()
	return 2 * leastBlocks * run, 2 * time.Duration(o.RaceBlocks) * run
}

// Idea is a candidate with its risks.
type Idea struct {
	candidate.Candidate
	Risk    string `json:"risk,omitempty"`    // what a bad value can do
	Ask     string `json:"ask,omitempty"`     // why the user has to agree before it is tried, "" if not needed
	Refused string `json:"refused,omitempty"` // why it may not be tried at all, "" if it may
}

// Look is a diagnosis of the incumbent.
type Look struct {
	// Reached is the reached share of the ceiling, by direction to tune, if the ceiling is
	// known. A missing direction is not tuned.
	Reached map[model.Direction]fact.Of[float64] `json:"reached"`
	Ideas   []Idea                               `json:"ideas,omitempty"` // those of the main finding first
	// Rest are the best guesses for all settings that may matter, independent of findings: a
	// thorough search screens them.
	Rest []Idea `json:"rest,omitempty"`
	// Values is the objective of the diagnosed run in each direction.
	Values map[model.Direction]float64 `json:"values,omitempty"`
	// Limits names the limit of each direction, as the second half of a sentence.
	Limits map[model.Direction]string `json:"limits,omitempty"`
}

// Reading is the result of one run of a block.
type Reading struct {
	// Failed is why the setting broke the run, "" for a valid one. A setting that broke a run
	// is not tried again.
	Failed string
	Log    float64   // of the objective, positive good, as in stats.LogValue
	Harm   []float64 // of each guard's metric, as Log, or the value itself if it can be 0; NaN if missing
}

// Block is one reading of every setting of a step, by name.
type Block map[string]Reading

// Kind is the task of a step.
type Kind string

// The kinds of steps.
const (
	KindLook    Kind = "look"    // diagnose Settings[0], answer with Looked
	KindAsk     Kind = "ask"     // may Settings[0] be tried? answer with Answered
	KindRace    Kind = "race"    // measure a block, answer with Measured
	KindScreen  Kind = "screen"  // same; two settings, each with about half of the screened ones
	KindTrim    Kind = "trim"    // same
	KindPlateau Kind = "plateau" // same
	KindConfirm Kind = "confirm" // the winner, Settings[1], against the baseline: a session of its own
	KindEnd     Kind = "end"     // nothing to confirm
)

// Step is what to do next.
type Step struct {
	Kind      Kind            `json:"kind"`
	Settings  []model.Setting `json:"settings"`            // the incumbent first
	Direction model.Direction `json:"direction,omitempty"` // to be measured
	Block     int             `json:"block,omitempty"`     // 1… of this race, trimming or plateau
	Reason    string          `json:"reason,omitempty"`    // why it asks, or why it ends
}

// State is the state of an idea.
type State string

// The states of an idea.
const (
	Waiting   State = "not tried"
	Racing    State = "in play"
	Helped    State = "helped"
	NoEffect  State = "no effect"
	Harmful   State = "worse"
	Guarded   State = "harms" // it violates a guard
	Broke     State = "failed"
	Undecided State = "undecided"
	Trimmed   State = "needless" // helped at first, but the result is as good without it
)

// Fate is an idea with its state.
type Fate struct {
	Idea
	State  State       `json:"state"`
	Detail string      `json:"detail,omitempty"` // the reason
	Gain   model.Bound `json:"gain"`             // mean log ratio over the incumbent of its race, NaN if not measured
	Blocks int         `json:"blocks,omitempty"` // of its race

	members []*Fate // if several settings are tried together
	weak    bool    // gained something, but not provably the margin: trimming has to show that it is needed
}

// Baseline is the name of the setting that changes nothing.
const Baseline = "current"

// Machine is the search. Create one with New; it is not safe for concurrent use.
type Machine struct {
	o         Options
	kind      Kind
	reason    string
	incumbent model.Setting
	accepted  []*Fate // the parts of the incumbent, in the order of acceptance
	fates     []*Fate
	tried     map[string]bool // "incumbent\x00candidate": failed there
	refused   map[string]bool // declined by the user
	agreed    map[string]bool
	race      race
	aside     []race // interrupted, and to be continued if nothing else helps the same incumbent
	runs      int
	most      int // runs within the budgets, 0 for no limit
	asking    *Fate
	reached   map[model.Direction]fact.Of[float64]
	trimmedAt map[model.Direction]bool // nothing more can be removed
	plateaued map[string]bool
	seen      []Idea // from looks at the incumbent called seenAt
	seenAt    string
	screen    screening
	screened  map[model.Direction]bool
	active    []*Fate // found by screenings
}

// race holds the settings measured beside the incumbent.
type race struct {
	direction model.Direction
	settings  []model.Setting // the incumbent first
	of        []*Fate         // of settings[1:]
	logs      map[string][]float64
	harm      map[string][][]float64
	blocks    int
	paused    bool // was interrupted once
}

// New returns a search in its initial state.
func New(o Options) *Machine {
	return &Machine{
		o: o.withDefaults(), kind: KindLook, incumbent: model.Setting{Name: Baseline}, tried: map[string]bool{}, refused: map[string]bool{},
		agreed: map[string]bool{}, trimmedAt: map[model.Direction]bool{}, plateaued: map[string]bool{}, screened: map[model.Direction]bool{},
	}
}

// Next returns the present step. It stays the same until it is answered.
func (m *Machine) Next() Step {
	s := Step{Kind: m.kind, Settings: []model.Setting{m.incumbent}, Reason: m.reason}
	switch m.kind {
	case KindRace, KindTrim, KindPlateau:
		s.Settings, s.Direction, s.Block = slices.Clone(m.race.settings), m.race.direction, m.race.blocks+1
	case KindScreen:
		s.Settings, s.Direction, s.Block = m.pair(), m.screen.direction, len(m.screen.rows)+1
	case KindAsk:
		s.Settings = []model.Setting{m.asking.Setting}
		s.Direction, s.Reason = m.asking.Direction, m.asking.Ask
	case KindConfirm:
		s.Settings = []model.Setting{{Name: Baseline}, m.incumbent}
	case KindLook, KindEnd:
	}
	return s
}

// Fates returns the state of every idea so far, in order of appearance.
func (m *Machine) Fates() []Fate {
	out := make([]Fate, len(m.fates))
	for i, f := range m.fates {
		out[i] = *f
	}
	return out
}

// Winner returns the incumbent, and false while it is the baseline.
func (m *Machine) Winner() (model.Setting, bool) { return m.incumbent, len(m.accepted) > 0 }

// Reached returns the share of the ceiling from the last look, by direction.
func (m *Machine) Reached() map[model.Direction]fact.Of[float64] { return m.reached }

// Runs returns the number of measured runs.
func (m *Machine) Runs() int { return m.runs }

// Looked answers KindLook.
func (m *Machine) Looked(l Look) {
	m.reached = l.Reached
	l.Ideas = m.merged(l.Ideas)
	for _, idea := range l.Ideas {
		m.know(idea)
	}
	m.choose(l)
}

// merged returns the ideas of a look, followed by those of earlier looks at the same incumbent:
// a short run may miss what an earlier one showed.
func (m *Machine) merged(ideas []Idea) []Idea {
	if m.seenAt != m.incumbent.Name {
		m.seen, m.seenAt = nil, m.incumbent.Name
	}
	out := slices.Clone(ideas)
	for _, old := range m.seen {
		if !slices.ContainsFunc(out, func(i Idea) bool { return i.Setting.Name == old.Setting.Name && i.Direction == old.Direction }) {
			out = append(out, old)
		}
	}
	m.seen = out
	return out
}

// know records an idea. A known one keeps its state; after NoEffect and Undecided its candidate
// is updated.
func (m *Machine) know(idea Idea) {
	if f := m.fate(idea.Setting.Name); f != nil {
		if f.State == NoEffect || f.State == Undecided {
			f.Candidate = idea.Candidate
		}
		return
	}
	f := &Fate{Idea: idea, State: Waiting, Gain: model.Bound(math.NaN()), Detail: idea.Refused}
	m.fates = append(m.fates, f)
}

func (m *Machine) fate(name string) *Fate {
	for _, f := range m.fates {
		if f.Setting.Name == name {
			return f
		}
	}
	return nil
}

// Answered answers KindAsk.
func (m *Machine) Answered(yes bool) {
	f := m.asking
	m.asking = nil
	if !yes {
		m.refused[f.Setting.Name], f.Detail = true, f.Ask
		m.kind = KindLook // the same look again, without it
		return
	}
	m.agreed[f.Setting.Name] = true
	m.begin(KindRace, f.Direction, []*Fate{f}, m.with)
}

// begin starts to measure, beside the incumbent, the setting that make returns for each fate.
func (m *Machine) begin(k Kind, d model.Direction, fates []*Fate, make func(*Fate) model.Setting) {
	m.kind, m.race = k, race{direction: d, settings: []model.Setting{m.incumbent}, of: fates, logs: map[string][]float64{}, harm: map[string][][]float64{}}
	for _, f := range fates {
		m.race.settings = append(m.race.settings, make(f))
		if k == KindRace {
			f.State = Racing
		}
	}
}

// with returns the incumbent with f's setting added, in place of another level of it.
func (m *Machine) with(f *Fate) model.Setting {
	parts := f.parts()
	kept := slices.DeleteFunc(slices.Clone(m.accepted), func(o *Fate) bool {
		return slices.ContainsFunc(parts, func(p *Fate) bool { return p.Levels == o.Levels })
	})
	return join(append(kept, parts...))
}

// parts returns the single settings of f.
func (f *Fate) parts() []*Fate {
	if len(f.members) > 0 {
		return f.members
	}
	return []*Fate{f}
}

// without returns the incumbent without f.
func (m *Machine) without(f *Fate) model.Setting {
	return join(slices.DeleteFunc(slices.Clone(m.accepted), func(o *Fate) bool { return o == f }))
}

// and separates the names of combined settings.
const and = " + "

// join returns the combined setting of all fates. Of two values of one knob the later wins; of
// two limits that were raised to make room for a buffer, the larger.
func join(fates []*Fate) model.Setting {
	s := model.Setting{Name: Baseline}
	var names []string
	for _, f := range fates {
		names = append(names, f.Setting.Name)
		for _, a := range f.Setting.Assignments {
			same := func(o model.Assignment) bool { return o.Host == a.Host && o.Knob == a.Knob }
			if i := slices.IndexFunc(s.Assignments, same); i >= 0 {
				a.Value = candidate.Room(a.Knob, s.Assignments[i].Value, a.Value)
			}
			s.Assignments = append(slices.DeleteFunc(s.Assignments, same), a)
		}
	}
	if len(names) > 0 {
		s.Name = strings.Join(names, and)
	}
	return s
}
