package report

import (
	"cmp"
	"slices"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
)

// CopyDocument is what a session of file copies has beside its Document.
type CopyDocument struct {
	Size       units.Bytes     `json:"size"` // of one copy; 0 where runs differ
	Directions []CopyDirection `json:"directions"`
}

// CopyDirection is what was measured one way.
type CopyDirection struct {
	Direction model.Direction    `json:"direction"`
	Label     string             `json:"label"` // "to nas"
	Sender    string             `json:"sender"`
	Receiver  string             `json:"receiver"`
	Rows      []CopyRow          `json:"rows"`
	Limits    []bottleneck.Limit `json:"limits"`
	// How it was done, as the ends say: one text for each way that occurred.
	How []string `json:"how"`
}

// CopyRow is one copy, or one part of it alone.
type CopyRow struct {
	Setting string        `json:"setting"`
	Label   string        `json:"label"` // "disk -> memory"
	Part    bool          `json:"part"`  // measured alone
	Runs    int           `json:"runs"`
	Rate    units.BitRate `json:"rate"` // median over runs
	Low     units.BitRate `json:"low"`  // of any run
	High    units.BitRate `json:"high"`
	// Limit says in words what holds a copy back; "" for a part.
	Limit string `json:"limit,omitempty"`
}

func (b *builder) copies() *CopyDocument {
	d := CopyDocument{Size: b.copySize(), Directions: []CopyDirection{}}
	for _, way := range []model.Direction{model.To, model.From} {
		if c, ok := b.copyDirection(way); ok {
			d.Directions = append(d.Directions, c)
		}
	}
	return &d
}

// copySize is how much each counted run moved, 0 where they differ.
func (b *builder) copySize() units.Bytes {
	size := units.Bytes(0)
	for i, r := range b.counted {
		n := movedBy(r)
		if i > 0 && n != size {
			return 0
		}
		size = n
	}
	return size
}

func movedBy(r model.Run) units.Bytes {
	for _, e := range r.Ends {
		for _, f := range e.Flows {
			if f.Role == model.Receiver {
				return f.Bytes
			}
		}
	}
	return 0
}

// copyDirection is the report of one way, false where it has no run.
func (b *builder) copyDirection(way model.Direction) (CopyDirection, bool) {
	c := CopyDirection{Direction: way, Label: b.label(way), Sender: b.name(way.Sender()), Receiver: b.name(way.Receiver()), Rows: []CopyRow{}, How: []string{}}
	in := bottleneck.Input{
		Rates: map[string]bottleneck.Rates{}, CPU: map[string]map[model.Host]float64{}, Ceiling: limits.OfPath(b.s, way).Rate, Confidence: b.s.Plan.Confidence,
	}
	for _, set := range b.s.Plan.Settings {
		row, rates := b.copyRow(way, set, &c)
		if row.Runs == 0 {
			continue
		}
		in.Rates[set.Name] = rates
		in.CPU[set.Name] = b.copyCPU(way, set.Name)
		row.Label = copyLabel(set)
		c.Rows = append(c.Rows, row)
	}
	// The copies first, then their parts.
	slices.SortStableFunc(c.Rows, func(x, y CopyRow) int { return cmp.Compare(bit(x.Part), bit(y.Part)) })
	c.Limits = bottleneck.Limits(in)
	for i := range c.Rows {
		for _, l := range c.Limits {
			if l.Copy == c.Rows[i].Setting {
				c.Rows[i].Limit = b.limitText(c, l)
			}
		}
	}
	return c, len(c.Rows) > 0
}

func bit(v bool) int {
	if v {
		return 1
	}
	return 0
}

// copyRow gathers the runs of one setting and their rates by block, and adds
// to c how they were done.
func (b *builder) copyRow(way model.Direction, set model.Setting, c *CopyDirection) (CopyRow, bottleneck.Rates) {
	row := CopyRow{Setting: set.Name, Part: knobOf(set, "copy.mode", files.Copy) != files.Copy}
	rates := bottleneck.Rates{}
	var all []float64
	for _, r := range b.counted {
		v, ok := r.Value(way, model.Goodput)
		if r.Setting != set.Name || !ok || v <= 0 {
			continue
		}
		all = append(all, v)
		rates[r.Block] = v
		for _, e := range r.Ends {
			if how := b.name(e.Host) + ": " + e.Waiting; e.Waiting != "" && !slices.Contains(c.How, how) {
				c.How = append(c.How, how)
			}
		}
	}
	if row.Runs = len(all); row.Runs > 0 {
		row.Rate, row.Low, row.High = units.BitRate(median(all)), units.BitRate(slices.Min(all)), units.BitRate(slices.Max(all))
	}
	return row, rates
}

// copyCPU is the median processor time of each end in the runs of one setting.
func (b *builder) copyCPU(way model.Direction, setting string) map[model.Host]float64 {
	var runs []model.Run
	for _, r := range b.counted {
		if r.Setting == setting {
			runs = append(runs, r)
		}
	}
	out := map[model.Host]float64{}
	for _, h := range []model.Host{model.Near, model.Far} {
		if v, ok := cpu(runs, way, h).Get(); ok {
			out[h] = v
		}
	}
	return out
}

// warnings are the session's, and those of runs, each once.
func (b *builder) warnings(runs []model.Run) []string {
	out := append([]string{}, b.s.Warnings...)
	for _, r := range runs {
		for _, w := range r.Warnings {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// knobOf returns what set assigns to a knob of the flow.
func knobOf(set model.Setting, k model.KnobID, or string) string {
	for _, a := range set.Assignments {
		if a.Knob == k && a.Host == "" {
			return cmp.Or(a.Value, or)
		}
	}
	return or
}

// next are the commands that lead on where the network is what limits.
func (d *CopyDocument) next(b *builder) []Step {
	for _, c := range d.Directions {
		for _, l := range c.Limits {
			share, known := l.Link.Get()
			if l.Verdict == bottleneck.OnePart && l.Parts[0].Name == bottleneck.Network && (!known || share < nearLink) {
				return []Step{{"what limits the network", b.testCommand()}}
			}
		}
	}
	return nil
}

// nearLink is the share of what a link can carry from which it is the link
// that limits (proposed).
const nearLink = 0.9
