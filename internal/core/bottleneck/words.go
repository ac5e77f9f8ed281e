package bottleneck

import (
	"fmt"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
)

// label names a setting by source and destination.
func label(set model.Setting) string {
	from, to := knobOf(set, "copy.source", "memory"), knobOf(set, "copy.sink", "memory")
	switch knobOf(set, "copy.mode", files.Copy) {
	case files.Copy:
		return from + " -> " + to
	case files.Network:
		return "network alone"
	case files.Read:
		return "reading " + from + " alone"
	case files.Write:
		return "writing " + to + " alone"
	case files.Memory:
		return "memory alone"
	default:
		return set.Name
	}
}

// partText names a part of a copy as the activity that takes time.
func (d Direction) partText(name string) string {
	switch name {
	case Network:
		return "the network"
	case Read:
		return "reading at " + d.Sender
	case Write:
		return "writing at " + d.Receiver
	case Memory:
		return "copying in memory"
	default:
		return name
	}
}

// limitText names the limit of a copy, with the evidence.
func (d Direction) limitText(t traffic.Measured, l Limit) string {
	text := d.verdictText(l)
	if l.FullCore != "" && l.Verdict != NotMeasured {
		text += fmt.Sprintf("; %s used a whole core, which can be the limit itself", t.Host(l.FullCore))
	}
	return text
}

func (d Direction) verdictText(l Limit) string {
	switch l.Verdict {
	case NotMeasured:
		return "not known, without a measurement of " + plain.And(d.partTexts(l.Missing)) + " alone"
	case OnePart:
		return "limited by " + d.partText(l.Parts[0].Name) + ", " + alone(l.Parts[0]) + reach(l) + linkText(l)
	case SeveralOf:
		names := append([]string{l.Parts[0].Name}, l.Tied...)
		return "limited by " + plain.And(d.partTexts(names)) + ", which cannot be told apart: " + alone(l.Parts[0])
	case Turns:
		return fmt.Sprintf("%s, as if its parts took turns (%s predicted): they share something, a bus, a controller or a processor, or wait for each other; most of the time goes into %s (%s)",
			below(l), l.InTurn, d.partText(l.Parts[0].Name), units.FormatShare(l.Parts[0].Share))
	case Partly:
		return fmt.Sprintf("%s: its parts overlap only in part; most of the time goes into %s", below(l), d.partText(l.Parts[0].Name))
	case Unexplained:
		return fmt.Sprintf("%s, and less than the %s of parts that take turns: something else holds it back, that no part alone shows", below(l), l.InTurn)
	case Faster:
		return fmt.Sprintf("faster than %s alone (%s): a cache took part, so that this says nothing of the disk",
			d.partText(l.Parts[0].Name), l.Parts[0].Rate)
	default:
		return d.cannotTell(l)
	}
}

// cannotTell says why the limit is unknown.
func (d Direction) cannotTell(l Limit) string {
	switch l.Blocks {
	case 0:
		return "cannot tell: no block holds the copy and all its parts"
	case 1:
		return fmt.Sprintf("cannot tell from one run of each; slowest alone was %s with %s", d.partText(l.Parts[0].Name), l.Parts[0].Rate)
	}
	return fmt.Sprintf("cannot tell: in %d blocks it reached %s to %s of its slowest part, %s; the runs vary too much for so few of them",
		l.Blocks, units.FormatShare(l.Low), units.FormatShare(l.High), d.partText(l.Parts[0].Name))
}

// alone formats the rate of a part.
func alone(p Part) string { return "which alone does " + p.Rate.String() }

// reach formats the range of a copy's rate over its slowest part's, if the runs vary enough to
// matter.
func reach(l Limit) string {
	if l.Low >= certain && l.High <= 1/certain {
		return ""
	}
	return fmt.Sprintf(" (it reaches %s to %s of that)", units.FormatShare(l.Low), units.FormatShare(l.High))
}

// certain is the ratio from which a range is close enough to 1 to be omitted.
const certain = 0.9

// below says how far a copy falls short of its slowest part.
func below(l Limit) string {
	return fmt.Sprintf("reaches %s of its slowest part", units.FormatShare(float64(l.Rate)/float64(max(l.Overlap, units.BitRate(1)))))
}

// linkText says how much of the link a limiting network has used.
func linkText(l Limit) string {
	share, known := l.Link.Get()
	switch {
	case l.Parts[0].Name != Network || !known:
		return ""
	case share >= nearLink:
		return fmt.Sprintf(": %s of what the link can carry", units.FormatShare(share))
	}
	return fmt.Sprintf(": only %s of what the link can carry, so that not the link but a host, a card, a bus or a setting is what limits the network", units.FormatShare(share))
}

func (d Direction) partTexts(names []string) []string {
	out := lists.Each(names, d.partText)
	return out
}
