package diagnose

import (
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// calibration is how often findings of a rule were right: with all the evidence
// that the rule knows of, and with a part of it missing.
//
// The numbers are derived from how directly the evidence shows the limit: what a
// kernel or a driver counts under its own name is nearly certain, what follows from
// a pattern of rates and round trips is less. They are the one place to correct
// when findings are compared with planted limits.
type calibration struct{ whole, part float64 }

func calibrated(rule string) calibration {
	switch rule {
	case "ceiling", "dead", "M2":
		return calibration{0.98, 0.95}
	case "B07", "B08", "B09", "B39":
		return calibration{0.95, 0.85}
	case "B04", "B12", "B16", "B17", "B37", "M1", "B29", "B01", "B13", "B24", "B26":
		return calibration{0.90, 0.75}
	case "B10", "B11", "B14", "B18", "B21", "B22", "B03", "B30", "M8":
		return calibration{0.85, 0.70}
	case "B06", "B02", "B23", "B25":
		return calibration{0.80, 0.65}
	}
	return calibration{0.70, 0.55}
}

// finding builds a finding of the direction.
type finding struct {
	f features
	model.Finding
}

// found begins a finding. Host is where it can be changed, "" for the path.
func (f features) found(host model.Host, limit string) *finding {
	return &finding{f: f, Finding: model.Finding{
		Direction: f.Direction, Host: host, Limit: limit,
		Share: fact.Unknown[float64]("no share of the time"), Implied: fact.Unknown[units.BitRate]("this limit has no formula"),
		Explains: fact.Unknown[float64]("nobody knows how much of the gap it explains"),
	}}
}

// because adds a line of evidence; the first is the finding's own.
func (b *finding) because(source, format string, args ...any) *finding {
	text := fmt.Sprintf(format, args...)
	if b.Evidence == "" {
		b.Evidence = text
	}
	b.Proof = append(b.Proof, model.Proof{Text: text, Source: source})
	return b
}

// also adds words to the main line.
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

// misses says what would make it surer.
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

// done finishes the finding of a rule.
func (b *finding) done(rule string) model.Finding {
	if b.Rule == "" {
		b.Rule = rule
	}
	c := calibrated(b.Rule)
	b.Confidence = c.whole
	if len(b.Missing) > 0 {
		b.Confidence = c.part
	}
	return b.Finding
}

// The ways to get missing evidence.
const (
	byCheck    = "linerate check tries UDP at several rates, packet sizes and both directions"
	byCounters = "reach the host over ssh or with a key, so that it tells its counters"
	byLength   = "measure for longer: -t 30s"
)
