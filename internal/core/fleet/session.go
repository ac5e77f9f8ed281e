package fleet

import (
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Hosts returns the hosts of a mesh; nil if there are more than MostHosts, which is the case
// only in a file that was made to exhaust memory.
func Hosts(m *model.Mesh) []model.MeshHost {
	if len(m.Hosts) > MostHosts {
		return nil
	}
	return m.Hosts
}

// Rates returns the median goodput of every direction that a mesh session measured, in bit/s.
func Rates(s *model.Session) Matrix { return medians(s, model.Goodput) }

// RoundTrips returns the median round trip without load of every pair, in seconds.
func RoundTrips(s *model.Session) Matrix {
	m := medians(s, model.IdleP50)
	return m.Map(func(i, j int, v float64) float64 {
		if other := m[j][i]; other < v { // false if the other direction has none
			return other
		}
		return v
	})
}

// medians returns the median of a metric over the valid runs of each direction. It skips
// directions between hosts that the session lacks: the session may come from a file.
func medians(s *model.Session, metric model.Metric) Matrix {
	values := map[string][]float64{}
	for i := range s.Runs {
		r := &s.Runs[i]
		if v, ok := r.Value(r.Flow.Direction, metric); ok && r.State == model.RunValid {
			values[r.Setting] = append(values[r.Setting], v)
		}
	}
	m := NewMatrix(len(Hosts(s.Mesh)))
	for _, w := range s.Mesh.Ways {
		if v := values[w.Name]; len(v) > 0 && Between(s.Mesh, w) {
			m[w.From][w.To] = stats.Median(v)
		}
	}
	return m
}

// Between reports whether a direction is between two hosts of the mesh.
func Between(m *model.Mesh, w model.MeshWay) bool {
	n := len(Hosts(m))
	return w.From >= 0 && w.From < n && w.To >= 0 && w.To < n && w.From != w.To
}
