package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
)

// how describes the mode of the messages, and how the ends waited for them.
func how(t traffic.Measured) []string {
	out := []string{}
	add := func(text string) {
		if text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	f := t.Session.Plan.Flow
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
	for _, r := range t.Runs {
		for _, e := range r.Ends {
			if e.Waiting != "" {
				add(t.Host(e.Host) + " waits: " + e.Waiting)
			}
		}
	}
	return out
}

// mark says what is irregular about one size.
func mark(c Curve, s Size) string {
	var marks []string
	if s.Stalled > 0 {
		marks = append(marks, fmt.Sprintf("stalled %d/%d", s.Stalled, c.Passes))
	}
	for _, f := range c.Features {
		if f.Kind != Stall && f.From <= s.Size && s.Size <= f.To {
			what := string(f.Kind)
			if f.State != IsConfirmed {
				what += "?"
			}
			marks = append(marks, what)
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

// sentence formats a feature as a sentence.
func sentence(f Feature, mode string) string {
	var text string
	switch f.Kind {
	case Stall:
		return stallText(f)
	case Cliff:
		text = fmt.Sprintf("goodput falls at %s and stays low up to %s: %s than with %s", SizeText(f.From), SizeText(f.To), byHow(f, "less"), SizeText(f.Reference))
	case Notch:
		text = fmt.Sprintf("goodput is low %s: %s than with %s; larger messages recover", stretch("at", f), byHow(f, "less"), SizeText(f.Reference))
	case Slow:
		text = fmt.Sprintf("a message %s takes longer than one of %s: %s", stretch("of", f), SizeText(f.Reference), byHow(f, "more"))
		if mode == sizes.Stream {
			text += " in a stream"
		}
	}
	return text + "; " + stateText(f)
}

func stallText(f Feature) string {
	text := fmt.Sprintf("nothing came back %s", stretch("at", f))
	if f.Reference > 0 {
		text += fmt.Sprintf(", while %s still works", SizeText(f.Reference))
	}
	times := fmt.Sprintf("in %s of %s", units.FormatShare(f.Fall), plain.Count(f.Passes, "pass", "passes"))
	switch f.State {
	case Candidate, Open:
		return text + ": " + times
	case IsConfirmed:
		return text + ": again " + times + " measured afresh"
	case NotConfirmed:
		return text + ": it did not happen again in " + plain.Count(f.Passes, "fresh pass", "fresh passes")
	}
	return text
}

// stretch names the sizes of f: "at 4096 B", "from 4093 B to 4099 B".
func stretch(one string, f Feature) string {
	if f.From == f.To {
		return one + " " + SizeText(f.From)
	}
	if one == "of" {
		return fmt.Sprintf("of %s to %s", SizeText(f.From), SizeText(f.To))
	}
	return fmt.Sprintf("from %s to %s", SizeText(f.From), SizeText(f.To))
}

// SizeText formats the size of a message distinctly from its neighbours, a few bytes away: "64
// KiB", "4093 B", "1 MiB + 3 B".
func SizeText(n units.Bytes) string {
	const exact = 100_000 // below that units.Bytes formats exactly
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

// byHow formats the size of a fall, with its bounds.
func byHow(f Feature, word string) string {
	text := units.FormatShare(f.Fall) + " " + word
	low, high := float64(f.Low), float64(f.High)
	switch {
	case !bounded(low):
	case !bounded(high):
		text += fmt.Sprintf(" (at least %s)", units.FormatShare(low))
	default:
		text += fmt.Sprintf(" (%s to %s)", units.FormatShare(low), units.FormatShare(high))
	}
	return text
}

func bounded(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// stateText formats the state of evidence for a drop.
func stateText(f Feature) string {
	switch f.State {
	case Candidate:
		return "found among many sizes, not measured again"
	case IsConfirmed:
		return "confirmed by " + plain.Count(f.Passes, "fresh pass", "fresh passes")
	case NotConfirmed:
		return "not confirmed by " + plain.Count(f.Passes, "fresh pass", "fresh passes")
	case Open:
		return "measured again, but not often enough to confirm it: " + plain.Count(f.Passes, "fresh pass", "fresh passes")
	}
	return string(f.State)
}

// half says where a curve reaches half of its greatest goodput.
func half(d Direction) string {
	if d.Half == 0 || d.Largest == nil || len(d.Curve.Sizes) < 2 {
		return ""
	}
	return fmt.Sprintf("half of it from messages of %v on", roundedBytes(d.Half))
}

// roundedBytes drops the digits that only stem from the interpolation.
func roundedBytes(n units.Bytes) units.Bytes {
	if n < 1000 {
		return n
	}
	unit := units.Bytes(math.Pow10(int(math.Log10(float64(n))) - 2))
	return (n + unit/2) / unit * unit
}
