package tune

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Measured answers KindRace, KindScreen, KindTrim and KindPlateau with one block. A block in
// which the incumbent failed is discarded and requested again.
func (m *Machine) Measured(b Block) {
	r := &m.race
	m.runs += len(b)
	if m.kind == KindScreen {
		m.screenedPair(b)
		return
	}
	if b[m.incumbent.Name].Failed != "" {
		return
	}
	for i, s := range r.settings {
		reading, measured := b[s.Name]
		switch {
		case !measured:
		case reading.Failed != "":
			m.broke(i, reading.Failed)
		default:
			r.logs[s.Name] = append(r.logs[s.Name], reading.Log)
			r.harm[s.Name] = append(r.harm[s.Name], reading.Harm)
		}
	}
	r.blocks++
	m.drop(func(f *Fate) bool { return f.State == Broke })
	switch m.kind {
	case KindRace:
		m.raced()
	case KindTrim:
		m.trimmed()
	case KindPlateau:
		m.levelled()
	case KindLook, KindAsk, KindScreen, KindConfirm, KindEnd:
	}
}

// broke rules out a setting that broke its run. While trimming, the smaller setting broke, so
// the larger one stays.
func (m *Machine) broke(i int, why string) {
	if f := m.race.of[max(0, i-1)]; m.kind == KindRace {
		f.State, f.Detail = Broke, why
		return
	}
	m.race.logs[m.race.settings[i].Name] = nil
}

// drop removes candidates from the race.
func (m *Machine) drop(out func(*Fate) bool) {
	r := &m.race
	for i, v := range slices.Backward(r.of) {
		if out(v) {
			r.of = slices.Delete(r.of, i, i+1)
			r.settings = slices.Delete(r.settings, i+1, i+2)
		}
	}
}

// gains returns the differences of the i-th candidate from the incumbent, by block.
func (r *race) gains(i int) []float64 {
	base, own := r.logs[r.settings[0].Name], r.logs[r.settings[i+1].Name]
	n := min(len(base), len(own))
	out := make([]float64, n)
	for j := range out {
		out[j] = own[len(own)-n+j] - base[len(base)-n+j]
	}
	return out
}

// harmed returns the first guard that the i-th candidate harms by its margin on the average of
// the blocks, "" for none, and whether that harm is likely or even proven: a latency tail varies
// by more than its margin from one short run to the next.
func (r *race) harmed(i int, guards []model.Guard) (what string, likely, shown bool) {
	base, own := r.harm[r.settings[0].Name], r.harm[r.settings[i+1].Name]
	for g, guard := range guards {
		var d, values []float64 // harm as a positive number, and the values with it
		for j := range min(len(base), len(own)) {
			if g < len(base[j]) && g < len(own[j]) && !math.IsNaN(own[j][g]-base[j][g]) {
				d, values = append(d, base[j][g]-own[j][g]), append(values, own[j][g])
			}
		}
		if metric.IsNegligible(guard, math.Exp(-stats.Median(values))) {
			continue
		}
		margin := metric.Harm(guard, 1)
		if len(d) < leastBlocks || stats.Mean(d) < margin {
			continue
		}
		if len(d) >= leastDrop && stats.TBound(d, harmLevel) > margin {
			return string(guard.Metric), true, true
		}
		if is := stats.TBound(d, raceLevel) > margin; what == "" || is && !likely {
			what, likely = string(guard.Metric), is
		}
	}
	return what, likely, false
}

// raced decides after a block of a race which candidates are out and which becomes the
// incumbent.
func (m *Machine) raced() {
	r, best, most := &m.race, -1, math.Inf(-1)
	for i, f := range r.of {
		d := r.gains(i)
		f.Gain, f.Blocks = model.Bound(stats.Mean(d)), len(d)
		guard, likely, shown := r.harmed(i, m.o.Guards)
		if m.last() && !likely { // the proof decides about it
			guard = ""
		}
		low, high := stats.TBound(d, raceLevel), -stats.TBound(negated(d), raceLevel)
		switch {
		case len(d) < leastBlocks:
		case shown, guard != "" && m.last():
			f.State, f.Detail = Guarded, guard
		case len(d) >= leastDrop && high < -m.o.Margin:
			f.State = Harmful
		case len(d) >= leastDrop && high < m.o.Margin:
			f.State = NoEffect
		case low > m.o.Margin && low > most && guard == "":
			best, most = i, low
		}
	}
	if best >= 0 {
		m.accept(r.of[best])
		return
	}
	m.drop(func(f *Fate) bool { return f.State != Racing })
	if len(r.of) > 0 && !m.last() {
		if r.blocks >= leastDrop && !r.paused && m.scattered() {
			m.putAside()
		}
		return
	}
	if f := m.stepping(); f != nil {
		f.weak = true
		m.accept(f)
		return
	}
	for _, f := range r.of {
		f.State = Undecided
	}
	m.lookAgain()
}

// scattered reports whether the runs of every candidate vary so much that even the last block
// of the race is expected to leave its gain uncertain by more than the margin.
func (m *Machine) scattered() bool {
	wide := m.o.Margin * math.Sqrt(float64(m.o.RaceBlocks))
	for i := range m.race.of {
		if stats.StdDev(m.race.gains(i)) < wide {
			return false
		}
	}
	return true
}

// putAside interrupts a race, so that other candidates have their turn: where losses scatter
// the runs, a setting of little use would delay the right one by many long blocks.
func (m *Machine) putAside() {
	for _, f := range m.race.of {
		f.State = Undecided
	}
	m.race.paused = true
	m.aside = append(m.aside, m.race)
	m.kind = KindLook
}

// goOn continues an interrupted race of a direction beside the same incumbent, and reports
// whether there was one.
func (m *Machine) goOn(d model.Direction) bool {
	i := slices.IndexFunc(m.aside, func(r race) bool { return r.direction == d })
	if i < 0 || m.exceeds(1+len(m.aside[i].of)) {
		return false
	}
	m.kind, m.race = KindRace, m.aside[i]
	m.aside = slices.Delete(m.aside, i, i+1)
	for _, f := range m.race.of {
		f.State = Racing
	}
	return true
}

// waits reports whether the race of a setting was interrupted.
func (m *Machine) waits(levels string) bool {
	return slices.ContainsFunc(m.aside, func(r race) bool {
		return slices.ContainsFunc(r.of, func(f *Fate) bool { return f.Levels == levels })
	})
}

// last reports whether the present block of a race is the last one, by its block limit or by
// the budget.
func (m *Machine) last() bool {
	r := &m.race
	return r.blocks >= m.o.RaceBlocks || m.exceeds(1+len(r.of))
}

// stepping returns the candidate with the largest gain, if it gained anything: of two limits
// close together, neither shows its full gain until the other is gone. Trimming removes it
// again if the gain was chance.
func (m *Machine) stepping() *Fate {
	var best *Fate
	for i, f := range m.race.of {
		if stats.TBound(m.race.gains(i), raceLevel) > 0 && (best == nil || f.Gain > best.Gain) {
			best = f
		}
	}
	return best
}

func negated(d []float64) []float64 {
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = -v
	}
	return out
}

// accept makes f part of the incumbent. Its rivals in the race may be tried again.
func (m *Machine) accept(f *Fate) {
	incumbent := m.with(f)
	for _, other := range m.race.of {
		if other.State == Racing {
			other.State = Waiting
		}
	}
	f.State = Helped
	for _, part := range f.parts() {
		m.accepted = slices.DeleteFunc(m.accepted, func(o *Fate) bool {
			if o.Levels == part.Levels { // another level of the same setting
				o.State, o.Detail = Trimmed, "replaced by "+part.Setting.Name
			}
			return o.Levels == part.Levels
		})
		part.State, part.weak = Helped, part.weak || f.weak
		m.accepted = append(m.accepted, part)
	}
	m.incumbent = join(m.accepted)
	m.incumbent.Name = cmpName(m.incumbent, incumbent)
	for _, r := range m.aside { // beside another incumbent it would be another race
		for _, other := range r.of {
			if other.State == Undecided {
				other.State = Waiting
			}
		}
	}
	m.aside = nil
	m.kind = KindLook
}

// cmpName keeps the name under which a setting was measured, if it is the same setting.
func cmpName(now, measured model.Setting) string {
	if slices.Equal(now.Assignments, measured.Assignments) {
		return measured.Name
	}
	return now.Name
}

// lookAgain records which candidates failed beside this incumbent, and requests a new look.
func (m *Machine) lookAgain() {
	for _, f := range m.fates {
		if f.State == NoEffect || f.State == Harmful || f.State == Undecided {
			m.tried[m.incumbent.Name+"\x00"+f.Setting.Name] = true
		}
	}
	m.kind = KindLook
}

// conclude ends the races: next come trimming, smaller values, and confirmation. Each direction
// trims only the parts that were found for it.
func (m *Machine) conclude(reason string) {
	m.reason = reason
	if len(m.accepted) == 0 {
		m.kind = KindEnd
		return
	}
	for _, d := range m.Directions() {
		of := slices.DeleteFunc(slices.Clone(m.accepted), func(f *Fate) bool { return f.Direction != d })
		if !m.trimmedAt[d] && (len(of) > 1 || of[0].weak) {
			m.begin(KindTrim, d, of, m.without)
			return
		}
	}
	m.smaller()
}

// trimmed decides after a block of trimming. A part may go if the result is as good without it;
// one at a time, since of two parts with the same effect either may go, but not both.
func (m *Machine) trimmed() {
	r := &m.race
	if r.blocks < m.o.TrimBlocks {
		// A part that is clearly needed does not have to be left out again.
		if r.blocks >= leastDrop {
			m.drop(func(f *Fate) bool {
				i := slices.Index(r.of, f)
				return -stats.TBound(negated(r.gains(i)), trimLevel) < -m.o.Margin
			})
		}
		if len(r.of) > 0 {
			return
		}
	}
	var needless *Fate
	most := math.Inf(-1)
	for i, f := range r.of {
		d := r.gains(i)
		if goes := stats.TBound(d, trimLevel) > -m.o.Margin || f.weak && -stats.TBound(negated(d), trimLevel) > 0; goes && stats.Mean(d) > most {
			needless, most = f, stats.Mean(d)
		}
	}
	if needless == nil {
		m.trimmedAt[r.direction] = true
		m.conclude(m.reason)
		return
	}
	needless.State, needless.Detail = Trimmed, "the end is as good without it"
	m.accepted = slices.DeleteFunc(m.accepted, func(o *Fate) bool { return o == needless })
	m.incumbent = join(m.accepted)
	m.conclude(m.reason)
}

// smaller starts a plateau for the next accepted size, or continues with the confirmation.
func (m *Machine) smaller() {
	for _, f := range m.accepted {
		if m.o.NoPlateau || m.plateaued[f.Levels] {
			continue
		}
		m.plateaued[f.Levels] = true
		levels := slices.DeleteFunc(lower(f), func(l *Fate) bool { // values that did harm, or broke, do not return
			known := m.fate(l.Setting.Name)
			return known != nil && (known.State == Guarded || known.State == Broke)
		})
		if len(levels) == 0 || !m.affords(len(levels)+1) {
			continue
		}
		for i, l := range levels { // so that the result lists them
			if known := m.fate(l.Setting.Name); known != nil {
				levels[i] = known
			} else {
				m.fates = append(m.fates, l)
			}
			levels[i].State, levels[i].Detail = Racing, ""
		}
		m.begin(KindPlateau, f.Direction, levels, func(l *Fate) model.Setting {
			return join(replaced(m.accepted, f, l))
		})
		return
	}
	m.kind = KindConfirm
}

// replaced returns the fates with old replaced by now.
func replaced(fates []*Fate, old, now *Fate) []*Fate {
	out := slices.Clone(fates)
	out[slices.Index(out, old)] = now
	return out
}

// enough is the share of a size's gain that the smallest value worth trying must allow: a flow
// limited by its buffer gains at most in proportion to it (p).
const enough = 0.8

// lower returns smaller values of an accepted size, halving each time, above the present one,
// that may suffice for its gain. The largest comes first.
func lower(f *Fate) []*Fate {
	now, err := strconv.ParseInt(f.Now.Or(""), 10, 64)
	if err != nil || len(f.Setting.Assignments) != 1 {
		return nil
	}
	value, err := strconv.ParseInt(f.Setting.Assignments[0].Value, 10, 64)
	if err != nil {
		return nil
	}
	var out []*Fate
	least := float64(now)
	if gain := float64(f.Gain); gain > 0 {
		least *= enough * math.Exp(gain)
	}
	for v := value / 2; v > now && float64(v) >= least && len(out) < plateauLevels-1; v /= 2 {
		l := *f
		a := f.Setting.Assignments[0]
		a.Value = strconv.FormatInt(v, 10)
		l.Setting = model.Setting{Assignments: []model.Assignment{a}}
		l.Setting.Name = l.Levels + "=" + l.Text()
		l.Gain, l.Blocks = model.Bound(math.NaN()), 0
		out = append(out, &l)
	}
	return out
}

// levelled decides after a block of a plateau: it looks for the smallest value within the
// margin of the incumbent's.
func (m *Machine) levelled() {
	r := &m.race
	for i, f := range r.of {
		d := r.gains(i)
		f.Gain, f.Blocks = model.Bound(stats.Mean(d)), len(d)
		switch {
		case r.blocks >= leastBlocks && -stats.TBound(negated(d), trimLevel) < -m.o.Margin:
			f.State, f.Detail = Harmful, "beside "+r.settings[0].Name
		case i > 0 && r.of[i-1].State == Harmful:
			f.State, f.Detail = Harmful, "as "+r.of[i-1].Text()+" is, which is more"
		}
	}
	m.drop(func(f *Fate) bool { return f.State == Harmful })
	// The smallest good one ends the plateau, however good the larger ones are.
	last := r.blocks >= m.o.TrimBlocks || len(r.of) == 0
	for i, v := range slices.Backward(r.of) {
		harm, _, _ := r.harmed(i, m.o.Guards)
		good := r.blocks >= leastDrop && stats.TBound(r.gains(i), trimLevel) > -m.o.Margin && harm == ""
		if !good && !last {
			return
		}
		if !good {
			continue
		}
		now := v
		old := m.accepted[slices.IndexFunc(m.accepted, func(o *Fate) bool { return o.Levels == now.Levels })]
		old.Detail = fmt.Sprintf("as good with %s", now.Text())
		old.State = Trimmed
		now.State, now.Detail = Helped, "the smallest value that is as good as "+old.Text()
		m.accepted = replaced(m.accepted, old, now)
		m.incumbent = join(m.accepted)
		last = true
		break
	}
	if last {
		for _, f := range r.of {
			if f.State == Racing {
				f.State, f.Detail = Undecided, "not shown to be as good as "+r.settings[0].Name
			}
		}
		m.smaller()
	}
}
