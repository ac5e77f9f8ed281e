package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
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
	m, place := fleet.NewMatrix(len(s.Hosts)), map[int64]int{}
	for i, h := range s.Hosts {
		place[h.ID] = i
	}
	for _, w := range s.Ways {
		to, from := w.To, w.From
		switch metric {
		case RoundTrip:
			to, from = w.RoundTrip, w.RoundTrip
		case Loss:
			to, from = w.LossTo, w.LossFrom
		case Goodput:
		}
		i, known := place[w.Low]
		j, also := place[w.High]
		if known && also && to != nil {
			m[i][j] = *to
		}
		if known && also && from != nil {
			m[j][i] = *from
		}
	}
	return m
}

// Matrix returns a metric as the rows of a table: each host with each other or, if that is too
// wide, the median of each host.
func Matrix(s *fleet.Status, metric Metric) (header []string, rows [][]string) {
	var names []string
	for _, h := range s.Hosts {
		names = append(names, plain.Line(h.Name))
	}
	m := Numbers(s, metric)
	switch metric {
	case RoundTrip:
		return mesh.Grid(names, "round trip", m, func(v float64) string { return tripText(v) })
	case Loss:
		return mesh.Grid(names, "loss", m, func(v float64) string { return fmt.Sprintf("%.2g %%", 100*v) })
	case Goodput:
	}
	session := Mesh(s)
	return mesh.Matrix(&session)
}

func tripText(seconds float64) string {
	return units.FormatDuration(time.Duration(seconds * float64(time.Second)).Round(time.Microsecond))
}

// Queue returns the planned windows and the newest results as the rows of a table, the latest
// window first.
func Queue(s *fleet.Status) (header []string, rows [][]string) {
	all := slices.Concat(s.Queue, s.Recent)
	slices.SortStableFunc(all, func(a, b fleet.Entry) int { return b.From.Compare(a.From) })
	for _, e := range all {
		rows = append(rows, []string{series.Clock(e.From), string(e.Kind), plain.Line(e.Near), plain.Line(e.Far), string(e.State), plain.Line(e.Reason)})
	}
	return []string{"from", "what", "near", "far", "state", "why"}, rows
}

// Plan returns what the hosts measure in an hour: in a line, as the rows of a table, and why
// pairs have no number.
func Plan(s *fleet.Status) (head string, header []string, rows [][]string, left []string) {
	n := len(s.Hosts)
	head = fmt.Sprintf("%s, %s: up to %s of each host an hour, each %d s long, %.2g %% of its time", plain.Count(n, "host"), plain.Count(len(s.Ways), "pair"), plain.Count(s.Rounds, "look"), fleet.Window, float64(s.Rounds*fleet.Window)/36)
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
	for _, one := range s.Shared {
		left = append(left, one.String())
	}
	names := map[int64]string{}
	for _, h := range s.Hosts {
		names[h.ID] = h.Name
	}
	for _, w := range s.Ways {
		if why := cmp.Or(w.Problem, leftOut(w)); why != "" {
			left = append(left, plain.Line(fmt.Sprintf("%s - %s: %s", names[w.Low], names[w.High], why)))
		}
	}
	return head, []string{"host", ">looks an hour", ">sends an hour", "its limits"}, rows, left
}
