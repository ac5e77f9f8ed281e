package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/plan"
	"linerate/internal/core/sweep"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
)

// sweepHow says how the messages went, and how the ends waited for them.
func (b *builder) sweepHow() []string {
	how := []string{}
	add := func(text string) {
		if text != "" && !slices.Contains(how, text) {
			how = append(how, text)
		}
	}
	f := b.s.Plan.Flow
	if s, ok := sizes.Of(f); ok {
		switch s.Mode {
		case "", sizes.PingPong:
			add("one message in flight, there and back; times are one way, half of that")
		case sizes.Both:
			add("both ends send at the same time; goodput is that of one direction")
		case sizes.Stream:
			add("one message after the other in one direction; times are what each adds")
		}
		if s.Fresh {
			add("a new connection for each size")
		}
		if f.Nagle {
			add("Nagle's algorithm left on")
		}
		if f.Window > 0 {
			add("socket buffers of " + f.Window.String())
		}
	}
	for _, r := range b.counted {
		for _, e := range r.Ends {
			if e.Waiting != "" {
				add(b.name(e.Host) + " waits: " + e.Waiting)
			}
		}
	}
	return how
}

// sweepMark says what is odd about one size.
func sweepMark(c sweep.Curve, s sweep.Size) string {
	var marks []string
	if s.Stalled > 0 {
		marks = append(marks, fmt.Sprintf("stalled %d/%d", s.Stalled, c.Passes))
	}
	for _, f := range c.Features {
		if f.Kind != sweep.Stall && f.From <= s.Size && s.Size <= f.To {
			mark := string(f.Kind)
			if f.State != sweep.IsConfirmed {
				mark += "?"
			}
			marks = append(marks, mark)
		}
	}
	for _, l := range c.Logs {
		if l.Size == s.Size {
			marks = append(marks, "kernel log")
			break
		}
	}
	return strings.Join(marks, ", ")
}

// sweepText writes a feature as a sentence.
func sweepText(f sweep.Feature, mode string) string {
	var text string
	switch f.Kind {
	case sweep.Stall:
		return stallText(f)
	case sweep.Cliff:
		text = fmt.Sprintf("goodput falls at %s and stays low up to %s: %s than with %s", SizeText(f.From), SizeText(f.To), byHow(f, "less"), SizeText(f.Reference))
	case sweep.Notch:
		text = fmt.Sprintf("goodput is low %s: %s than with %s; larger messages recover", stretch("at", f), byHow(f, "less"), SizeText(f.Reference))
	case sweep.Slow:
		text = fmt.Sprintf("a message %s takes longer than one of %s: %s", stretch("of", f), SizeText(f.Reference), byHow(f, "more"))
		if mode == sizes.Stream {
			text += " in a stream"
		}
	}
	return text + "; " + stateText(f)
}

func stallText(f sweep.Feature) string {
	text := fmt.Sprintf("nothing came back %s", stretch("at", f))
	if f.Reference > 0 {
		text += fmt.Sprintf(", while %s still works", SizeText(f.Reference))
	}
	times := fmt.Sprintf("in %s of %s", FormatShare(f.Fall), passes(f.Passes, ""))
	switch f.State {
	case sweep.Candidate, sweep.Open:
		return text + ": " + times
	case sweep.IsConfirmed:
		return text + ": again " + times + " measured afresh"
	case sweep.NotConfirmed:
		return text + ": it did not happen again in " + passes(f.Passes, "fresh ")
	}
	return text
}

// passes counts passes: "1 fresh pass".
func passes(n int, which string) string {
	if n == 1 {
		return "1 " + which + "pass"
	}
	return fmt.Sprintf("%d %spasses", n, which)
}

// stretch names the sizes of f: "at 4096 B", "from 4093 B to 4099 B".
func stretch(one string, f sweep.Feature) string {
	if f.From == f.To {
		return one + " " + SizeText(f.From)
	}
	if one == "of" {
		return fmt.Sprintf("of %s to %s", SizeText(f.From), SizeText(f.To))
	}
	return fmt.Sprintf("from %s to %s", SizeText(f.From), SizeText(f.To))
}

// SizeText writes the size of a message so that it is told from its neighbours,
// a few bytes away: "64 KiB", "4093 B", "1 MiB + 3 B".
func SizeText(n units.Bytes) string {
	const exact = 100_000 // below that units.Bytes is
	near := (n + 512) / 1024 * 1024
	off := n - near
	switch {
	case n < exact || off == 0:
		return n.String()
	case off > 0 && off <= plan.SizeOffset:
		return fmt.Sprintf("%v + %d B", near, off)
	case off < 0 && off >= -plan.SizeOffset:
		return fmt.Sprintf("%v - %d B", near, -off)
	}
	return fmt.Sprintf("%d B", n)
}

// byHow writes the size of a fall, and what bounds it.
func byHow(f sweep.Feature, word string) string {
	text := FormatShare(f.Fall) + " " + word
	low, high := float64(f.Low), float64(f.High)
	switch {
	case !bounded(low):
	case !bounded(high):
		text += fmt.Sprintf(" (at least %s)", FormatShare(low))
	default:
		text += fmt.Sprintf(" (%s to %s)", FormatShare(low), FormatShare(high))
	}
	return text
}

func bounded(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// stateText says how sure a drop is.
func stateText(f sweep.Feature) string {
	switch f.State {
	case sweep.Candidate:
		return "found among many sizes, not measured again"
	case sweep.IsConfirmed:
		return "confirmed by " + passes(f.Passes, "fresh ")
	case sweep.NotConfirmed:
		return "not confirmed by " + passes(f.Passes, "fresh ")
	case sweep.Open:
		return "measured again, but not often enough to confirm it: " + passes(f.Passes, "fresh ")
	}
	return string(f.State)
}

// SweepHalf says where a curve reaches half of its greatest goodput.
func SweepHalf(d SweepDirection) string {
	if d.Half == 0 || d.Largest == nil {
		return ""
	}
	return fmt.Sprintf("half of it from messages of %v on", roundedBytes(d.Half))
}

// roundedBytes drops the digits that a straight line between two sizes makes up.
func roundedBytes(n units.Bytes) units.Bytes {
	if n < 1000 {
		return n
	}
	unit := units.Bytes(math.Pow10(int(math.Log10(float64(n))) - 2))
	return (n + unit/2) / unit * unit
}
