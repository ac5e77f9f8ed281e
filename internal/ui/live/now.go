package live

import (
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// Now is the progress of the current run, or of the last one: one linerate process shares it
// with others.
type Now struct {
	Run     int      `json:"run"` // number within this session, from 1
	Setting string   `json:"setting"`
	Phase   string   `json:"phase"` // "paused" between two runs, if the user has paused
	Ways    []WayNow `json:"ways"`  // directions of the run
}

// WayNow is a direction of a run: of the previous run, until the current one's first interval is
// over.
type WayNow struct {
	Direction model.Direction `json:"direction"`
	Name      string          `json:"name"`  // "to nas"
	Rates     []Point         `json:"rates"` // bit/s
	Trips     []Point         `json:"trips"` // seconds, there and back
}

// Point is a value at a time since the start of the run, in seconds: the middle of an interval.
type Point struct {
	At    float64 `json:"at"`
	Value float64 `json:"value"`
}

// kept appends a sample to the most recent ones.
func kept(points []Point, s model.Sample) []Point {
	points = append(points, Point{(s.Start + s.Length/2).Seconds(), s.Value})
	return points[max(0, len(points)-keptRates):]
}

func values(points []Point) (out []float64) {
	for _, p := range points {
		out = append(out, p.Value)
	}
	return out
}

// Now returns the progress of the current run.
func (t *State) Now() Now {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := Now{Run: t.runs, Setting: t.at.Setting, Phase: t.phase, Ways: []WayNow{}}
	if t.pause == Paused {
		n.Phase = "paused"
	}
	for _, w := range t.ways {
		if len(w.tells.Rates)+len(w.tells.Trips) > 0 {
			one := w.tells
			one.Name = plain.Line(t.names.Way(w.direction))
			one.Rates, one.Trips = slices.Clone(one.Rates), slices.Clone(one.Trips)
			n.Ways = append(n.Ways, one)
		}
	}
	return n
}
