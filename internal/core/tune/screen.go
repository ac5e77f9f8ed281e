package tune

import (
	"math"
	"math/rand/v2"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Limits of a screening (p).
const (
	fewToScreen = 3 // raced at once instead: no design is smaller
	mostBroken  = 8 // failed runs after which the screening is given up
)

// screening finds those settings that may matter, among the ones that no finding names: each
// block is a row of a two-level design and its mirror image (statistics.md section 11.2).
type screening struct {
	direction model.Direction
	of        []*Fate // the settings of the first columns of design
	design    [][]int
	left      []int // rows of design still to be measured, in this order
	rows      [][]int
	d         []float64 // differences row − mirror, of rows
	bad       [][]*Fate // the settings in each failed run
	sound     []*Fate   // the settings in runs that did not fail, since the first failure
	why       string    // reason of a failure
	broken    int
}

// remaining returns the settings that are left to screen in a direction, nil if that was done
// or is not requested.
func (m *Machine) remaining(l Look, d model.Direction) []*Fate {
	var out []*Fate
	if !m.o.Thorough || m.screened[d] {
		return nil
	}
	for _, idea := range l.Rest {
		spoilt := func(f *Fate) bool {
			return f.Levels == idea.Levels && slices.Contains([]State{Helped, Guarded, Broke, Harmful}, f.State)
		}
		if idea.Direction != d || idea.Ask != "" || idea.Refused != "" || m.refused[idea.Setting.Name] || slices.ContainsFunc(m.fates, spoilt) || len(out) == stats.ScreenMost {
			continue
		}
		m.know(idea)
		out = append(out, m.fate(idea.Setting.Name))
	}
	return out
}

// screenRest starts the screening of the remaining settings of a direction.
func (m *Machine) screenRest(d model.Direction, rest []*Fate) {
	m.screened[d] = true
	if len(rest) <= fewToScreen {
		m.found(rest)
		m.kind = KindLook
		return
	}
	s := screening{direction: d, of: rest, design: stats.Screen(len(rest))}
	s.left = rand.New(rand.NewPCG(m.o.Seed, uint64(len(m.fates)))).Perm(len(s.design))
	if runs := 2*len(s.design) + 2*leastDrop; m.exceeds(runs) {
		m.conclude(BudgetSpent)
		return
	}
	for _, f := range rest {
		f.State = Racing
	}
	m.kind, m.screen = KindScreen, s
}

// half returns the settings in a row of the design or, with sign −1, in its mirror image.
func (s *screening) half(row []int, sign int) []*Fate {
	var out []*Fate
	for i, f := range s.of {
		if row[i]*sign > 0 && f.State != Broke {
			out = append(out, f)
		}
	}
	return out
}

// pair returns the two settings of the next block of a screening.
func (m *Machine) pair() []model.Setting {
	var out []model.Setting
	for _, sign := range []int{1, -1} {
		set := m.incumbent
		if in := m.screen.half(m.screen.design[m.screen.left[0]], sign); len(in) > 0 {
			set = m.with(&Fate{members: in})
		}
		out = append(out, set)
	}
	return out
}

// screenedPair takes over one block. A pair with a failed run is repeated at the end, without
// the setting that breaks runs once that is known.
func (m *Machine) screenedPair(b Block) {
	s, pair := &m.screen, m.pair()
	at := s.left[0]
	row, mirror := b[pair[0].Name], b[pair[1].Name]
	s.left = s.left[1:]
	if row.Failed == "" && mirror.Failed == "" {
		s.rows, s.d = append(s.rows, s.design[at]), append(s.d, row.Log-mirror.Log)
		s.bad, s.sound = nil, nil // each setting was in one of the two
	} else {
		s.left = append(s.left, at)
		s.fail(s.half(s.design[at], 1), row.Failed)
		s.fail(s.half(s.design[at], -1), mirror.Failed)
		s.blame()
	}
	over := !slices.ContainsFunc(s.of, func(f *Fate) bool { return f.State != Broke })
	if len(s.left) == 0 || over || s.broken >= mostBroken || m.exceeds(2) {
		m.screenEnds()
	}
}

// fail records the settings of a run, and whether it failed.
func (s *screening) fail(in []*Fate, why string) {
	if why == "" {
		s.sound = append(s.sound, in...)
		return
	}
	s.bad, s.why = append(s.bad, in), why
	s.broken++
}

// blame marks the setting that was in every failed run and in no other one, if there is exactly
// one.
func (s *screening) blame() {
	var all []*Fate
	for _, f := range s.of {
		guilty := !slices.Contains(s.sound, f)
		for _, in := range s.bad {
			guilty = guilty && slices.Contains(in, f)
		}
		if guilty {
			all = append(all, f)
		}
	}
	if len(all) == 1 {
		all[0].State, all[0].Detail = Broke, s.why
		s.bad, s.sound, s.broken = nil, nil, 0
	}
}

// screenEnds separates the settings that may matter from the rest. A setting without a proven
// gain is out; a miss costs more than a superfluous one, which the race removes.
func (m *Machine) screenEnds() {
	s := &m.screen
	if len(s.left) > 0 { // given up: only all rows together make the columns orthogonal
		for _, f := range s.of {
			if f.State == Racing {
				f.State, f.Detail = Undecided, "its screening came to no end"
			}
		}
		m.lookAgain()
		return
	}
	effects := stats.Effects(s.rows, s.d)
	least := stats.ScreenKeep * stats.Lenth(effects)
	var active []*Fate
	for i, f := range s.of {
		if f.State == Broke {
			continue
		}
		f.Gain, f.Blocks, f.State, f.Detail = model.Bound(effects[i]), len(s.rows), NoEffect, "screened"
		switch e := effects[i]; {
		case e > max(least, 0):
			f.Detail = ""
			active = append(active, f)
		case e < -max(least, m.o.Margin):
			f.State = Harmful
		}
	}
	m.found(active)
	m.lookAgain()
}

// found queues the settings that a screening found for a race.
func (m *Machine) found(active []*Fate) {
	for _, f := range active {
		f.State, f.Gain, f.Blocks = Waiting, model.Bound(math.NaN()), 0
	}
	m.active = append(m.active, active...)
}

// raceFound races the settings that a screening found, first all together, then each: it
// reports false if none is left. Trimming has to show that each is needed.
func (m *Machine) raceFound(d model.Direction) bool {
	var waiting []*Fate
	for _, f := range m.active {
		if f.State == Waiting && f.Direction == d {
			f.weak = true
			waiting = append(waiting, f)
		}
	}
	n := min(len(waiting), m.o.AtOnce)
	switch all := m.joint(waiting, d); {
	case all != nil && all.State == Waiting:
		m.begin(KindRace, d, []*Fate{all}, m.with)
	case n > 0 && m.affords(n+1):
		m.begin(KindRace, d, waiting[:n], m.with)
	default:
		return false
	}
	return true
}
