// Package judge compares linerate's findings in labs with the faults planted in them.
//
// A finding is a claim unless its kind is "not found" or "no evidence". If a planted limit did
// not bite in a direction, since the receiver measured nearlyFull of the ceiling all the same,
// the full path is right as the first finding.
package judge

import (
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/lab/faults"
)

// nearlyFull is the share of the ceiling at which a path is full (diagnosis.md section 4.0,
// rule 2).
const nearlyFull = 0.90

// Said is one finding, and whether it is right.
type Said struct {
	Direction  model.Direction   `json:"direction"`
	Rule       string            `json:"rule"`
	Host       model.Host        `json:"host"`
	Kind       model.FindingKind `json:"kind,omitempty"`
	Confidence float64           `json:"confidence"`
	Right      bool              `json:"right"`
	// Part reports that a part of the rule's evidence was missing.
	Part bool `json:"part,omitempty"`
}

// claims reports whether a finding makes a claim.
func (s Said) claims() bool {
	return s.Kind != model.FindingNotFound && s.Kind != model.FindingTooShort
}

// Row is one judged case.
type Row struct {
	Seed  uint64 `json:"seed"`
	Kind  string `json:"kind"`
	Clean bool   `json:"clean"`
	// Command is the command that was run: check, check --quick or test.
	Command string  `json:"command"`
	Seconds float64 `json:"seconds"`
	// Others is how many cores other work on the machine took meanwhile, and Late the share of
	// the time for which a sleeper beside the lab was woken late: then the wire was not in time
	// either.
	Others float64 `json:"others"`
	Late   float64 `json:"late"`
	// Stolen is the share of CPU time that a hypervisor gave to other guests: findings about it
	// are right, whatever was planted.
	Stolen float64 `json:"stolen"`
	// Failed is why there is no result.
	Failed string `json:"failed,omitempty"`
	// Bit is false if the path was full despite a plant.
	Bit bool `json:"bit"`
	// First is whether the first finding of every planted direction is right, or of every
	// direction of a clean path.
	First bool `json:"first"`
	// All is whether in addition every claim is right, every required finding is present, and
	// the other direction has its right answer.
	All bool `json:"all"`
	// False counts the wrong claims on a clean path.
	False int    `json:"false"`
	Said  []Said `json:"said,omitempty"`
	// Place and Named are the result for the place in a case with routers: Named is the rule of
	// the first finding, with the nodes that it names.
	Place Place  `json:"place,omitempty"`
	Named string `json:"named,omitempty"`
}

// stealing is the share of stolen time that makes it a finding (diagnosis.md B23).
const stealing = 0.05

// Score judges the findings of a session against a case. stolen is the share of CPU time stolen
// during the whole case; single runs may have had twice as much.
func Score(c faults.Case, s *model.Session, stolen float64) Row {
	r := Row{Stolen: stolen, Seed: c.Seed, Kind: c.Kind, Clean: c.Clean, First: true, All: true, Bit: true}
	if c.Located != nil {
		r.located(*c.Located, s)
	}
	for _, l := range c.Labels {
		if 2*stolen >= stealing {
			l.May = append(slices.Clone(l.May), faults.Answer{Rule: "B23", Host: faults.Any})
		}
		var of []model.Finding
		for _, f := range s.Findings {
			if f.Direction == l.Direction {
				of = append(of, f)
			}
		}
		r.direction(l, of, reached(s, l) >= nearlyFull)
	}
	return r
}

// reached returns the share of the ceiling that the first valid run of a direction measured.
func reached(s *model.Session, l faults.Label) float64 {
	for _, run := range s.Runs {
		if v, ok := run.Value(l.Direction, model.Goodput); ok && run.State == model.RunValid && run.Setting == s.Plan.Baseline && l.Ceiling > 0 {
			return v / float64(l.Ceiling)
		}
	}
	return 0
}

// direction judges the findings of one direction.
func (r *Row) direction(l faults.Label, of []model.Finding, full bool) {
	first := l.First
	if l.Planted && full && !answers(first, "ceiling", "") {
		r.Bit = false
		first = append(slices.Clone(first), faults.Answer{Rule: "ceiling", Host: faults.Any})
	}
	right := func(f model.Finding) bool {
		return answers(first, f.Rule, f.Host) || answers(l.May, f.Rule, f.Host) ||
			slices.ContainsFunc(l.Named, func(set []faults.Answer) bool { return answers(set, f.Rule, f.Host) })
	}
	firstRight := len(of) > 0 && answers(first, of[0].Rule, of[0].Host)
	if !firstRight {
		r.All = false
		if l.Planted || r.Clean {
			r.First = false
		}
	}
	for _, f := range of {
		s := Said{Direction: f.Direction, Rule: f.Rule, Host: f.Host, Kind: f.Kind, Confidence: f.Confidence, Right: right(f), Part: len(f.Missing) > 0}
		r.Said = append(r.Said, s)
		if !s.Right {
			r.All = false
		}
		if s.claims() && !s.Right && r.Clean {
			r.False++
		}
	}
	for _, set := range l.Named {
		if !slices.ContainsFunc(of, func(f model.Finding) bool { return answers(set, f.Rule, f.Host) }) {
			r.All = false
		}
	}
}

func answers(set []faults.Answer, rule string, host model.Host) bool {
	return slices.ContainsFunc(set, func(a faults.Answer) bool { return a.Is(rule, host) })
}
