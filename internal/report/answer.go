package report

import (
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Answer returns the session's answer in sentences without a full stop: for a check the limits,
// for an experiment the conclusions, for all others the first finding of each direction or,
// without findings, the results.
func Answer(d Document) []string {
	for _, of := range []func(Document) []string{limiting, conclusions, mainFindings, sections, rates, answered} {
		if out := of(d); len(out) > 0 {
			return out
		}
	}
	return []string{d.Ending}
}

func limiting(d Document) (out []string) {
	if d.Check == nil {
		return nil
	}
	for _, l := range d.Check.Limits {
		out = append(out, l.Text)
	}
	return out
}

// conclusions returns the conclusions of an experiment, or the reason not to trust it.
func conclusions(d Document) (out []string) {
	if len(d.Tables) == 0 {
		return nil
	}
	if d.Untrustworthy != "" {
		return []string{"no verdict: " + d.Untrustworthy}
	}
	if d.Grid != nil && d.Grid.Conclusion != "" {
		return []string{d.Grid.Conclusion}
	}
	for _, t := range d.Tables {
		if line := t.Conclusion(); t.Objective && line != "" {
			out = append(out, t.What+": "+line)
		}
	}
	return out
}

func mainFindings(d Document) (out []string) {
	for _, f := range d.Findings {
		if f.Main {
			out = append(out, f.Text)
		}
	}
	return out
}

// sections returns the first sentences of the engine's section, prominent ones first.
func sections(d Document) (out []string) {
	if d.Section == nil {
		return nil
	}
	const most = 2
	for _, loud := range []bool{true, false} {
		for _, b := range d.Section.Blocks {
			quiet := b.Text == "" || len(b.Columns) > 0 || b.Tone == traffic.Aside || b.Tone == traffic.Heading
			if !quiet && len(out) < most && loud == (b.Tone == traffic.Alarm || b.Tone == traffic.Caution) {
				out = append(out, strings.TrimSuffix(b.Text, "."))
			}
		}
	}
	return out
}

func rates(d Document) (out []string) {
	for _, l := range d.Lines {
		out = append(out, fmt.Sprintf("%s: %s", l.Label, l.Goodput))
	}
	return out
}

// answered returns the times of probes and requests.
func answered(d Document) (out []string) {
	for _, l := range d.Latencies {
		if l.P50.IsKnown() {
			rate := ""
			if v, ok := l.Rate.Get(); ok {
				rate = fmt.Sprintf("%.4g answers a second; ", v)
			}
			out = append(out, LatencyName(l)+": "+rate+l.Within("half of the answers"))
		}
	}
	return out
}

// Dated reports whether a session was made when it was measured, or says when that was: files
// of many programs do not.
func Dated(s model.Session) bool {
	return s.Kind != model.KindImported || slices.ContainsFunc(s.Runs, func(r model.Run) bool { return !r.Started.IsZero() })
}

// When states the time of a session for a heading.
func When(s model.Session) string {
	const minute = "2006-01-02 15:04 UTC"
	if !Dated(s) {
		return "imported " + s.Ended.UTC().Format(minute) + ", measured at an unknown time"
	}
	return s.Created.UTC().Format(minute)
}

// RunLength states how long a plan's runs are ("2 s to 20 s"), and what of them does not count;
// "" if they end with a number of bytes.
func RunLength(p model.Plan) (length, omit string) {
	least, most := p.Flow, p.Flow
	for i, t := range p.Tests {
		if i == 0 || t.Flow.Duration < least.Duration {
			least = t.Flow
		}
		if i == 0 || t.Flow.Duration > most.Duration {
			most = t.Flow
		}
	}
	if most.Duration <= 0 {
		return "", ""
	}
	length = units.FormatDuration(most.Duration)
	if least.Duration != most.Duration {
		length = units.FormatDuration(least.Duration) + " to " + length
	}
	return length, units.FormatDuration(most.Omit)
}

// Method describes how the session was measured.
func Method(s model.Session, d Document) [][2]string {
	p := s.Plan
	const moment = "2006-01-02 15:04:05 UTC"
	measured := s.Created.UTC().Format(moment)
	if !Dated(s) {
		measured = "unknown: no time is read from the files"
	}
	out := [][2]string{{"command", plain.ShellLine(s.Command)}, {"session", s.ID}, {"measured", measured}, {"ended", d.Ending}}
	add := func(name, format string, args ...any) {
		out = append(out, [2]string{name, fmt.Sprintf(format, args...)})
	}
	if s.Note != "" {
		add("note", "%s", s.Note)
	}
	add("runs", "%d, of which %d count", len(s.Runs), len(Counted(s.Runs)))
	for _, e := range d.FarEnds {
		add("far end", "%s", e.Text)
	}
	if length, omit := RunLength(p); length != "" {
		add("length of a run", "%s measured, after %s that do not count", length, omit)
	}
	if s.Kind == model.KindImported {
		add("imported", "%s", s.Ended.UTC().Format(moment))
		add("design", "imported: what the files do not say of how they were measured is not known")
	}
	if len(p.Settings) > 1 && (s.Kind != model.KindImported || len(s.Verdicts) > 0) {
		order := fmt.Sprintf("in random order (seed %d)", p.Seed)
		if s.Kind == model.KindImported {
			order = "as the files number them"
		}
		add("design", "blocks of %d settings %s; the run is the sample, the difference inside a block the observation", len(p.Settings), order)
		if h := heldOver(p); h != nil {
			add("held", "%s", h.Why)
		}
		if p.Incomplete {
			add("blocks", "%s", incomplete(p))
		}
		rule := "evidence that may be looked at after every block"
		if p.Mode == model.FixedBlocks {
			rule = "a number of blocks fixed beforehand"
		}
		add("rule", "%s; confidence %s, margin %s", rule, Percent(p.Confidence), p.Margin)
		add("decides", "%s", metric.Name(p.Decides()))
	}
	for _, n := range d.Noise {
		add("noise", "%s", n.Text)
	}
	return out
}
