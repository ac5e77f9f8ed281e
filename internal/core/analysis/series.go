package analysis

import (
	"cmp"
	"fmt"
	"slices"

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
	left       map[string]bool // decided in every series
	warnings   []string
}

// series is one metric in one direction.
type series struct {
	direction model.Direction
	metric    model.Metric
	sense     stats.Sense
	sides     []*side // candidates and twin, in the order of the plan
}

// side is one setting against the baseline in one series.
type side struct {
	name    string
	twin    bool
	d       []float64 // block differences
	ev      *stats.Evidence
	outcome model.Outcome // once reached, sequential mode only; "" before
}

func newSession(p model.Plan, runs []model.Run, metrics []model.Metric) *session {
	p = completed(p)
	s := &session{plan: p, candidates: candidatesOf(p), alpha: 1 - p.Confidence,
		margin: stats.LogMargin(p.Margin), left: map[string]bool{}}
	s.floor = stats.MinBlocks(len(s.candidates), s.alpha)
	s.runs = slices.Clone(runs)
	slices.SortStableFunc(s.runs, func(a, b model.Run) int { return cmp.Compare(a.Number, b.Number) })
	s.attempts = attempts(s.runs)
	for _, m := range metrics {
		sense, ok := senseOf(m)
		if !ok {
			s.warn("%s is not a metric that verdicts are given on", m)
			continue
		}
		for _, d := range directions(p, s.runs, m) {
			s.series = append(s.series, s.newSeries(d, m, sense))
		}
	}
	return s
}

// completed fills in what a plan made by hand, such as that of a quick test,
// leaves at zero.
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
	return p
}

func (s *session) newSeries(d model.Direction, m model.Metric, sense stats.Sense) *series {
	x := &series{direction: d, metric: m, sense: sense}
	for _, set := range s.plan.Settings {
		if set.Name == s.plan.Baseline {
			continue
		}
		one := &side{name: set.Name, twin: set.Name == s.plan.Twin}
		if s.plan.Mode == model.Sequential {
			one.ev = stats.NewEvidence(s.margin, s.alpha, s.alpha/float64(max(1, len(s.candidates))))
		}
		x.sides = append(x.sides, one)
	}
	return x
}

// senseOf returns which way m is good, and false for metrics that can be 0 or
// have no good side.
func senseOf(m model.Metric) (stats.Sense, bool) {
	switch m {
	case model.Goodput, model.Sent:
		return stats.HigherIsBetter, true
	case model.RTT, model.RTTMin:
		return stats.LowerIsBetter, true
	default:
		return 0, false
	}
}

// directions returns those that any valid run has a value for, and before the
// first one those of the plan.
func directions(p model.Plan, runs []model.Run, m model.Metric) []model.Direction {
	var out []model.Direction
	for _, r := range runs {
		for _, v := range r.Values {
			if r.State == model.RunValid && v.Metric == m && !slices.Contains(out, v.Direction) {
				out = append(out, v.Direction)
			}
		}
	}
	if len(out) == 0 {
		for _, d := range p.Directions {
			out = append(out, d.Parts()...)
		}
	}
	if len(out) == 0 {
		return p.Flow.Direction.Parts()
	}
	order := []model.Direction{model.To, model.From}
	slices.SortStableFunc(out, func(a, b model.Direction) int {
		return cmp.Compare(uint(slices.Index(order, a)), uint(slices.Index(order, b))) // unknown ones last
	})
	return out
}

// replay adds the blocks one by one, in the order in which they were completed,
// so that asking after every block and asking once give the same verdicts.
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
			if one.ev != nil && one.ev.Contradicted() {
				s.warn("%s: the effect of %s changed during the session", x.label(), one.name)
			}
		}
	}
}

// add adds the differences of block b to series x.
func (s *session) add(x *series, b block) {
	base, ok := x.value(b, s.plan.Baseline)
	if !ok {
		s.warn("%s: block %d has no usable value of the baseline and was left out", x.label(), b.number)
		return
	}
	for _, one := range x.sides {
		y, found := x.value(b, one.name)
		if !found {
			if slices.ContainsFunc(b.runs, func(r model.Run) bool { return r.Setting == one.name }) {
				s.warn("%s: block %d has no usable value of %s and was left out", x.label(), b.number, one.name)
			}
			continue
		}
		one.d = append(one.d, y-base) // finite: both are logs of positive finite numbers
		if one.ev != nil {
			one.ev.Add(y - base)
		}
	}
}

// value returns the log value of a setting in block b, positive good. A setting
// has one run per direction there, and only one of them has the series' value.
func (x *series) value(b block, setting string) (float64, bool) {
	for i := range b.runs {
		if y, ok := x.log(&b.runs[i]); ok && b.runs[i].Setting == setting {
			return y, true
		}
	}
	return 0, false
}

// values returns the log values of the series in block b, in the order of the
// runs; those of other directions have none.
func (x *series) values(b block) []float64 {
	var out []float64
	for i := range b.runs {
		if y, ok := x.log(&b.runs[i]); ok {
			out = append(out, y)
		}
	}
	return out
}

func (x *series) log(r *model.Run) (float64, bool) {
	y, ok := r.Value(x.direction, x.metric)
	if !ok {
		return 0, false
	}
	return stats.LogValue(y, x.sense)
}

// row returns the log values of all the named settings in block b.
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

func (x *series) label() string { return fmt.Sprintf("%s %s", x.metric, x.direction) }

// warn adds a warning once.
func (s *session) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); !slices.Contains(s.warnings, w) {
		s.warnings = append(s.warnings, w)
	}
}
