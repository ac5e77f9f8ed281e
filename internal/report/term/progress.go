package term

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Progress is how an experiment stands at one moment.
type Progress struct {
	Phase      string                 // "settling", "measuring"; "" where that needs no word
	Block      int                    // 1…; 0 before the first
	Unit       string                 // what the parts are called; "" is block
	MaxBlocks  int                    // the session ends with this one at the latest; 0 where there are no blocks
	Run        int                    // 1… inside the block
	Runs       int                    // of a block
	Setting    string                 //
	Direction  string                 // label: "to nas"
	Rate       fact.Of[units.BitRate] // of the last interval
	Elapsed    time.Duration          // since the session began
	Left       time.Duration          // until it ends at the latest; 0 is unknown
	About      bool                   // Left is an estimate, not a bound
	Evidence   fact.Of[float64]       // so far, in sequential mode; provisional
	EnoughIs   float64                // evidence that decides
	Comparison string                 // setting that Evidence is about
}

// Line returns p as one line of at most width columns, without escape
// sequences and line end. What matters least is left out first: evidence,
// phase, times, run.
func (p Progress) Line(width int, ascii bool) string {
	parts := []struct {
		text string
		rank int // the highest goes first
	}{
		{p.position(), 0},
		{p.runText(), 3},
		{strings.TrimSpace(clean(p.Setting) + " " + clean(p.Direction)), 1},
		{p.rateText(), 0},
		{clean(p.Phase), 5},
		{p.times(), 4},
		{p.evidenceText(), 6},
	}
	for worst := 7; worst >= 0; worst-- {
		var kept []string
		for _, part := range parts {
			if part.text != "" && part.rank < worst {
				kept = append(kept, part.text)
			}
		}
		line := strings.Join(kept, "  ")
		if ascii {
			line = toASCII(line)
		}
		if columns(line) <= width {
			return line
		}
	}
	return ""
}

func (p Progress) position() string {
	switch {
	case p.MaxBlocks == 0:
		return ""
	case p.Block == 0:
		return fmt.Sprintf("%s -/%d", cmp.Or(p.Unit, "block"), p.MaxBlocks)
	}
	return fmt.Sprintf("%s %d/%d", cmp.Or(p.Unit, "block"), p.Block, p.MaxBlocks)
}

func (p Progress) runText() string {
	if p.Runs <= 1 {
		return ""
	}
	return fmt.Sprintf("run %d/%d", p.Run, p.Runs)
}

func (p Progress) rateText() string {
	if v, ok := p.Rate.Get(); ok {
		return v.String()
	}
	return ""
}

func (p Progress) times() string {
	text := units.FormatDuration(p.Elapsed.Truncate(time.Second))
	bound := ", at most "
	if p.About {
		bound = ", about "
	}
	if left := p.Left.Round(time.Second); left > 0 {
		text += bound + units.FormatDuration(left) + " more"
	}
	return text
}

func (p Progress) evidenceText() string {
	v, ok := p.Evidence.Get()
	if !ok {
		return ""
	}
	text := fmt.Sprintf("evidence so far %.3g of %.3g", v, p.EnoughIs)
	if p.Comparison != "" {
		text += " (" + clean(p.Comparison) + ")"
	}
	return text
}
