package tune

import (
	"math"
	"slices"
	"time"

	"linerate/internal/core/candidate"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Cost is the approximate time of a search's runs, including overhead.
type Cost struct {
	Pilot time.Duration // of a look, and of the first block of a race
	Run   time.Duration // of later blocks, and of the proof
	Fine  time.Duration // of trimming and of a plateau
}

// Proof estimates the confirmation of a setting that helps a lot, with so many directions: a third
// of its blocks has a run at equal load.
func (c Cost) Proof(directions int) time.Duration {
	return time.Duration(7*stats.RankBlocks/3+2*stats.WatchBlocks*(directions-1)) * c.Run
}

// Least estimates the shortest search that can find something: a look, one race, and the
// confirmation.
func (c Cost) Least(directions int) time.Duration {
	return time.Duration(directions)*c.Pilot + 2*c.Pilot + 2*(leastDrop-1)*c.Run + c.Proof(directions)
}

// Expected blocks if a setting helps a lot.
const (
	usualRace    = leastBlocks
	usualTrim    = leastDrop
	usualPlateau = leastDrop
)

// Expect estimates how much longer the search and its confirmation take if the candidates help
// a lot and so many directions are measured: all remaining steps together. The suspects, which
// the facts named before the first run, are expected to be needed; without one, one setting
// is. It is short if nothing is left to gain.
func (m *Machine) Expect(c Cost, directions int, suspects []candidate.Suspect) time.Duration {
	left := slices.DeleteFunc(slices.Clone(suspects), func(s candidate.Suspect) bool {
		return slices.ContainsFunc(m.accepted, func(f *Fate) bool { return f.Levels == s.Levels })
	})
	steps := len(left)
	if len(m.accepted)+steps == 0 {
		steps = 1
	}
	total := c.Proof(directions)
	switch m.kind {
	case KindEnd:
		return 0
	case KindConfirm:
		return total
	case KindLook, KindAsk, KindRace, KindScreen:
		if len(m.accepted) == 0 {
			total += time.Duration(directions-1) * c.Pilot // looks at the other directions afterwards
			if m.kind == KindLook {
				total += time.Duration(directions) * c.Pilot
			}
		}
		total += time.Duration(steps) * (3*c.Pilot + 3*(usualRace-1)*c.Run)
		if m.kind == KindRace && m.race.blocks > 0 {
			total -= 3 * c.Pilot
		}
		if of := len(m.accepted) + steps; of > 1 {
			total += time.Duration(usualTrim*(of+1)) * c.Fine
		}
	case KindTrim:
		total += time.Duration(max(1, usualTrim-m.race.blocks)*len(m.race.settings)) * c.Fine
	case KindPlateau:
		total += time.Duration(max(1, usualPlateau-m.race.blocks)*len(m.race.settings)) * c.Fine
	}
	return total + time.Duration(m.plateaus(left))*c.Fine
}

// plateaus returns about how many runs the plateaus take that have not begun.
func (m *Machine) plateaus(suspects []candidate.Suspect) int {
	if m.o.NoPlateau {
		return 0
	}
	fates := slices.DeleteFunc(slices.Clone(m.accepted), func(f *Fate) bool { return m.plateaued[f.Levels] })
	for _, s := range suspects {
		f := &Fate{Idea: Idea{Candidate: s.Candidate}, Gain: model.Bound(math.NaN())}
		if s.Holds > 0 {
			f.Gain = model.Bound(-math.Log(s.Holds))
		}
		fates = append(fates, f)
	}
	runs := 0
	for _, f := range fates {
		if n := len(lower(f)); n > 0 {
			runs += leastBlocks*(n+1) + 2*(usualPlateau-leastBlocks)
		}
	}
	return runs
}
