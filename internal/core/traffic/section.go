package traffic

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Told is a session as the section of its engine is made from it.
type Told struct {
	Session *model.Session
	Runs    []model.Run                            // that count
	Host    func(h model.Host) string              // name of an end
	Label   func(direction model.Direction) string // "to nas"
	Test    string                                 // command of a quick look at the same path
}

// Section is what the report of a session shows of one kind of traffic, mostly in place of
// a line for each direction.
type Section struct {
	Key    string  // of Data in the JSON document of the report: no other member's
	Data   any     // as encoding/json writes it
	Blocks []Block // the same for people, top to bottom
	Next   []Step  // commands that lead on
	Whole  bool    // it is all that there is to say of the runs
	Beside bool    // it stands below the lines of the directions, not in their place
}

// Step is a command that leads on from a report.
type Step struct {
	What    string
	Command string
}

// Block is a paragraph, or a table where it has Columns; one with neither is a gap.
type Block struct {
	Tone    Tone
	Text    string
	Inner   bool // part of what stands above it
	Columns []Column
	Rows    [][]Cell // each as long as Columns
}

// Column is one of a table, by what stands above it.
type Column struct {
	Title string
	Right bool // numbers
}

// Cell is one value of a table.
type Cell struct {
	Text string
	Tone Tone
}

// Tone is how a text is meant, for what has colours.
type Tone int

// The tones.
const (
	Plain   Tone = iota
	Heading      // what follows belongs to it
	Aside        // how it was done
	Caution      // may be a fault
	Alarm        // is one
)

// Gap is an empty line, of several one.
func Gap() Block { return Block{} }

// CPU is the processor time of the measuring process on host h in the runs that moved
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
		return fact.Unknown[float64]("the host did not tell")
	}
	return fact.Known(stats.Median(all), "median over runs of the measuring process")
}
