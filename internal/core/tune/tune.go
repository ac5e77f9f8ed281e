// Package tune is the closed loop as a state machine: what to measure next, what
// was learnt, and which settings are left in the end. It measures nothing itself.
//
//  1. Look: somebody diagnoses the incumbent, which is the baseline at first, and
//     says how near to the ceiling each direction is and which settings could help.
//  2. Race: the most promising value of each setting runs beside the incumbent in
//     blocks. The first that beats it by more than the margin, with all guards
//     holding, becomes the incumbent, and the machine looks again: a setting shows
//     nothing while another one is the limit.
//     A thorough search then screens, once for each direction, what no finding names.
//  3. Trim: what can be left out of the incumbent without loss is left out.
//  4. Plateau: of a size that is left the smallest good value is taken.
//  5. Confirm: the winner against the baseline in fresh blocks. The numbers of the
//     steps before are biased upwards by selection and are never reported as a gain.
//
// The machine is deterministic: the same looks, blocks and answers lead to the same
// step, so that a search that was cut short goes on by replaying what was stored
// (statistics.md section 11).
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

// Options are what holds for the whole search. The zero value of a field is its default.
type Options struct {
	Margin     float64       `json:"margin"`               // smallest gain that matters, log ratio; 0 is that of plans
	Enough     float64       `json:"enough"`               // share of the ceiling from which nothing is left to gain; 0 is 0.97
	Objective  model.Metric  `json:"objective,omitempty"`  // what decides; "" is goodput
	Guards     []model.Guard `json:"guards,omitempty"`     // what no setting may harm; Reading.Harm has their order
	Runs       int           `json:"runs,omitempty"`       // most runs before the confirmation; 0 is no limit
	AtOnce     int           `json:"at_once"`              // most candidates of one race; 0 is 4
	RaceBlocks int           `json:"race_blocks"`          // most blocks of one race; 0 is 8
	TrimBlocks int           `json:"trim_blocks"`          // blocks of trimming and of a plateau; 0 is 6
	Thorough   bool          `json:"thorough,omitempty"`   // screen what no finding names once, where that leaves something to gain
	Seed       uint64        `json:"seed,omitempty"`       // of the order of a screening
	NoPlateau  bool          `json:"no_plateau,omitempty"` // take the size that won, without looking for a smaller one
	Adapt      bool          `json:"adapt,omitempty"`      // the length of runs follows from pilots, which are as long as the plan says
	RTT        time.Duration `json:"rtt_ns,omitempty"`     // of the path without load, 0 where it is not known
}

// Enough is the share of the ceiling from which nothing is left to gain, unless
// Options say otherwise (diagnosis.md section 1, step 4).
const Enough = 0.97

// Defaults of Options (p).
const (
	defaultAtOnce = 4
	defaultRace   = 8
	leastBlocks   = 2    // before anything is accepted
	leastDrop     = 3    // before anything is dropped for want of effect
	raceLevel     = 0.90 // one-sided; the confirmation stands behind it (statistics.md section 11.4)
	trimLevel     = 0.95
	harmLevel     = 0.99 // at which a guard condemns before a race is over: what it says is for good
	plateauLevels = 4    // values of a size that are compared, a factor of 2 apart
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

// RaceTime is how long one candidate races, at least and at most, given the time of a
// run.
func RaceTime(o Options, run time.Duration) (least, most time.Duration) {
	o = o.withDefaults()
	return 2 * leastBlocks * run, 2 * time.Duration(o.RaceBlocks) * run
}

// Idea is a candidate as the machine is told of it.
type Idea struct {
	candidate.Candidate
	Risk    string `json:"risk,omitempty"`    // what a bad value can do
	Ask     string `json:"ask,omitempty"`     // why a person has to agree before it is tried, "" for nothing
	Refused string `json:"refused,omitempty"` // why it may not be tried at all, "" for nothing
}

// Look is a diagnosis of the incumbent.
type Look struct {
	// Reached is the share of the ceiling by direction that is tuned, as far as the
	// ceiling is known. A direction that is missing is not tuned.
	Reached map[model.Direction]fact.Of[float64] `json:"reached"`
	Ideas   []Idea                               `json:"ideas,omitempty"` // those of the main finding first
	// Rest are the best guesses for all settings that may matter, whatever was found: what
	// a thorough search screens.
	Rest []Idea `json:"rest,omitempty"`
	// Limits says what holds each direction back, as the second half of a sentence.
	Limits map[model.Direction]string `json:"limits,omitempty"`
}

// Reading is what one run of a block said.
type Reading struct {
	// Failed is why the setting broke the run, "" for a valid one. Such a setting
	// never returns.
	Failed string
	Log    float64   // of what decides, positive good, as stats.LogValue has it
	Harm   []float64 // of each guard's metric, as Log, or the value itself where it can be 0; NaN where there is none
}

// Block is one reading of every setting of a step, by name.
type Block map[string]Reading

// Kind says what a step asks for.
type Kind string

// The kinds of steps.
const (
	KindLook    Kind = "look"    // diagnose Settings[0], answer with Looked
	KindAsk     Kind = "ask"     // may Settings[0] be tried? answer with Answered
	KindRace    Kind = "race"    // measure a block, answer with Measured
	KindScreen  Kind = "screen"  // same; two settings, each with about half of what is screened
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

// State is what became of an idea.
type State string

// The states of an idea.
const (
	Waiting   State = "not tried"
	Racing    State = "in play"
	Helped    State = "helped"
	NoEffect  State = "no effect"
	Harmful   State = "worse"
	Guarded   State = "harms" // a guard
	Broke     State = "failed"
	Undecided State = "undecided"
	Trimmed   State = "needless" // helped at first, the end is as good without it
)

// Fate is an idea and what became of it.
type Fate struct {
	Idea
	State  State       `json:"state"`
	Detail string      `json:"detail,omitempty"` // why, in words
	Gain   model.Bound `json:"gain"`             // mean log ratio over the incumbent of its race, NaN where it was not measured
	Blocks int         `json:"blocks,omitempty"` // of its race

	members []*Fate // of several settings that are tried together
	weak    bool    // it gained something, but less than the margin for sure: trimming has to show that it is needed
}

// Baseline is the name of the setting that changes nothing.
const Baseline = "current"

// Machine is the search. Make one with New; it is not safe for concurrent use.
type Machine struct {
	o         Options
	kind      Kind
	reason    string
	incumbent model.Setting
	accepted  []*Fate // what the incumbent consists of, in the order of acceptance
	fates     []*Fate
	tried     map[string]bool // "incumbent\x00candidate": said no there
	refused   map[string]bool // persons said no
	agreed    map[string]bool
	race      race
	runs      int
	most      int // runs that the payload has room for, 0 for no limit
	asking    *Fate
	reached   map[model.Direction]fact.Of[float64]
	trimmedAt map[model.Direction]bool // nothing more can be left out
	plateaued map[string]bool
	seen      []Idea // by looks at the incumbent called seenAt
	seenAt    string
	screen    screening
	screened  map[model.Direction]bool
	active    []*Fate // what screenings found
}

// race is what is being measured beside the incumbent.
type race struct {
	direction model.Direction
	settings  []model.Setting // the incumbent first
	of        []*Fate         // of settings[1:]
	logs      map[string][]float64
	harm      map[string][][]float64
	blocks    int
}

// New returns a search at its start.
func New(o Options) *Machine {
	return &Machine{
		o: o.withDefaults(), kind: KindLook, incumbent: model.Setting{Name: Baseline}, tried: map[string]bool{}, refused: map[string]bool{},
		agreed: map[string]bool{}, trimmedAt: map[model.Direction]bool{}, plateaued: map[string]bool{}, screened: map[model.Direction]bool{},
	}
}

// Next returns what to do now. It is the same until it was answered.
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

// Fates returns what became of every idea so far, in the order in which they came up.
func (m *Machine) Fates() []Fate {
	out := make([]Fate, len(m.fates))
	for i, f := range m.fates {
		out[i] = *f
	}
	return out
}

// Winner returns the incumbent, and false while it is the baseline.
func (m *Machine) Winner() (model.Setting, bool) { return m.incumbent, len(m.accepted) > 0 }

// Reached returns the share of the ceiling that the last look found, by direction.
func (m *Machine) Reached() map[model.Direction]fact.Of[float64] { return m.reached }

// Runs returns how many runs were measured.
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

// merged are the ideas of a look, and after them those of earlier looks at the same
// incumbent: a short run may miss what another one showed.
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

// know remembers an idea. One that came up before keeps its fate, unless it said
// no beside another incumbent.
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

// begin starts to measure the settings that make gives for fates beside the incumbent.
func (m *Machine) begin(k Kind, d model.Direction, fates []*Fate, make func(*Fate) model.Setting) {
	m.kind, m.race = k, race{direction: d, settings: []model.Setting{m.incumbent}, of: fates, logs: map[string][]float64{}, harm: map[string][][]float64{}}
	for _, f := range fates {
		m.race.settings = append(m.race.settings, make(f))
		if k == KindRace {
			f.State = Racing
		}
	}
}

// with is the incumbent with f's setting in it, in place of another level of it.
func (m *Machine) with(f *Fate) model.Setting {
	parts := f.parts()
	kept := slices.DeleteFunc(slices.Clone(m.accepted), func(o *Fate) bool {
		return slices.ContainsFunc(parts, func(p *Fate) bool { return p.Levels == o.Levels })
	})
	return join(append(kept, parts...))
}

// parts are the single settings that f stands for.
func (f *Fate) parts() []*Fate {
	if len(f.members) > 0 {
		return f.members
	}
	return []*Fate{f}
}

// without is the incumbent less f.
func (m *Machine) without(f *Fate) model.Setting {
	return join(slices.DeleteFunc(slices.Clone(m.accepted), func(o *Fate) bool { return o == f }))
}

// and stands between the names of settings that are one.
const and = " + "

// join is the setting of all fates; of two values of one knob the later holds, and of two
// limits that were raised to make room for a buffer the larger.
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
