package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// session is the state of one replay.
type session struct {
	plan       model.Plan
	candidates []string
	alpha      float64
	margin     float64 // log ratio
	floor      int     // least blocks for any direction (statistics.md section 6.3)
	runs       []model.Run
	attempts   []attempt
	blocks     []block // complete, in the order of completion
	counted    int     // blocks without baseline pairs
	series     []*series
	guards     int // series with a guard
	tables     stats.RankTables
	left       map[string]bool // fully decided candidates
	warnings   []string
}

// series is one metric in one direction.
type series struct {
	metric.Info
	direction model.Direction
	objective bool         // of the objective
	watched   bool         // in a direction that only the first blocks measure
	guard     *model.Guard // nil if the series has no guard
	scale     float64      // of differences: 1 for log ratios (statistics.md section 3)
	margin    float64      // smallest change that matters, on the scale of the differences
	harm      float64      // the guard's margin on that scale
	tolerable float64      // harm that an undecided guard may leave possible, on that scale
	sides     []*side      // candidates and twin, in the order of the plan
}

// side is one setting against the baseline in one series.
type side struct {
	name      string
	twin      bool
	d         []float64    // block differences
	ranks     *stats.Ranks // of all of d, computed on first use
	ev        *stats.Evidence
	harmed    *stats.Evidence  // against harm of exactly the guard's margin, where there is a guard
	outcome   model.Outcome    // once reached, sequential mode only; "" before
	guard     model.GuardState // once reached, sequential mode only; "" before
	bearable  *stats.Evidence  // against harm of metric.Tolerable margins, where there is a guard
	tolerable bool             // harm of metric.Tolerable margins is ruled out
	equal     int              // blocks in which the guard was held at equal load
	own       []float64        // the values behind d, where there is a guard
}

func newSession(p model.Plan, runs []model.Run) *session {
	p = completed(p)
	s := &session{plan: p, candidates: candidatesOf(p), alpha: 1 - p.Confidence,
		margin: stats.LogMargin(p.Margin), left: map[string]bool{}, tables: stats.RankTables{}}
	s.floor = stats.MinBlocks(len(s.candidates), s.alpha)
	s.runs = slices.Clone(runs)
	slices.SortStableFunc(s.runs, func(a, b model.Run) int { return cmp.Compare(a.Number, b.Number) })
	s.attempts = attempts(s.runs)
	s.addSeries(p.Objective, nil)
	for _, m := range metric.Measured(p.Flow) {
		if m != p.Objective && !slices.ContainsFunc(p.Guards, func(g model.Guard) bool { return g.Metric == m }) {
			s.addSeries(m, nil)
		}
	}
	for _, g := range p.Guards {
		if g.Metric != p.Objective {
			s.addSeries(g.Metric, &g)
		}
	}
	return s
}

// addSeries adds a series for each direction of metric m. The objective always has one; other
// metrics if runs have values of them, and user-defined guards in any case, so that a missing
// measurement is reported.
func (s *session) addSeries(m model.Metric, g *model.Guard) {
	info, ok := metric.Of(m)
	if !ok {
		s.warn("%s is not a metric that verdicts are given on", m)
		return
	}
	objective := m == s.plan.Objective
	found := directions(s.runs, m)
	if len(found) == 0 && (objective || g != nil && !g.Default) {
		found = planned(s.plan)
	}
	decides := objective
	for _, d := range found {
		watched := slices.Contains(s.plan.Watched, d)
		if objective = decides && !watched; decides && watched { // the candidate may do no harm there
			g = metric.Guarding(m)
		} else if decides {
			g = nil
		}
		x := &series{watched: watched, Info: info, direction: d, objective: objective, guard: g, scale: 1, margin: s.margin}
		switch {
		case info.CanBe0 && g != nil:
			x.scale, x.margin = stats.RateScale(g.Margin), stats.UnitMargin
		case info.CanBe0:
			x.scale, x.margin = stats.RateScale(info.Margin), stats.UnitMargin
		}
		if g != nil {
			x.harm, x.tolerable = x.scale*metric.Harm(*g, 1), x.scale*metric.Harm(*g, metric.Tolerable)
		}
		s.addSides(x)
		s.series = append(s.series, x)
		if g != nil {
			s.guards++
		}
	}
}

func (s *session) addSides(x *series) {
	for _, set := range s.plan.Settings {
		if set.Name == s.plan.Baseline {
			continue
		}
		one := &side{name: set.Name, twin: set.Name == s.plan.Twin}
		if s.plan.Mode == model.Sequential {
			alphas := []float64{s.alpha}
			if x.objective {
				alphas = append(alphas, s.alpha/float64(max(1, len(s.candidates))))
			}
			one.ev = stats.NewEvidence(x.margin, alphas...)
			if x.guard != nil && !one.twin {
				one.harmed, one.bearable = stats.NewEvidence(x.margin), stats.NewEvidence(x.margin)
			}
		}
		x.sides = append(x.sides, one)
	}
}

// completed fills in defaults that a plan made by hand, such as that of a quick test, leaves at
// zero.
func completed(p model.Plan) model.Plan {
	if p.Mode != model.FixedBlocks {
		p.Mode = model.Sequential
	}
	if !(p.Confidence > 0.5 && p.Confidence < 1) {
		p.Confidence = stats.DefaultConfidence
	}
	if !(p.Margin > 0) {
		p.Margin = stats.DefaultMargin
	}
	p.Objective = p.Decides()
	return p
}

// directions returns the directions in which any valid run has a value of m.
func directions(runs []model.Run, m model.Metric) []model.Direction {
	var out []model.Direction
	for _, r := range runs {
		for _, v := range r.Values {
			if r.State == model.RunValid && v.Metric == m && !slices.Contains(out, v.Direction) {
				out = append(out, v.Direction)
			}
		}
	}
	order := []model.Direction{model.To, model.From}
	slices.SortStableFunc(out, func(a, b model.Direction) int {
		return cmp.Compare(uint(slices.Index(order, a)), uint(slices.Index(order, b))) // unknown ones last
	})
	return out
}

// planned returns the directions of the plan.
func planned(p model.Plan) []model.Direction {
	var out []model.Direction
	for _, d := range p.Directions {
		out = append(out, d.Parts()...)
	}
	if len(out) == 0 {
		return p.Flow.Direction.Parts()
	}
	return out
}

// replay adds the blocks one by one, in the order in which they were completed, so that
// analysing after every block and analysing once give the same verdicts.
func (s *session) replay() {
	for _, a := range s.attempts {
		b, ok := s.complete(a)
		if !ok {
			continue
		}
		s.blocks = append(s.blocks, b)
		if b.null {
			continue
		}
		s.counted++
		for _, x := range s.series {
			s.add(x, b)
		}
		if s.plan.Mode == model.Sequential {
			s.decide()
		}
	}
	for _, x := range s.series {
		for _, one := range x.sides {
			if x.objective && one.ev != nil && one.ev.Contradicted() {
				s.warn("%s: the effect of %s changed during the session", x.label(), one.name)
			}
		}
	}
}

// add adds the differences of block b to series x.
func (s *session) add(x *series, b block) {
	base, ok := x.value(b, s.plan.Baseline)
	if !ok {
		if x.objective {
			s.warn("%s: block %d has no usable value of the baseline and was left out", x.label(), b.number)
		}
		return
	}
	for _, one := range x.sides {
		y, found := x.value(b, one.name)
		if paced, ok := b.equal[load{one.name, x.direction}]; ok && x.guard != nil && metric.FollowsLoad(x.ID) {
			if y, found = x.log(&paced); found {
				one.equal++
			}
		}
		if !found {
			if x.objective && slices.ContainsFunc(b.runs, func(r model.Run) bool { return r.Setting == one.name }) {
				s.warn("%s: block %d has no usable value of %s and was left out", x.label(), b.number, one.name)
			}
			continue
		}
		if x.guard != nil {
			one.own = append(one.own, y)
		}
		one.d = append(one.d, y-base) // finite: both are logs of positive finite numbers
		if one.ev != nil {
			one.ev.Add(y - base)
		}
		if one.harmed != nil {
			one.harmed.Add(y - base + x.harm)
			one.bearable.Add(y - base + x.tolerable)
		}
	}
}

// value returns the value of a setting in block b on the scale of the series, positive good. A
// setting has one run per direction there, and only one of them has the series' value.
func (x *series) value(b block, setting string) (float64, bool) {
	for i := range b.runs {
		if y, ok := x.log(&b.runs[i]); ok && b.runs[i].Setting == setting {
			return y, true
		}
	}
	return 0, false
}

// values returns the values of the series in block b, in the order of the runs; runs of other
// directions have none.
func (x *series) values(b block) []float64 {
	var out []float64
	for i := range b.runs {
		if y, ok := x.log(&b.runs[i]); ok {
			out = append(out, y)
		}
	}
	return out
}

// log returns the value of r on the scale of the series, positive good: its logarithm, or for a
// metric that can be 0 the value itself.
func (x *series) log(r *model.Run) (float64, bool) {
	y, ok := r.Value(x.direction, x.ID)
	switch {
	case !ok:
		return 0, false
	case !x.CanBe0:
		return stats.LogValue(y, x.Sense())
	case x.LowIs:
		y = -y
	}
	return y * x.scale, !math.IsNaN(y) && !math.IsInf(y, 0)
}

// row returns the values of all the named settings in block b.
func (x *series) row(b block, names []string) ([]float64, bool) {
	row := make([]float64, len(names))
	for i, name := range names {
		y, ok := x.value(b, name)
		if !ok {
			return nil, false
		}
		row[i] = y
	}
	return row, true
}

func (x *series) label() string { return strings.TrimSpace(x.Name + " " + string(x.direction)) }

// unscaled converts a number from the scale of the differences to a log ratio, or to the
// metric's own unit.
func (x *series) unscaled(v float64) float64 { return v / x.scale }

// change formats gain d of the series as a signed change of the metric itself.
func (x *series) change(d float64, decimals int) string {
	v := x.Change(x.unscaled(d))
	switch {
	case !x.CanBe0:
		v = 100 * math.Expm1(v)
	case x.Unit == "%":
		v *= 100
	}
	unit := map[bool]string{true: " " + x.Unit, false: " %"}[x.CanBe0]
	return strconv.FormatFloat(v, 'f', decimals, 64) + unit
}

// warn adds a warning once.
func (s *session) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); !slices.Contains(s.warnings, w) {
		s.warnings = append(s.warnings, w)
	}
}
