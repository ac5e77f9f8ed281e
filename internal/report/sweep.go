package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/sweep"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
)

// SweepDocument is what a session over message sizes has beside its Document.
type SweepDocument struct {
	Mode       string           `json:"mode"` // sizes.PingPong and its like
	How        []string         `json:"how"`  // what was done, in words
	Directions []SweepDirection `json:"directions"`
}

// SweepDirection is the curve of the messages that one end began with.
type SweepDirection struct {
	Direction model.Direction `json:"direction"`
	Label     string          `json:"label"` // "to nas"
	Curve     sweep.Curve     `json:"curve"`
	Rows      []SweepRow      `json:"rows"`     // some of the sizes, evenly spread, and all that are odd
	Smallest  *sweep.Size     `json:"smallest"` // smallest message that has a time; nil for none
	Largest   *sweep.Size     `json:"largest"`  // with the greatest goodput
	Half      units.Bytes     `json:"half"`     // message that reaches half of it; 0 where unknown
	Findings  []SweepFinding  `json:"findings"`
}

// SweepRow is one line of the table of a curve.
type SweepRow struct {
	sweep.Size
	Label string `json:"label"` // of the size: "1 MiB + 3 B"
	// Mark says in words what is odd about the size; "" for nothing.
	Mark string `json:"mark,omitempty"`
}

// SweepFinding is a feature of the curve as a sentence.
type SweepFinding struct {
	State sweep.State `json:"state"`
	Text  string      `json:"text"`
	Log   []string    `json:"log,omitempty"` // "nas: dc0: TX underrun"
}

func (b *builder) sweep() *SweepDocument {
	d := SweepDocument{Mode: sizes.PingPong, How: b.sweepHow(), Directions: []SweepDirection{}}
	if f, ok := sizes.Of(b.s.Plan.Flow); ok {
		d.Mode = cmp.Or(f.Mode, d.Mode)
	}
	for _, way := range []model.Direction{model.To, model.From, model.Both} {
		survey, confirm := sweep.Passes(b.counted, way)
		if len(survey) > 0 {
			d.Directions = append(d.Directions, b.sweepDirection(way, d.Mode, survey, confirm))
		}
	}
	return &d
}

// sweepRows is about how many lines the table of a curve has.
const sweepRows = 24

func (b *builder) sweepDirection(way model.Direction, mode string, survey, confirm []sweep.Pass) SweepDirection {
	c := sweep.Pool(survey)
	c.Features = sweep.Confirmed(c.Features, confirm)
	d := SweepDirection{Direction: way, Label: b.label(way), Curve: c, Rows: []SweepRow{}, Half: c.Half, Findings: []SweepFinding{}}
	for i, s := range c.Sizes {
		if s.Trials > 0 && d.Smallest == nil {
			d.Smallest = &c.Sizes[i]
		}
		if s.Size == c.Best && c.Best > 0 {
			d.Largest = &c.Sizes[i]
		}
	}
	shown := thinned(c, sweepRows)
	for _, s := range c.Sizes {
		if slices.Contains(shown, s.Size) {
			d.Rows = append(d.Rows, SweepRow{Size: s, Label: SizeText(s.Size), Mark: sweepMark(c, s)})
		}
	}
	for _, f := range c.Features {
		finding := SweepFinding{State: f.State, Text: sweepText(f, mode)}
		for _, l := range f.Logs {
			for _, line := range l.Lines {
				finding.Log = append(finding.Log, b.name(l.Host)+": "+line)
			}
		}
		d.Findings = append(d.Findings, finding)
	}
	return d
}

// thinned returns about most sizes of c, ascending: those at the borders of each
// feature, the fastest, and others evenly spread by ratio. These are round ones
// where there are enough: their neighbours say the same.
func thinned(c sweep.Curve, most int) []units.Bytes {
	var all, round []units.Bytes
	for _, s := range c.Sizes {
		all = append(all, s.Size)
		if isRound(s.Size) {
			round = append(round, s.Size)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if len(round) < min(most, len(all))/2 {
		round = all
	}
	shown := []units.Bytes{c.Best}
	for _, f := range c.Features {
		shown = append(shown, f.Reference, f.From, f.To)
	}
	first, last := round[0], round[len(round)-1]
	ratio := float64(last) / float64(first)
	for i := range most {
		want := float64(first) * math.Pow(ratio, float64(i)/float64(most-1))
		shown = append(shown, slices.MinFunc(round, func(a, b units.Bytes) int {
			return cmp.Compare(math.Abs(math.Log(float64(a)/want)), math.Abs(math.Log(float64(b)/want)))
		}))
	}
	slices.Sort(shown)
	return slices.Compact(shown)
}

// isRound reports whether n is a power of two, or one and a half of it.
func isRound(n units.Bytes) bool {
	if n%3 == 0 {
		n /= 3
	}
	return n > 0 && n&(n-1) == 0
}

// WriteNetPIPE writes the curve of d to w as NetPIPE 3.x writes its np.out, for
// programs that read such files: per line bytes, rate and seconds of one
// message one way, of the fastest trial. The rate is in 2^20 bits per second;
// where both ends sent at the same time, bytes and rate are those of both
// together (docs/wire/netpipe.md, "np.out"). Sizes without a time have no line.
func WriteNetPIPE(w io.Writer, d SweepDirection, mode string) error {
	factor := int64(1)
	if mode == sizes.Both {
		factor = 2
	}
	for _, s := range d.Curve.Sizes {
		if s.Trials == 0 {
			continue
		}
		bytes, seconds := factor*int64(s.Size), s.Min.Seconds()
		if _, err := fmt.Fprintf(w, "%8d %f %12.8f\n", bytes, float64(bytes)*8/(seconds*(1<<20)), seconds); err != nil {
			return fmt.Errorf("write np.out: %w", err)
		}
	}
	return nil
}
