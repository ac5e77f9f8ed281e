package bottleneck

import (
	"cmp"
	"slices"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
)

// Document is the report's section on file copies.
type Document struct {
	Size       units.Bytes `json:"size"` // of one copy; 0 if runs differ
	Directions []Direction `json:"directions"`
}

// Direction holds the results of one direction.
type Direction struct {
	Direction model.Direction `json:"direction"`
	Label     string          `json:"label"` // "to nas"
	Sender    string          `json:"sender"`
	Receiver  string          `json:"receiver"`
	Rows      []Row           `json:"rows"`
	Limits    []Limit         `json:"limits"`
	// How lists how the hosts copied, as they report it: one text for each method that
	// occurred.
	How []string `json:"how"`
}

// Row is one copy, or one part of it alone.
type Row struct {
	Setting string        `json:"setting"`
	Label   string        `json:"label"` // "disk -> memory"
	Part    bool          `json:"part"`  // measured alone
	Runs    int           `json:"runs"`
	Rate    units.BitRate `json:"rate"` // median over runs
	Low     units.BitRate `json:"low"`  // of any run
	High    units.BitRate `json:"high"`
	// Limit says what limits a copy; "" for a part.
	Limit string `json:"limit,omitempty"`
}

// Traffic is the kind of traffic of engine filecopy with its section of the report.
func Traffic() traffic.Kind {
	k := files.Kind()
	k.Section = section
	return k
}

func section(t traffic.Measured) *traffic.Section {
	d := document(t)
	return &traffic.Section{Key: "copy", Data: d, Blocks: d.blocks(), Next: d.next(t.Test), Whole: true}
}

func document(t traffic.Measured) *Document {
	d := Document{Size: sizeOf(t.Runs), Directions: []Direction{}}
	for _, way := range []model.Direction{model.To, model.From} {
		if c, ok := direction(t, way); ok {
			d.Directions = append(d.Directions, c)
		}
	}
	return &d
}

// sizeOf returns the amount that each run moved, 0 if the runs differ.
func sizeOf(runs []model.Run) units.Bytes {
	size := units.Bytes(0)
	for i, r := range runs {
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

// direction returns the report of one direction, false if it has no run.
func direction(t traffic.Measured, way model.Direction) (Direction, bool) {
	c := Direction{Direction: way, Label: t.Label(way), Sender: t.Host(way.Sender()), Receiver: t.Host(way.Receiver()), Rows: []Row{}, How: []string{}}
	in := Input{
		Rates: map[string]Rates{}, CPU: map[string]map[model.Host]float64{}, Ceiling: limits.OfPath(t.Session, way).Rate, Confidence: t.Session.Plan.Confidence,
	}
	for _, set := range t.Session.Plan.Settings {
		row, rates := gather(t, way, set, &c)
		if row.Runs == 0 {
			continue
		}
		in.Rates[set.Name] = rates
		in.CPU[set.Name] = processors(t.Runs, way, set.Name)
		row.Label = label(set)
		c.Rows = append(c.Rows, row)
	}
	// The copies first, then their parts.
	slices.SortStableFunc(c.Rows, func(x, y Row) int { return cmp.Compare(bit(x.Part), bit(y.Part)) })
	c.Limits = Limits(in)
	for i := range c.Rows {
		for _, l := range c.Limits {
			if l.Copy == c.Rows[i].Setting {
				c.Rows[i].Limit = c.limitText(t, l)
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

// gather collects the runs of one setting and their rates by block, and adds to c how they were
// done.
func gather(t traffic.Measured, way model.Direction, set model.Setting, c *Direction) (Row, Rates) {
	row := Row{Setting: set.Name, Part: knobOf(set, "copy.mode", files.Copy) != files.Copy}
	rates := Rates{}
	var all []float64
	for _, r := range t.Runs {
		v, ok := r.Value(way, model.Goodput)
		if r.Setting != set.Name || !ok || v <= 0 {
			continue
		}
		all = append(all, v)
		rates[r.Block] = v
		for _, e := range r.Ends {
			if how := t.Host(e.Host) + ": " + e.Waiting; e.Waiting != "" && !slices.Contains(c.How, how) {
				c.How = append(c.How, how)
			}
		}
	}
	if row.Runs = len(all); row.Runs > 0 {
		row.Rate, row.Low, row.High = units.BitRate(stats.Median(all)), units.BitRate(slices.Min(all)), units.BitRate(slices.Max(all))
	}
	return row, rates
}

// processors returns the median processor time of each end over the runs of one setting.
func processors(all []model.Run, way model.Direction, setting string) map[model.Host]float64 {
	var runs []model.Run
	for _, r := range all {
		if r.Setting == setting {
			runs = append(runs, r)
		}
	}
	out := map[model.Host]float64{}
	for _, h := range []model.Host{model.Near, model.Far} {
		if v, ok := traffic.CPU(runs, way, h).Get(); ok {
			out[h] = v
		}
	}
	return out
}

// knobOf returns the value that set assigns to a knob of the flow, or else or.
func knobOf(set model.Setting, k model.KnobID, or string) string {
	for _, a := range set.Assignments {
		if a.Knob == k && a.Host == "" {
			return cmp.Or(a.Value, or)
		}
	}
	return or
}

// next returns the follow-up commands if the network is the limit.
func (d *Document) next(test string) []traffic.Step {
	for _, c := range d.Directions {
		for _, l := range c.Limits {
			share, known := l.Link.Get()
			if l.Verdict == OnePart && l.Parts[0].Name == Network && (!known || share < nearLink) {
				return []traffic.Step{{What: "what limits the network", Command: test}}
			}
		}
	}
	return nil
}

// nearLink is the share of a link's capacity from which the link itself is the limit
// (proposed).
const nearLink = 0.9
