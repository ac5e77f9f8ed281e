package fleet

import (
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/lists"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/report/mesh"
)

// Metric is a number of each direction between two hosts.
type Metric string

// The metrics of a matrix.
const (
	Goodput   Metric = "goodput"
	RoundTrip Metric = "rtt"
	Loss      Metric = "loss"
)

// Metrics returns all metrics.
func Metrics() []Metric { return []Metric{Goodput, RoundTrip, Loss} }

// Numbers returns a metric of all directions in base units; the round trip of a pair counts both
// ways.
func Numbers(s *fleet.Status, metric Metric) fleet.Matrix {
	return map[Metric]fleet.Matrix{Goodput: s.Present.Goodput, RoundTrip: s.Present.RoundTrip, Loss: s.Present.Loss}[metric]
}

// Matrix returns a metric as the rows of a table: each host with each other or, if that is too
// wide, the median of each host.
func Matrix(s *fleet.Status, metric Metric) (header []string, rows [][]string) {
	names, m := Names(s), Numbers(s, metric)
	switch metric {
	case RoundTrip:
		return mesh.Grid(names, "round trip", m, tripText)
	case Loss:
		return mesh.Grid(names, "loss", m, func(v float64) string { return fmt.Sprintf("%.2g %%", 100*v) })
	case Goodput:
	}
	return mesh.Matrix(names, m)
}

func tripText(seconds float64) string {
	return units.FormatDuration(time.Duration(seconds * float64(time.Second)).Round(time.Microsecond))
}

// Queue returns the planned windows and the newest results as the rows of a table, the latest
// window first.
func Queue(s *fleet.Status) (header []string, rows [][]string) {
	all := slices.Concat(s.Queue, s.Recent)
	slices.SortStableFunc(all, func(a, b fleet.Entry) int { return b.From.Compare(a.From) })
	return []string{"from", "what", "near", "far", "state", "why"}, lists.Each(all, func(e fleet.Entry) []string {
		return []string{series.Clock(e.From), string(e.Kind), plain.Line(e.Near), plain.Line(e.Far), string(e.State), plain.Line(e.Reason)}
	})
}

// Plan returns what the hosts measure in an hour: in a line, as the rows of a table, and why
// pairs have no number.
func Plan(s *fleet.Status) (head string, header []string, rows [][]string, left []string) {
	n := len(s.Hosts)
	head = fmt.Sprintf("%s, %s: up to %s of each host an hour, each %d s long, %.2g %% of its time", plain.Count(n, "host"), plain.Count(s.Pairs, "pair"), plain.Count(s.Rounds, "look"), fleet.Window, float64(s.Rounds*fleet.Window)/36)
	if n > 1 && s.Rounds > 0 { // of an odd number, one pauses in each round
		head += "; each pair comes up about every " + units.FormatDuration(time.Duration(n-1+n%2)*time.Hour/time.Duration(s.Rounds))
	}
	for _, h := range s.Hosts {
		sends := "?"
		if h.Sends != nil {
			sends = h.Sends.String()
		}
		why := h.Limits.String()
		if h.Silent {
			why = "not planned: it is silent"
		}
		rows = append(rows, []string{plain.Line(h.Name), fmt.Sprint(h.Looks), sends, why})
	}
	left = lists.Each(s.Shared, fleet.SharedStatus.String)
	for _, p := range s.Problems {
		left = append(left, plain.Line(fmt.Sprintf("%s - %s: %s", p.Near, p.Far, p.Text)))
	}
	if n := s.Failed - len(s.Problems); n > 0 {
		left = append(left, fmt.Sprintf("%s more whose last look does not count", plain.Count(n, "pair")))
	}
	left = append(left, firstLooks(s)...)
	return head, []string{"host", ">looks an hour", ">sends an hour", "its limits"}, rows, left
}

// mostFirst is how many pairs without a look are named.
const mostFirst = 20

// firstLooks names the pairs that were never measured, or counts them.
func firstLooks(s *fleet.Status) (lines []string) {
	n, listed := 0, map[[2]string]bool{}
	for _, p := range s.Problems {
		listed[[2]string{p.Near, p.Far}], listed[[2]string{p.Far, p.Near}] = true, true
	}
	for i, a := range s.Hosts {
		for j, b := range s.Hosts[:i] {
			if s.Present.Looked[i][j] == 0 && !listed[[2]string{a.Name, b.Name}] {
				if n++; n <= mostFirst {
					lines = append(lines, plain.Line(b.Name+" - "+a.Name)+": its first look is still to come")
				}
			}
		}
	}
	if n > mostFirst {
		return []string{plain.Count(n, "pair") + ": the first look is still to come"}
	}
	return lines
}
