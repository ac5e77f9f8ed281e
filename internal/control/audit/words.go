package audit

import (
	"fmt"
	"strings"

	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// String formats the event for people, in one line of clean text.
func (e Event) String() string {
	var b strings.Builder
	if e.Protocol != "" && e.Protocol != "linerate" {
		b.WriteString(e.Protocol + ": ")
	}
	who := "a client"
	if e.From.IsValid() {
		who = e.From.String()
	}
	if e.Key != "" {
		who += " (key " + e.Key + ")"
	}
	knob := fmt.Sprintf("%s (%s) %q -> %q", e.Knob, e.Place, e.Old, e.New)
	switch e.Kind {
	case Started, Stopped:
		b.WriteString("server " + string(e.Kind))
	case Refused:
		b.WriteString("refused " + who)
	case SessionBegin:
		b.WriteString("session from " + who + " begins")
	case SessionEnd:
		b.WriteString("session from " + who + " ended")
	case RunBegin:
		b.WriteString(who + " begins" + e.what())
	case RunEnd:
		b.WriteString(who + " done" + e.what())
	case Change:
		b.WriteString(who + " changes " + knob)
	case Undo:
		b.WriteString("undone for " + who + ": " + knob)
	case Confirm:
		b.WriteString(who + " confirms what was changed")
	case Keep, Restore:
		b.WriteString(who + " " + string(e.Kind) + "s " + e.Place)
	case Dropped:
		fmt.Fprintf(&b, "dropped %s of %s", plain.Count(e.Count, "connection"), plain.Count(e.Sources, "source"))
		if e.From.IsValid() {
			fmt.Fprintf(&b, ", of %s", e.From)
		}
	case LeftOut:
		fmt.Fprintf(&b, "left out of this file: %s of %s", plain.Count(e.LeftOut, "event"), plain.Count(e.Sources, "source"))
		if e.From.IsValid() {
			fmt.Fprintf(&b, ", of %s", e.From)
		}
		return clean(b.String())
	}
	if e.Outcome != "" && e.Outcome != OK && e.Outcome != Denied {
		b.WriteString(", " + e.Outcome)
	}
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	if e.LeftOut > 0 {
		fmt.Fprintf(&b, " (and %d events before)", e.LeftOut)
	}
	return clean(b.String())
}

// what describes a run and the bytes that it moved, as far as known.
func (e Event) what() string {
	var words []string
	for _, w := range []string{e.Engine, e.Direction} {
		if w != "" {
			words = append(words, w)
		}
	}
	if e.Took > 0 {
		words = append(words, units.FormatDuration(e.Took))
	}
	if e.Sent > 0 {
		words = append(words, e.Sent.String()+" sent")
	}
	if e.Received > 0 {
		words = append(words, e.Received.String()+" received")
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}
