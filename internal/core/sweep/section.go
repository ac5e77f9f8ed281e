package sweep

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
)

// Document is the report's section on message sizes.
type Document struct {
	Mode       string      `json:"mode"` // sizes.PingPong and others
	How        []string    `json:"how"`  // the method, in words
	Directions []Direction `json:"directions"`
}

// Direction is the curve of the messages that one end sent first.
type Direction struct {
	Direction model.Direction `json:"direction"`
	Label     string          `json:"label"` // "to nas"
	Curve     Curve           `json:"curve"`
	Rows      []Row           `json:"rows"`     // some of the sizes, evenly spread, and all irregular ones
	Smallest  *Size           `json:"smallest"` // smallest message with a time; nil for none
	Largest   *Size           `json:"largest"`  // with the greatest goodput
	Half      units.Bytes     `json:"half"`     // message size that reaches half of it; 0 if unknown
	Findings  []Finding       `json:"findings"`
}

// Row is one line of the table of a curve.
type Row struct {
	Size
	Label string `json:"label"` // of the size: "1 MiB + 3 B"
	// Mark says what is irregular about the size; "" for nothing.
	Mark string `json:"mark,omitempty"`
}

// Finding is a feature of the curve as a sentence.
type Finding struct {
	State State    `json:"state"`
	Text  string   `json:"text"`
	Log   []string `json:"log,omitempty"` // "nas: dc0: TX underrun"
}

// Traffic is the kind of traffic of engine pingpong with its section of the report.
func Traffic() traffic.Kind {
	k := sizes.Kind()
	k.Section = section
	return k
}

// NPtcp is Traffic for flows that an NPtcp receiver answers.
func NPtcp() traffic.Kind {
	k := sizes.NPtcp()
	k.Section = section
	return k
}

// section returns the report's section with the curves. A server saw only its own half of the
// session, and may have none: then it is nil.
func section(t traffic.Measured) *traffic.Section {
	d := document(t)
	if t.Session.Kind == model.KindServed && len(d.Directions) == 0 {
		return nil
	}
	return &traffic.Section{Key: "sweep", Data: d, Blocks: d.blocks(), Whole: true}
}

func document(t traffic.Measured) *Document {
	d := Document{Mode: sizes.PingPong, How: how(t), Directions: []Direction{}}
	if f, ok := sizes.Of(t.Session.Plan.Flow); ok {
		d.Mode = cmp.Or(f.Mode, d.Mode)
	}
	for _, way := range []model.Direction{model.To, model.From, model.Both} {
		if survey, confirm := Passes(t.Runs, way); len(survey) > 0 {
			d.Directions = append(d.Directions, direction(t, way, d.Mode, survey, confirm))
		}
	}
	return &d
}

// tableRows is the approximate number of lines of a curve's table.
const tableRows = 24

func direction(t traffic.Measured, way model.Direction, mode string, survey, confirm []Pass) Direction {
	c := Pool(survey)
	c.Features = Confirmed(c.Features, confirm)
	d := Direction{Direction: way, Label: t.Label(way), Curve: c, Rows: []Row{}, Half: c.Half, Findings: []Finding{}}
	for i, s := range c.Sizes {
		if s.Trials > 0 && d.Smallest == nil {
			d.Smallest = &c.Sizes[i]
		}
		if s.Size == c.Best && c.Best > 0 {
			d.Largest = &c.Sizes[i]
		}
	}
	shown := thinned(c, tableRows)
	for _, s := range c.Sizes {
		if slices.Contains(shown, s.Size) {
			d.Rows = append(d.Rows, Row{Size: s, Label: SizeText(s.Size), Mark: mark(c, s)})
		}
	}
	for _, f := range c.Features {
		finding := Finding{State: f.State, Text: sentence(f, mode)}
		for _, l := range f.Logs {
			for _, line := range l.Lines {
				finding.Log = append(finding.Log, t.Host(l.Host)+": "+line)
			}
		}
		d.Findings = append(d.Findings, finding)
	}
	return d
}

// thinned returns about most sizes of c, ascending: those at the borders of each feature, the
// fastest, and others evenly spread by ratio, if possible round ones: their neighbours show the
// same.
func thinned(c Curve, most int) []units.Bytes {
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

// WriteNetPIPE writes the curves of d to w in the format of NetPIPE 3.x's np.out, for programs
// that read such files: per line bytes, rate and seconds of one message one way, of the fastest
// trial. The rate is in 2^20 bits per second; if both ends sent at the same time, bytes and
// rate are those of both together (docs/wire/netpipe.md, "np.out"). Sizes without a time have
// no line.
func (d *Document) WriteNetPIPE(w io.Writer) error {
	factor := int64(1)
	if d.Mode == sizes.Both {
		factor = 2
	}
	for _, c := range d.Directions {
		for _, s := range c.Curve.Sizes {
			if s.Trials == 0 {
				continue
			}
			bytes, seconds := factor*int64(s.Size), s.Min.Seconds()
			if _, err := fmt.Fprintf(w, "%8d %f %12.8f\n", bytes, float64(bytes)*8/(seconds*(1<<20)), seconds); err != nil {
				return fmt.Errorf("write np.out: %w", err)
			}
		}
	}
	return nil
}
