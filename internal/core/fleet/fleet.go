// Package fleet holds the values of measurements between many hosts, identified by their places
// in a list: 0, 1 …
package fleet

import (
	"encoding/json"
	"math"
	"strconv"
)

// Pair is two hosts that measure with each other. Near is the lower place.
type Pair struct{ Near, Far int }

// Matrix has a number for each direction between two hosts: [sender][receiver]. It is NaN if
// not measured, as on the diagonal.
type Matrix [][]float64

// NewMatrix returns a matrix of n hosts without any number.
func NewMatrix(n int) Matrix { return newMatrix(n, n) }

func newMatrix(senders, receivers int) Matrix {
	m := make(Matrix, senders)
	for i := range m {
		m[i] = make([]float64, receivers)
		for j := range m[i] {
			m[i][j] = math.NaN()
		}
	}
	return m
}

// Row returns the numbers of all directions from a host.
func (m Matrix) Row(sender int) []float64 { return known(nil, m[sender]) }

// Column returns the numbers of all directions to a host.
func (m Matrix) Column(receiver int) (out []float64) {
	for _, row := range m {
		out = known(out, row[receiver:receiver+1])
	}
	return out
}

// All returns every number, row by row.
func (m Matrix) All() (out []float64) {
	for _, row := range m {
		out = known(out, row)
	}
	return out
}

// known appends the numbers of v that were measured to out.
func known(out, v []float64) []float64 {
	for _, one := range v {
		if !math.IsNaN(one) {
			out = append(out, one)
		}
	}
	return out
}

// MarshalJSON writes null for NaN, and seven digits, as a hub keeps.
func (m Matrix) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, row := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, v := range row {
			if j > 0 {
				b = append(b, ',')
			}
			if math.IsNaN(v) {
				b = append(b, "null"...)
			} else {
				b = strconv.AppendFloat(b, v, 'g', -1, 32)
			}
		}
		b = append(b, ']')
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads the output of MarshalJSON.
func (m *Matrix) UnmarshalJSON(b []byte) error {
	var rows [][]*float64
	if err := json.Unmarshal(b, &rows); err != nil {
		return err
	}
	*m = Matrix{}
	for _, row := range rows {
		*m = append(*m, make([]float64, len(row)))
		for j, v := range row {
			(*m)[len(*m)-1][j] = math.NaN()
			if v != nil {
				(*m)[len(*m)-1][j] = *v
			}
		}
	}
	return nil
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
