package traffic

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Measured is the input of an engine's report section: a session and its names.
type Measured struct {
	Session *model.Session
	Runs    []model.Run                            // those that count
	Host    func(h model.Host) string              // name of an end
	Label   func(direction model.Direction) string // "to nas"
	Test    string                                 // command for a quick test of the same path
}

// Section is the report's section on one kind of traffic, mostly in place of a line for each
// direction.
type Section struct {
	Key    string  // of Data in the JSON document of the report: unique
	Data   any     // as encoding/json writes it
	Blocks []Block // the same as text, top to bottom
	Next   []Step  // follow-up commands
	Whole  bool    // it replaces everything else about the runs
	Beside bool    // it follows the lines of the directions instead of replacing them
}

// Step is a follow-up command for a report.
type Step struct {
	What    string
	Command string
}

// Block is a paragraph, or a table if it has Columns; one with neither is a gap.
type Block struct {
	Tone    Tone
	Text    string
	Inner   bool // part of the block above
	Columns []Column
	Rows    [][]Cell // each as long as Columns
}

// Column is one column of a table, with its header.
type Column struct {
	Title string
	Right bool // right-aligned, for numbers
}

// Cell is one value of a table.
type Cell struct {
	Text string
	Tone Tone
}

// Tone is the meaning of a text, shown as a colour if possible.
type Tone int

// The tones.
const (
	Plain   Tone = iota
	Heading      // of the blocks that follow
	Aside        // how it was measured
	Caution      // may be a fault
	Alarm        // a fault
)

// Gap returns an empty line; several in a row count as one.
func Gap() Block { return Block{} }

// CPU returns the processor time of the measuring process on host h in the runs that moved
// payload in direction d: median over runs, 1 is one core.
func CPU(runs []model.Run, d model.Direction, h model.Host) fact.Of[float64] {
	var all []float64
	for _, r := range runs {
		if _, ok := r.Value(d, model.Goodput); !ok {
			continue
		}
		for _, end := range r.Ends {
			if end.Host == h && end.CPUWindow > 0 {
				all = append(all, float64(end.CPUUser+end.CPUSystem)/float64(end.CPUWindow))
			}
		}
	}
	if len(all) == 0 {
		return fact.Unknown[float64]("the host did not report it")
	}
	return fact.Known(stats.Median(all), "median over runs of the measuring process")
}
