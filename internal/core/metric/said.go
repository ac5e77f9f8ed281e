package metric

import (
	"fmt"
	"math"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// asFactor is the rise from which a change is given as a factor: "1.87 times as fast" is easier
// to read than "86.8 % faster". Log ratio.
var asFactor = math.Log(1.5)

// finestSaid is the finest resolution of a change in text for people.
const finestSaid = 0.01

// Said formats verdict v without statistics: the effect of the setting, its lower bound, and
// whether it is decided: "1.87 times as fast, at least 1.83; 8 blocks, decided". margin is the
// plan's. Only this function words a verdict for people.
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

// Said formats gain d, positive good, with its lower bound if the interval from low to high
// excludes no change: "1.87 times as fast, at least 1.83", "10.0 % faster, at least 6.7 %".
func (i Info) Said(d, low, high float64) string {
	text, least := i.said(d, low, high)
	if least != "" {
		text += ", at least " + least
	}
	return text
}

// SaidBriefly is Said without the lower bound.
func (i Info) SaidBriefly(d, low, high float64) string {
	text, _ := i.said(d, low, high)
	return text
}

// said returns a change and its bound nearest to no change, "" if the interval includes that.
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

// size formats a change with two significant digits, or in whole numbers.
func (i Info) size(change float64) string {
	shown := math.Abs(i.Shown(change))
	if math.IsNaN(shown) || math.IsInf(shown, 0) {
		return "unknown"
	}
	return units.Round(shown, max(shown, finestSaid)) + i.suffix()
}

// atMost formats the bound of a difference that does not matter: that of the interval, or the
// margin if that is smaller.
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
