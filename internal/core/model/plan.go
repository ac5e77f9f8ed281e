package model

import (
	"slices"
	"time"

	"linerate/internal/core/units"
)

// Mode says how an experiment ends.
type Mode string

// The modes of statistics.md sections 4 and 5; they are never mixed.
const (
	FixedBlocks Mode = "fixed"      // a number of blocks given beforehand, judged once at the end
	Sequential  Mode = "sequential" // until decided, by evidence that may be inspected at any time
)

// Plan is an experiment, complete before its first run: Order fixes what runs
// when, so that an interrupted session continues as if nothing had happened.
type Plan struct {
	Settings []Setting `json:"settings"`         // the baseline is among them
	Baseline string    `json:"baseline"`         // name of a setting
	Twin     string    `json:"twin,omitempty"`   // name of the null twin among Settings, "" for none
	Factor   KnobID    `json:"factor,omitempty"` // the single numeric knob whose levels are the settings, if there is one
	Levels   []string  `json:"levels,omitempty"` // names of the settings among which to find the smallest good one, ascending
	// Factors are varied together: every combination of their levels is a setting.
	Factors []Factor `json:"factors,omitempty"`
	// Incomplete says that each block holds the baseline and only some of the other settings.
	Incomplete bool        `json:"incomplete,omitempty"`
	Held       KnobID      `json:"held,omitempty"` // the knob whose value is held over a group of runs inside a block, "" for none
	Flow       Flow        `json:"flow"`           // of every run, before a setting's flow knobs
	Directions []Direction `json:"directions"`     // each setting of a block is run once per entry, in random order
	// Watched are directions that the settings are not meant for: the first WatchBlocks blocks
	// measure them too, to detect harm there.
	Watched     []Direction   `json:"watched,omitempty"`
	WatchBlocks int           `json:"watch_blocks,omitempty"`
	Mode        Mode          `json:"mode"`                //
	MaxBlocks   int           `json:"max_blocks"`          // number of blocks (fixed) or most blocks (sequential)
	Budget      time.Duration `json:"budget_ns"`           // time limit for everything; 0 is no limit
	Data        units.Bytes   `json:"data,omitempty"`      // payload after which no further block begins; 0 is no limit
	Objective   Metric        `json:"objective,omitempty"` // the metric that decides; "" is Goodput, as in plans without a choice
	Guards      []Guard       `json:"guards,omitempty"`    // what a setting must not harm, whatever it gains
	Margin      units.Percent `json:"margin"`              // smallest change that matters
	Tolerance   units.Percent `json:"tolerance"`           // of the plateau search
	Confidence  float64       `json:"confidence"`          // 0.95
	Settle      time.Duration `json:"settle_ns"`           // after applying a setting
	Cooldown    time.Duration `json:"cooldown_ns"`         // after each run
	Seed        uint64        `json:"seed"`                //
	NullBlocks  int           `json:"null_blocks"`         // this many blocks at the start are baseline pairs (two settings, or a held knob)
	Order       [][]string    `json:"order"`               // names of settings, per block; len is NullBlocks + MaxBlocks
	Search      *RateSearch   `json:"search,omitempty"`    // instead of blocks: the highest rate with little loss
	Path        DataPath      `json:"path,omitzero"`       // how to make its data connections
	Tests       []Test        `json:"tests,omitempty"`     // instead of blocks: one run each, in this order
	Ends        []End         `json:"ends,omitempty"`      // far ends of settings, other than the session's
	Hooks       []Assignment  `json:"hooks,omitempty"`     // HookKnob, at most one for each host: commands around every run
}

// Factor is one of several things that an experiment varies together.
type Factor struct {
	Name   string  `json:"name"`           // short, part of the names of settings: "mtu"
	Host   Host    `json:"host,omitempty"` // "" for the flow, or for both hosts
	Knob   KnobID  `json:"knob,omitempty"` // "" if its levels are sets of assignments
	Levels []Level `json:"levels"`
}

// Level is one level of a factor.
type Level struct {
	Name  string `json:"name"`            // "mtu=9000", or what the person called a set
	Value string `json:"value,omitempty"` // canonical; "" for a set
}

// Decides returns the objective, with its default.
func (p *Plan) Decides() Metric {
	if p.Objective == "" {
		return Goodput
	}
	return p.Objective
}

// Ways returns the directions in which a block measures every setting.
func (p *Plan) Ways(block int) []Direction {
	if block > p.NullBlocks && block <= p.NullBlocks+p.WatchBlocks {
		return slices.Concat(p.Directions, p.Watched)
	}
	return p.Directions
}

// RunsIn returns how many runs a block has, without those at equal load.
func (p *Plan) RunsIn(block int) int { return len(p.Order[block-1]) * max(1, len(p.Ways(block))) }

// Runs returns how many runs all blocks have.
func (p *Plan) Runs() int {
	n := 0
	for i := range p.Order {
		n += p.RunsIn(i + 1)
	}
	return n
}

// DecidedBy reports whether v is on the objective, in a direction that counts for it: in a
// watched direction it is a guard.
func (p *Plan) DecidedBy(v *Verdict) bool {
	return !v.IsTwin && v.Metric == p.Decides() && v.Guard == nil
}

// Guard is a metric that a setting must not worsen by Margin or more
// (statistics.md section 6.4).
type Guard struct {
	Metric  Metric  `json:"metric"`
	Margin  float64 `json:"margin"`            // percent; for metrics that can be 0 in their own unit: 0.005 of loss is half a percent of all packets
	Default bool    `json:"default,omitempty"` // not requested by the user: ignored if runs have no such value
}

// RateSearch asks for the highest rate of paced UDP whose loss stays below a limit; package
// search finds it.
type RateSearch struct {
	Low        units.BitRate `json:"low"`        // lowest rate to try, payload
	High       units.BitRate `json:"high"`       // highest rate to try
	Limit      float64       `json:"limit"`      // of loss, 0…1
	Resolution float64       `json:"resolution"` // 0.02 is 2 %
	Repeats    int           `json:"repeats"`    // runs at the resulting rate
}

// Setting returns the setting named name.
func (p *Plan) Setting(name string) (Setting, bool) {
	for _, s := range p.Settings {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

// RunLength returns the least time for one run of the plan, with settling and cool-down; if a
// byte count ends the run, its measured part counts as 0.
func (p *Plan) RunLength() time.Duration {
	measured := p.Flow.Length()
	if p.Flow.Points > 0 && p.Flow.Duration == 0 {
		measured = time.Duration(p.Flow.Points) * sizeTime
	}
	return p.Settle + measured + p.Cooldown
}

// Timed reports whether the length of a run is known beforehand: not if a byte count ends it.
func (p *Plan) Timed() bool { return p.Flow.Duration > 0 || p.Flow.Points > 0 }

// sizeTime is the approximate time per message size of a sweep; only a forecast.
const sizeTime = 200 * time.Millisecond
