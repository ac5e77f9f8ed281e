package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Table holds the verdicts on all settings for one metric and direction. Changes are those of
// the metric itself: a shorter round trip is below 0.
type Table struct {
	Direction  model.Direction `json:"direction"`
	Metric     model.Metric    `json:"metric"`
	Title      string          `json:"title"`  // "goodput to nas, against as-is"
	What       string          `json:"-"`      // the title without the baseline
	Basis      string          `json:"basis"`  // the method of the intervals and verdicts, as text
	Unit       string          `json:"unit"`   // of all numbers in the rows: "%", "points" for a share, "ms", or "" for counts
	Margin     units.Percent   `json:"margin"` // smallest change that matters
	LowerIs    string          `json:"lower_is"`
	Objective  bool            `json:"objective"`       // the metric is the objective
	Guard      string          `json:"guard,omitempty"` // what a setting must not do: "50 % higher"; "" if it is not a guard
	Together   int             `json:"together"`        // comparisons that Row.Family holds for at once; 0 without
	Rows       []Row           `json:"rows"`
	Confidence float64         `json:"confidence"` // requested; Row.Confidence is the achieved one
}

// Row is the verdict on one setting.
type Row struct {
	Setting    string           `json:"setting"`
	IsTwin     bool             `json:"is_twin,omitempty"` // a copy of the baseline, to check the session
	Blocks     int              `json:"blocks"`
	Outcome    model.Outcome    `json:"outcome"`
	Words      string           `json:"words"`             // the outcome as text
	Gain       string           `json:"-"`                 // the change, without statistics
	Briefly    string           `json:"-"`                 // the same without the lower bound
	Said       string           `json:"said,omitempty"`    // on the objective: everything important, without statistics
	Judged     string           `json:"-"`                 // Said without the value itself
	Guard      model.GuardState `json:"guard,omitempty"`   // state of the guard, if the metric is one
	Refused    []string         `json:"refused,omitempty"` // on the objective: the guards that prevent keeping it, as text
	Harms      bool             `json:"-"`                 // one of these guards is violated, not only open
	Elsewhere  bool             `json:"-"`                 // the first of them is that it is worse in another direction
	Note       string           `json:"note,omitempty"`    // addition: reason, more blocks, strength
	Adds       string           `json:"-"`                 // what Note adds to Said
	Change     model.Bound      `json:"change"`            // in Table.Unit; null if unknown
	Low        model.Bound      `json:"low"`               // null if not bounded yet
	High       model.Bound      `json:"high"`              //
	FamilyLow  *model.Bound     `json:"family_low"`        // nil without a family
	FamilyHigh *model.Bound     `json:"family_high"`       //
	Confidence float64          `json:"confidence"`        // achieved, of Low to High
	Method     string           `json:"method"`            // of Low to High
	ChangeText string           `json:"change_text"`       // "4.5 % higher"
	RangeText  string           `json:"range_text"`        // "+2.2 % to +6.9 %"
	FamilyText string           `json:"family_text"`       // "" without a family
	Warnings   []string         `json:"warnings,omitempty"`
}

// Matters reports whether a row of a metric other than the objective is important: it has a
// proven change, or harm that a guard forbids.
func (r Row) Matters() bool {
	return r.Outcome == model.Better || r.Outcome == model.Worse || r.Guard == model.GuardViolated
}

// Plateau is the sentence on the smallest level that is good enough.
type Plateau struct {
	Decided bool   `json:"decided"`
	Text    string `json:"text"`
	Advised bool   `json:"-"` // the advice has it
}

// Words returns a verdict as text. The texts of Equivalent and of Undecided share no words.
func Words(v model.Verdict) string {
	if v.IsTwin && v.Outcome == model.Undecided {
		if v.Interval.Low > 0 || v.Interval.High < 0 {
			return "no verdict, though its interval leaves out 0"
		}
		return "no verdict, as it should be"
	}
	switch v.Outcome {
	case model.Better, model.Worse:
		if v.Size != "" {
			return string(v.Outcome) + ", " + v.Size
		}
		return string(v.Outcome)
	case model.Equivalent:
		return "no difference larger than the margin"
	case model.Undecided:
		return "not enough data"
	}
	return string(v.Outcome)
}

// untrustworthy says why the session's verdicts cannot be trusted: its null twin, a copy of the
// baseline, got a verdict, or pairs of the baseline differed (statistics.md sections 2 and
// 5.4).
func (b *builder) untrustworthy() string {
	for _, v := range b.s.Verdicts {
		if v.IsTwin && (v.Outcome == model.Better || v.Outcome == model.Worse) {
			return fmt.Sprintf("%s is a copy of %s and came out %s all the same (%s %s): something but the settings changed the results, so no verdict of this session counts",
				v.Setting, v.Baseline, v.Outcome, metric.Name(v.Metric), b.toward(v.Direction))
		}
	}
	for _, n := range b.s.Noise {
		if n.Evidence >= stats.NullVeto {
			return fmt.Sprintf("the baseline differed from itself (%s, %s %s): something but the settings changed the results, so no verdict of this session counts",
				n.Source, metric.Name(n.Metric), b.toward(n.Direction))
		}
	}
	return ""
}

// Noise says how far the baseline differs from itself, and whether the data suffice to detect
// an untrustworthy session.
type Noise struct {
	model.Noise
	Text string `json:"text"`
	// Said is the short form: that the noise is why so little is decided. "" if it is not.
	Said string `json:"said,omitempty"`
}

// loud is how many times the margin two runs of the baseline differ before the noise is
// mentioned first (p).
const loud = 3

func (b *builder) noise() []Noise {
	out := []Noise{}
	for _, n := range b.s.Noise {
		what := strings.TrimSpace(metric.Name(n.Metric) + " " + b.toward(n.Direction))
		i := metric.Describe(n.Metric)
		spread, said := "unknown", ""
		if i.CanBe0 {
			spread = units.Round(math.Abs(i.Shown(n.Sigma)), math.Abs(i.Shown(n.Sigma))) + " " + i.ShownUnit()
		} else if !math.IsNaN(n.Sigma) {
			spread = units.Round(100*math.Expm1(n.Sigma), 100*math.Expm1(n.Sigma)) + " %"
			if 100*math.Expm1(n.Sigma) > loud*float64(b.s.Plan.Margin) && slices.ContainsFunc(b.s.Verdicts, b.drowned(n)) {
				said = fmt.Sprintf("noise: two runs of one setting differ by %s; hosts and a path without other traffic, or longer runs (-t), make it less", spread)
			}
		}
		text := fmt.Sprintf("noise of %s: two runs of the baseline differ by %s (%s)", what, spread, sourceWords(n))
		switch {
		case !n.Checked:
			text += fmt.Sprintf("; too few to check that it does not differ from itself: that takes %d", stats.RankBlocks)
		case n.Evidence >= stats.NullWarn:
			text += "; checked: it seems to differ from itself"
		default:
			text += "; checked: it does not differ from itself"
		}
		out = append(out, Noise{n, text, said})
	}
	return out
}

// drowned reports whether a verdict on the objective of n stays open for long.
func (b *builder) drowned(n model.Noise) func(model.Verdict) bool {
	return func(v model.Verdict) bool {
		return v.Direction == n.Direction && v.Metric == n.Metric && b.decisive(model.Undecided)(v) && distant(v.MoreBlocks, v.Blocks)
	}
}

func sourceWords(n model.Noise) string {
	if n.Source == "twin" {
		return "its copy, " + plain.Count(n.Pairs, "block")
	}
	return plain.Count(n.Pairs, "pair")
}

func (b *builder) tables() []Table {
	tables := []Table{}
	index := map[[2]string]int{}
	for _, v := range b.s.Verdicts {
		key := [2]string{string(v.Metric), string(v.Direction)}
		i, ok := index[key]
		if !ok {
			i = len(tables)
			index[key] = i
			tables = append(tables, b.newTable(v))
		}
		tables[i].Rows = append(tables[i].Rows, b.row(v))
		if v.Family != nil {
			tables[i].Together++
		}
	}
	for i := range tables {
		for _, r := range tables[i].Rows {
			if r.IsTwin && r.FamilyLow != nil {
				tables[i].Together-- // the twin is not one of the candidates
			}
		}
	}
	return tables
}

func (b *builder) newTable(v model.Verdict) Table {
	i := metric.Describe(v.Metric)
	t := Table{
		Direction: v.Direction, Metric: v.Metric, Unit: i.ShownUnit(), Margin: b.s.Plan.Margin, Confidence: b.s.Plan.Confidence,
		What:      strings.TrimSpace(i.Name + " " + b.toward(v.Direction)),
		LowerIs:   "worse",
		Objective: v.Metric == b.s.Plan.Decides() && v.Guard == nil,
	}
	t.Title = t.What + ", against " + v.Baseline
	if i.LowIs {
		t.LowerIs = "better"
	}
	if v.Guard != nil {
		t.Guard = i.HarmText(v.Guard.Margin)
	}
	switch b.s.Plan.Mode {
	case model.FixedBlocks:
		t.Basis = "number of blocks given beforehand"
	case model.Sequential:
		t.Basis = "evidence that may be looked at any time"
	}
	return t
}

func (b *builder) row(v model.Verdict) Row {
	i := metric.Describe(v.Metric)
	low, high := float64(v.Interval.Low), float64(v.Interval.High)
	estimate := v.Estimate
	if v.Blocks == 0 {
		estimate = math.NaN()
	}
	r := Row{
		Setting: v.Setting, IsTwin: v.IsTwin, Blocks: v.Blocks, Outcome: v.Outcome, Words: Words(v), Note: b.note(v, false), Adds: b.note(v, true),
		Change: model.Bound(i.Shown(i.Change(estimate))), Confidence: v.Interval.Confidence, Method: v.Interval.Method,
		ChangeText: i.ChangeText(estimate, low, high), RangeText: i.RangeText(estimate, low, high),
		Gain: i.Said(estimate, low, high), Briefly: i.SaidBriefly(estimate, low, high),
		Warnings: v.Warnings,
	}
	r.Low, r.High = ends(i, low, high)
	if v.Guard != nil {
		r.Guard = v.Guard.State
		if v.Guard.State == model.GuardViolated && v.Outcome != model.Worse {
			r.Words = "worse, at least the guard's margin"
		}
	}
	if v.Family != nil {
		familyLow, familyHigh := ends(i, float64(v.Family.Low), float64(v.Family.High))
		r.FamilyLow, r.FamilyHigh = new(familyLow), new(familyHigh)
		r.FamilyText = i.RangeText(estimate, float64(v.Family.Low), float64(v.Family.High))
	}
	if b.s.Plan.DecidedBy(&v) && v.Outcome == model.Better {
		b.refused(v, &r)
	}
	if v.Metric == b.s.Plan.Decides() {
		r.Said, r.Judged = b.said(v), b.judged(v)
	}
	return r
}

// refused adds to the row of a better setting what prevents keeping it: proven harm to the
// words themselves, undecided guards to the note.
func (b *builder) refused(v model.Verdict, r *Row) {
	var harm, open []string
	keep := analysis.MayKeep(v.Metric, b.s.Verdicts, v.Setting)
	harm = append(harm, b.worseElsewhere(v)...)
	r.Elsewhere = len(harm) > 0
	for _, g := range keep.Harms {
		harm = append(harm, b.guardWords(g))
	}
	for _, g := range keep.Open {
		open = append(open, b.guardWords(g))
	}
	r.Refused = slices.Concat(harm, open)
	r.Harms = len(harm) > 0
	if len(harm) > 0 {
		r.Words += ", but " + strings.Join(harm, ", and ")
	}
	if len(open) > 0 {
		if len(harm) > 0 { // otherwise Said has it
			r.Adds = strings.TrimSuffix("may not be kept yet: "+strings.Join(open, ", ")+"; "+r.Adds, "; ")
		}
		if r.Note != "" {
			r.Note = "; " + r.Note
		}
		r.Note = "may not be kept yet: " + strings.Join(open, ", ") + r.Note
	}
}

// guardWords describes a guard that does not hold: "round trip to nas 2.1 times, where its
// guard allows 50 % higher".
func (b *builder) guardWords(v model.Verdict) string {
	i := metric.Describe(v.Metric)
	what := strings.TrimSpace(i.Name+" "+b.toward(v.Direction)) + atLoad(v.Guard)
	switch v.Guard.State {
	case model.GuardViolated:
		return fmt.Sprintf("%s %s (guard: less than %s)", what,
			i.ChangeText(v.Estimate, float64(v.Interval.Low), float64(v.Interval.High)), i.HarmText(v.Guard.Margin))
	case model.GuardUnmeasured:
		return what + " is not measured"
	case model.GuardHolds, model.GuardOpen, model.GuardTolerable:
	}
	if v.Guard.MoreBlocks > 0 {
		return fmt.Sprintf("%s is not decided: %s", what, b.moreBlocks(v.Guard.MoreBlocks))
	}
	return what + " is not decided"
}

// ends returns an interval of gains as a range of changes.
func ends(i metric.Info, low, high float64) (from, to model.Bound) {
	low, high = i.Change(low), i.Change(high)
	if i.LowIs {
		low, high = high, low
	}
	return model.Bound(i.Shown(low)), model.Bound(i.Shown(high))
}

// note returns what a verdict's words leave out. A sequential session shows its evidence and
// never a p value, a fixed one the reverse: neither number has a meaning in the other mode
// (statistics, section 5.4). With brief it leaves out what Said has.
func (b *builder) note(v model.Verdict, brief bool) string {
	var parts []string
	said := brief && !v.IsTwin && v.Metric == b.s.Plan.Decides() && v.Outcome == model.Undecided && v.Blocks > 0
	if g := v.Guard; g != nil {
		parts = append(parts, guardNote(v.Metric, g))
	}
	if v.IsTwin {
		parts = append(parts, "copy of the baseline, the check that it does not differ from itself")
	}
	if reason(v) != "" && !v.IsTwin && (!said || v.MoreBlocks > 0) {
		parts = append(parts, v.Reason)
	}
	if v.Interval.Method == "t" {
		parts = append(parts, "assumes roughly normal block differences") // statistics, section 4.3
	}
	if v.Outcome == model.Undecided && v.MoreBlocks > 0 && !v.IsTwin && !said {
		parts = append(parts, b.moreBlocks(v.MoreBlocks))
	}
	switch {
	case b.s.Plan.Mode == model.FixedBlocks && v.P != nil:
		parts = append(parts, "p "+strconv.FormatFloat(*v.P, 'g', 2, 64))
	case b.s.Plan.Mode == model.Sequential && v.Evidence != nil:
		parts = append(parts, "evidence "+strconv.FormatFloat(*v.Evidence, 'g', 3, 64))
	}
	return strings.Join(parts, "; ")
}

// reason returns why v is as it is; "" if only data is lacking.
func reason(v model.Verdict) string {
	if v.Reason == analysis.NotEnough(v.Blocks) {
		return ""
	}
	return v.Reason
}

// guardNote describes the state of a guard in the row of its own metric.
func guardNote(m model.Metric, g *model.GuardCheck) string {
	i := metric.Describe(m)
	harm, load := i.HarmText(g.Margin), atLoad(g)
	switch g.State {
	case model.GuardHolds:
		if g.Negligible {
			return "guard holds: below " + metric.Amount(m, metric.Negligible) + load
		}
		return "guard holds: surely less than " + harm + load
	case model.GuardViolated:
		return "guard violated: surely " + harm + " or more" + load
	case model.GuardUnmeasured:
		return "guard: not measured"
	case model.GuardOpen, model.GuardTolerable:
	}
	if g.Tolerable {
		return "guard of " + harm + " is not decided" + load + "; surely less than " + i.HarmText(metric.Tolerable*g.Margin)
	}
	return "guard of " + harm + " is not decided" + load
}

// moreBlocks says about how many more blocks a verdict would take.
func (b *builder) moreBlocks(n int) string {
	n = roughly(n)
	text := fmt.Sprintf("about %s more", plain.Count(n, "block"))
	if b.s.Plan.Flow.Duration > 0 {
		text += fmt.Sprintf(" (%s)", b.lasting(n))
	}
	return text
}

// roughly rounds n to two digits, which is the precision of such an estimate.
func roughly(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// lasting formats the approximate time of n blocks. A run that ends after an amount of bytes
// counts as long as those before it.
func (b *builder) lasting(n int) string {
	p := &b.s.Plan
	each := p.RunLength()
	if p.Flow.Duration == 0 && len(b.counted) > 0 {
		var took time.Duration
		for _, r := range b.counted {
			took += r.Ended.Sub(r.Started)
		}
		each = max(each, took/time.Duration(len(b.counted))).Round(time.Second)
	}
	perBlock := each * time.Duration(max(1, len(p.Settings))*max(1, len(p.Directions)))
	return units.FormatDuration(time.Duration(n) * perBlock)
}

func (b *builder) plateaus() []Plateau {
	out := []Plateau{}
	if b.untrustworthy() != "" {
		return out
	}
	level := "level"
	if len(b.s.Plan.Factors) > 0 {
		level = "combination"
	}
	for _, p := range b.s.Plateaus {
		text := strings.TrimSpace(metric.Name(p.Metric)+" "+b.toward(p.Direction)) + ": "
		switch {
		case p.Leave && p.Level == "":
			text += fmt.Sprintf("leave it: %s is within %s of the best, and no %s surely is", p.Baseline, p.Tolerance, level)
		case p.Leave && p.Level != p.Baseline:
			text += fmt.Sprintf("leave it: %s is within %s of the best; of the %ss, %s is the smallest that is", p.Baseline, p.Tolerance, level, p.Level)
		case p.Decided:
			text += fmt.Sprintf("%s is the smallest %s within %s of the best", p.Level, level, p.Tolerance)
		default:
			text += fmt.Sprintf("the smallest %s within %s of the best is not decided", level, p.Tolerance)
			if p.From != "" && p.To != "" && p.From != p.To {
				text += fmt.Sprintf(", it lies from %s to %s", p.From, p.To)
			}
		}
		if p.Reason != "" {
			text += ": " + p.Reason
		}
		out = append(out, Plateau{Decided: p.Decided, Text: text})
	}
	return out
}
