package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Table holds the verdicts on all settings for one metric and direction.
// Changes are those of the metric itself: a shorter round trip is below 0.
type Table struct {
	Direction  model.Direction `json:"direction"`
	Metric     model.Metric    `json:"metric"`
	Title      string          `json:"title"`  // "goodput to nas, against as-is"
	Basis      string          `json:"basis"`  // how the intervals and verdicts came about, in words
	Unit       string          `json:"unit"`   // of all numbers of the rows: "%", or "" for counts
	Margin     units.Percent   `json:"margin"` // smallest change that matters
	LowerIs    string          `json:"lower_is"`
	Together   int             `json:"together"` // comparisons that Row.Family holds for at once; 0 without
	Rows       []Row           `json:"rows"`
	Confidence float64         `json:"confidence"` // wanted; what was achieved is Row.Confidence
}

// Row is the verdict on one setting.
type Row struct {
	Setting    string        `json:"setting"`
	IsTwin     bool          `json:"is_twin,omitempty"` // a copy of the baseline, to check the session
	Blocks     int           `json:"blocks"`
	Outcome    model.Outcome `json:"outcome"`
	Words      string        `json:"words"`          // the outcome as people read it
	Note       string        `json:"note,omitempty"` // what to add: reason, more blocks, strength
	Change     model.Bound   `json:"change"`         // in Table.Unit; null when unknown
	Low        model.Bound   `json:"low"`            // null when not bounded yet
	High       model.Bound   `json:"high"`           //
	FamilyLow  *model.Bound  `json:"family_low"`     // nil without a family
	FamilyHigh *model.Bound  `json:"family_high"`    //
	Confidence float64       `json:"confidence"`     // achieved, of Low to High
	Method     string        `json:"method"`         // of Low to High
	ChangeText string        `json:"change_text"`    // "4.5 % higher"
	RangeText  string        `json:"range_text"`     // "+2.2 % to +6.9 %"
	FamilyText string        `json:"family_text"`    // "" without a family
	Warnings   []string      `json:"warnings,omitempty"`
}

// Plateau is the sentence on the smallest level that is good enough.
type Plateau struct {
	Decided bool   `json:"decided"`
	Text    string `json:"text"`
}

// Words returns a verdict as people read it. The words of Equivalent and those
// of Undecided have none in common.
func Words(v model.Verdict) string {
	if v.IsTwin && v.Outcome == model.Undecided {
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

// untrustworthy says why the session's verdicts cannot be believed: its null
// twin, a copy of the baseline, got a verdict (statistics, section 2).
func (b *builder) untrustworthy() string {
	for _, v := range b.s.Verdicts {
		if v.IsTwin && (v.Outcome == model.Better || v.Outcome == model.Worse) {
			return fmt.Sprintf("%s is a copy of %s and came out %s all the same (%s %s): something but the settings changed the results, so no verdict of this session counts",
				v.Setting, v.Baseline, v.Outcome, metricName(v.Metric), b.label(v.Direction))
		}
	}
	if b.s.Kind != model.KindRun || b.s.Plan.NullBlocks == 0 {
		return ""
	}
	// Baseline pairs leave no verdict of their own behind.
	if r := analysis.Analyse(b.s.Plan, b.s.Runs); r.Untrustworthy {
		return r.Reason
	}
	return ""
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
	t := Table{
		Direction: v.Direction, Metric: v.Metric, Unit: "%", Margin: b.s.Plan.Margin, Confidence: b.s.Plan.Confidence,
		Title:   strings.TrimSpace(metricName(v.Metric)+" "+b.label(v.Direction)) + ", against " + v.Baseline,
		LowerIs: "worse",
	}
	if lowerIsBetter(v.Metric) {
		t.LowerIs = "better"
	}
	if isCount(v.Metric) {
		t.Unit = ""
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
	e := effect{lower: lowerIsBetter(v.Metric), count: isCount(v.Metric)}
	low, high := e.ends(v.Interval)
	estimate := v.Estimate
	if v.Blocks == 0 {
		estimate = math.NaN()
	}
	r := Row{
		Setting: v.Setting, IsTwin: v.IsTwin, Blocks: v.Blocks, Outcome: v.Outcome, Words: Words(v), Note: b.note(v),
		Change: model.Bound(e.value(estimate)), Low: model.Bound(low), High: model.Bound(high),
		Confidence: v.Interval.Confidence, Method: v.Interval.Method,
		ChangeText: e.changeText(estimate, low, high), RangeText: e.rangeText(v.Interval),
		Warnings: v.Warnings,
	}
	if v.Family != nil {
		low, high := e.ends(*v.Family)
		r.FamilyLow, r.FamilyHigh = new(model.Bound(low)), new(model.Bound(high))
		r.FamilyText = e.rangeText(*v.Family)
	}
	return r
}

// note says what a verdict's words leave open. A sequential session shows its
// evidence and never a p value, a fixed one the reverse: neither number means
// anything in the other mode (statistics, section 5.4).
func (b *builder) note(v model.Verdict) string {
	var parts []string
	if v.IsTwin {
		parts = append(parts, "copy of the baseline, the check that it does not differ from itself")
	}
	if v.Reason != "" && !strings.HasPrefix(v.Reason, Words(v)) && !v.IsTwin {
		parts = append(parts, v.Reason)
	}
	if v.Interval.Method == "t" {
		parts = append(parts, "assumes roughly normal block differences") // statistics, section 4.3
	}
	if v.Outcome == model.Undecided && v.MoreBlocks > 0 && !v.IsTwin {
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

// moreBlocks says about how much longer a verdict would take.
func (b *builder) moreBlocks(n int) string {
	p := &b.s.Plan
	text := fmt.Sprintf("about %s more", count(n, "block"))
	if p.Flow.Duration > 0 {
		perBlock := p.RunLength() * time.Duration(max(1, len(p.Settings))*max(1, len(p.Directions)))
		text += fmt.Sprintf(" (%s)", units.FormatDuration(time.Duration(n)*perBlock))
	}
	return text
}

func (b *builder) plateaus() []Plateau {
	out := []Plateau{}
	for _, p := range b.s.Plateaus {
		what := strings.TrimSpace(metricName(p.Metric) + " " + b.label(p.Direction))
		text := fmt.Sprintf("%s: %s is the smallest level within %s of the best", what, p.Level, p.Tolerance)
		if !p.Decided {
			text = fmt.Sprintf("%s: the smallest level within %s of the best is not decided", what, p.Tolerance)
			if p.From != "" && p.To != "" {
				text += fmt.Sprintf(", it lies from %s to %s", p.From, p.To)
			}
		}
		if p.Reason != "" {
			text += ": " + p.Reason
		}
		out = append(out, Plateau{p.Decided, text})
	}
	return out
}
