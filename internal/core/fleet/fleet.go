// Package fleet holds the values of measurements between many hosts, identified by their places
// in a list: 0, 1 …
package fleet

import "math"

// Pair is two hosts that measure with each other. Near is the lower place.
type Pair struct{ Near, Far int }

// Matrix has a number for each direction between two hosts: [sender][receiver]. It is NaN if
// not measured, as on the diagonal.
type Matrix [][]float64

// NewMatrix returns a matrix of n hosts without any number.
func NewMatrix(n int) Matrix {
	m := make(Matrix, n)
	for i := range m {
		m[i] = make([]float64, n)
		for j := range m[i] {
			m[i][j] = math.NaN()
		}
	}
	return m
}

// Row returns the numbers of all directions from a host.
func (m Matrix) Row(sender int) []float64 {
	return m.collect(func(i, _ int) bool { return i == sender })
}

// Column returns the numbers of all directions to a host.
func (m Matrix) Column(receiver int) []float64 {
	return m.collect(func(_, j int) bool { return j == receiver })
}

// All returns every number, row by row.
func (m Matrix) All() []float64 { return m.collect(func(int, int) bool { return true }) }

func (m Matrix) collect(wanted func(i, j int) bool) (out []float64) {
	for i, row := range m {
		for j, v := range row {
			if !math.IsNaN(v) && wanted(i, j) {
				out = append(out, v)
			}
		}
	}
	return out
}

// Deviations returns every number with its hosts.
func (m Matrix) Deviations() (all []Deviation) {
	for i, row := range m {
		for j, v := range row {
			if !math.IsNaN(v) {
				all = append(all, Deviation{From: int64(i), To: int64(j), D: v})
			}
		}
	}
	return all
}

// Map returns the matrix of f applied to every number.
func (m Matrix) Map(f func(i, j int, v float64) float64) Matrix {
	out := NewMatrix(len(m))
	for i, row := range m {
		for j, v := range row {
			if !math.IsNaN(v) {
				out[i][j] = f(i, j, v)
			}
		}
	}
	return out
}
