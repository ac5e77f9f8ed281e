package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"linerate/internal/core/model"
)

// NothingLeft is the reason of a search that ends below the ceiling without another idea.
const NothingLeft = "no other setting is known to help"

// BudgetSpent is the reason of a search that its budget cut short.
const BudgetSpent = "the rest of the budget is too small for another comparison"

// NoneAllowed is the reason of a search that knows what could help and may try none of it.
const NoneAllowed = "what could help may not be tried"

// choose starts the next race, asks the user, or continues with trimming.
func (m *Machine) choose(l Look) {
	for _, d := range m.open(l) {
		var round []*Fate
		var ask *Fate
		for _, levels := range groups(l.Ideas, d) {
			f := m.pick(levels)
			switch {
			case f == nil || len(round) == m.o.AtOnce || m.waits(f.Levels):
			case len(round) > 0 && f.Rule != round[0].Rule: // the main limit comes first
			case f.Ask == "":
				round = append(round, f)
			case ask == nil:
				ask = f
			}
		}
		switch {
		case len(round) > 0 && !m.affords(len(round)+1):
			m.conclude(BudgetSpent)
			return
		case len(round) > 0:
			m.begin(KindRace, d, round, m.with)
			return
		}
		if m.goOn(d) {
			return
		}
		if all := m.together(l, d); all != nil {
			m.begin(KindRace, d, []*Fate{all}, m.with)
			return
		}
		if rest := m.remaining(l, d); len(rest) > 0 {
			m.screenRest(d, rest)
			return
		}
		switch {
		case m.raceFound(d):
			return
		case ask != nil && m.agreed[ask.Setting.Name]: // alone, and last (statistics.md section 11.3)
			m.begin(KindRace, d, []*Fate{ask}, m.with)
			return
		case ask != nil:
			m.kind, m.asking = KindAsk, ask
			return
		}
	}
	reason := NothingLeft
	switch {
	case len(m.fates) > 0 && !slices.ContainsFunc(m.fates, func(f *Fate) bool { return f.Refused == "" }):
		reason = NoneAllowed
	case !m.affords(2):
		reason = BudgetSpent
	}
	if len(l.Reached) > 0 && len(m.open(l)) == 0 {
		reason = fmt.Sprintf("its runs reached at least %.0f %% of what the path can carry", 100*m.o.Enough)
		if m.o.Objective != model.Goodput {
			reason = "it is within " + strconv.Itoa(int(math.Round(100*(1-m.o.Enough)))) + " % of the least that the path allows"
		}
	}
	m.conclude(reason)
}

// open returns the directions with something left to gain, the widest gap first.
func (m *Machine) open(l Look) []model.Direction {
	var out []model.Direction
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		if r, tuned := l.Reached[d]; tuned && r.Or(0) < m.o.Enough {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b model.Direction) int { return cmp.Compare(l.Reached[a].Or(0), l.Reached[b].Or(0)) })
	return out
}

// groups returns the ideas of a direction, grouped by the factor that they are levels of, in
// order.
func groups(ideas []Idea, d model.Direction) [][]Idea {
	var out [][]Idea
	for _, idea := range ideas {
		if idea.Direction != d {
			continue
		}
		i := slices.IndexFunc(out, func(g []Idea) bool { return g[0].Levels == idea.Levels })
		if i < 0 {
			out = append(out, []Idea{idea})
			continue
		}
		out[i] = append(out[i], idea)
	}
	return out
}

// pick returns the most promising level of a setting that was not tried beside this incumbent:
// the smallest that allows the highest rate or, if the rate is a guard rather than the
// objective, the strongest. Levels come from the mildest to the strongest: one that did harm
// leaves the milder ones, and rules out the stronger; one that had no effect, or broke, rules
// out its whole setting.
func (m *Machine) pick(levels []Idea) *Fate {
	var best *Fate
	for _, idea := range levels {
		f := m.fate(idea.Setting.Name)
		no := m.tried[m.incumbent.Name+"\x00"+idea.Setting.Name]
		switch {
		case f.State == Guarded || no && f.State == Harmful:
			return best
		case f.Refused != "" || m.refused[idea.Setting.Name] || f.State == Helped || f.State == Trimmed:
			continue
		case no || f.State == Broke:
			return nil
		}
		if best == nil || f.Allows.Or(0) > best.Allows.Or(0) || m.o.Objective != model.Goodput {
			best = f
		}
	}
	return best
}

// together combines all settings that did not help alone: two equally narrow limits hide each
// other. It returns nil if that was tried beside this incumbent, or there are fewer than two.
func (m *Machine) together(l Look, d model.Direction) *Fate {
	var members []*Fate
	for _, levels := range groups(l.Ideas, d) {
		for _, idea := range levels {
			if f := m.fate(idea.Setting.Name); (f.State == NoEffect || f.State == Undecided) && float64(f.Gain) > -m.o.Margin {
				members = append(members, f)
				break
			}
		}
	}
	return m.joint(members, d)
}

// joint combines members into one fate, nil if there are fewer than two, one of them sets all
// that the others do, or they were tried together beside this incumbent.
func (m *Machine) joint(members []*Fate, d model.Direction) *Fate {
	all := &Fate{State: Waiting, Gain: model.Bound(math.NaN()), members: members}
	all.Setting = join(members)
	all.Direction, all.Levels = d, all.Setting.Name
	f := m.fate(all.Setting.Name)
	alone := func(one *Fate) bool { return len(one.Setting.Assignments) == len(all.Setting.Assignments) }
	if len(members) < 2 || slices.ContainsFunc(members, alone) || f != nil && m.tried[m.incumbent.Name+"\x00"+all.Setting.Name] || !m.affords(2) {
		return nil
	}
	if f != nil {
		return f
	}
	m.fates = append(m.fates, all)
	return all
}

// affords reports whether the budget allows the shortest race of n settings.
func (m *Machine) affords(n int) bool { return !m.exceeds(n * leastDrop) }

// exceeds reports whether n more runs exceed the budget.
func (m *Machine) exceeds(n int) bool { return m.most > 0 && m.runs+n > m.most }
