package diagnose

import (
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// finding builds a finding of the direction.
type finding struct {
	f features
	model.Finding
}

// found begins a finding. host is where the limit can be changed, "" for the path.
func (f features) found(host model.Host, limit string) *finding {
	return &finding{f: f, Finding: model.Finding{
		Direction: f.Direction, Host: host, Limit: limit,
		Share: fact.Unknown[float64]("no share of the time"), Implied: fact.Unknown[units.BitRate]("this limit has no formula"),
		Explains: fact.Unknown[float64]("how much of the gap it explains is unknown"),
	}}
}

// because adds a line of evidence; the first becomes the finding's main line.
func (b *finding) because(source, format string, args ...any) *finding {
	text := fmt.Sprintf(format, args...)
	if b.Evidence == "" {
		b.Evidence = text
	}
	b.Proof = append(b.Proof, model.Proof{Text: text, Source: source})
	return b
}

// also extends the main line.
func (b *finding) also(format string, args ...any) *finding {
	b.Evidence += "; " + fmt.Sprintf(format, args...)
	return b
}

func (b *finding) allows(rate units.BitRate, source string) *finding {
	b.Implied = fact.Known(rate, source)
	b.Explains = b.f.explainedBy(rate)
	return b
}

func (b *finding) explains(v fact.Of[float64]) *finding {
	b.Explains = b.f.onlyWithCeiling(v)
	return b
}

func (b *finding) share(v float64, source string) *finding {
	b.Share = fact.Known(v, source)
	return b
}

// helps names settings that could help.
func (b *finding) helps(knobs ...model.KnobID) *finding {
	b.Knobs = append(b.Knobs, knobs...)
	return b
}

// noKnob says why no setting helps, and what does.
func (b *finding) noKnob(text string) *finding {
	b.NoKnob = text
	return b
}

// misses adds evidence that would raise the confidence, unless it is known.
func (b *finding) misses(known bool, what, how string) *finding {
	if !known {
		b.Missing = append(b.Missing, model.Missing{What: what, How: how})
	}
	return b
}

func (b *finding) kind(k model.FindingKind) *finding {
	b.Kind = k
	return b
}

// done completes the finding of a rule.
func (b *finding) done(rule string) model.Finding {
	if b.Rule == "" {
		b.Rule = rule
	}
	if b.Rule != "unknown" { // "unknown" claims nothing
		b.Confidence = calibrated(b.Rule, len(b.Missing) == 0)
	}
	return b.Finding
}

// How to get missing evidence.
const (
	ByCheck    = "linerate check tries UDP at several rates, packet sizes and both directions"
	byCounters = "reach the host over ssh or with a key, so that it reports its counters"
)
