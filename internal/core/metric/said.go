package metric

import (
	"fmt"
	"math"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// asFactor is the rise from which a change is said as a factor: "1.87 times as fast"
// is read at once, "86.8 % faster" is not. Log ratio.
var asFactor = math.Log(1.5)

// finestSaid is the finest that a change is said to, in what people see.
const finestSaid = 0.01

// Said is verdict v for people, without statistics: what the setting does, how much at
// least, and whether that is decided: "1.87 times as fast, at least 1.83; 8 blocks,
// decided". Margin is the plan's. It is the only place that words a verdict for people.
func Said(v model.Verdict, margin units.Percent) string {
	i, blocks := Describe(v.Metric), plain.Count(v.Blocks, "block")
	switch {
	case v.Blocks == 0:
		return "no block yet"
	case v.Outcome == model.Equivalent:
		return fmt.Sprintf("no difference that matters (%s); %s", i.atMost(v, margin), blocks)
	case v.Outcome != model.Better && v.Outcome != model.Worse:
		return "not decided after " + blocks
	}
	text := i.Said(v.Estimate, float64(v.Interval.Low), float64(v.Interval.High))
	if v.Size == "small" {
		text += fmt.Sprintf(", too little to matter (margin %s)", margin)
	}
	return text + "; " + blocks + ", decided"
}

// Said writes gain d, positive good, as what it means for people, and how much that is
// at least where the interval of gains from low to high leaves out no change: "1.87
// times as fast, at least 1.83", "10.0 % faster, at least 6.7 %".
func (i Info) Said(d, low, high float64) string {
	text, least := i.said(d, low, high)
	if least != "" {
		text += ", at least " + least
	}
	return text
}

// SaidBriefly is Said without what it is at least.
func (i Info) SaidBriefly(d, low, high float64) string {
	text, _ := i.said(d, low, high)
	return text
}

// said returns a change and its end next to no change, "" where the interval holds that.
func (i Info) said(d, low, high float64) (change, least string) {
	is, near, far := i.Change(d), i.Change(low), i.Change(high)
	if d < 0 {
		near, far = far, near
	}
	more, less, times := "higher", "lower", "as high"
	if i.ID == model.Goodput {
		more, less, times = "faster", "slower", "as fast"
	}
	sure := near*is > 0 && !math.IsInf(near, 0)
	if !i.CanBe0 && is >= asFactor {
		width := math.Abs(math.Exp(far) - math.Exp(near))
		if sure {
			least = strings.TrimSuffix(units.FormatFactor(near, width), " times")
		}
		return units.FormatFactor(is, width) + " " + times, least
	}
	if sure {
		least = i.size(near)
	}
	if is < 0 {
		more = less
	}
	return i.size(is) + " " + more, least
}

// size is the size of a change with two significant digits, or whole numbers.
func (i Info) size(change float64) string {
	shown := math.Abs(i.Shown(change))
	if math.IsNaN(shown) || math.IsInf(shown, 0) {
		return "unknown"
	}
	return units.Round(shown, max(shown, finestSaid)) + i.suffix()
}

// atMost bounds a difference that does not matter: by what the interval leaves, or by
// the margin where that is less.
func (i Info) atMost(v model.Verdict, margin units.Percent) string {
	low, high := i.Change(float64(v.Interval.Low)), i.Change(float64(v.Interval.High))
	if math.Abs(i.Shown(low)) > math.Abs(i.Shown(high)) {
		high = low
	}
	most := math.Abs(i.Shown(high))
	if math.IsInf(most, 0) || math.IsNaN(most) || !i.CanBe0 && most > float64(margin) {
		return fmt.Sprintf("less than %s", margin)
	}
	return "at most " + i.size(high)
}
