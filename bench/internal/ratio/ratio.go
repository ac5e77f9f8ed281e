// Package ratio compares two series of runs that were paired in time.
//
// A run of one program is divided by the other program's run in the same round, so that a
// disturbance of both cancels.
package ratio

import (
	"fmt"
	"math"
	"slices"
)

// Spread is a median with the range around it. The zero value means that nothing was measured.
type Spread struct {
	Median, Low, High float64
	Count             int // number of values
}

// Of returns the spread of the finite values of v.
func Of(v []float64) Spread {
	s := make([]float64, 0, len(v))
	for _, x := range v {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			s = append(s, x)
		}
	}
	if len(s) == 0 {
		return Spread{}
	}
	slices.Sort(s)
	return Spread{Median: (s[(len(s)-1)/2] + s[len(s)/2]) / 2, Low: s[0], High: s[len(s)-1], Count: len(s)}
}

// Paired returns the spread of a[i]/b[i]. Rounds that either lacks, and those in which b is
// zero, do not count.
func Paired(a, b []float64) Spread {
	n := min(len(a), len(b))
	v := make([]float64, 0, n)
	for i := range n {
		v = append(v, a[i]/b[i])
	}
	return Of(v)
}

// String returns "1.02 [0.97-1.10]", "1.02" for a single value, and "none" for
// the zero value.
func (s Spread) String() string { return s.Format("%.2f") }

// Format is String with the verb of a number.
func (s Spread) Format(verb string) string {
	switch s.Count {
	case 0:
		return "none"
	case 1:
		return fmt.Sprintf(verb, s.Median)
	}
	return fmt.Sprintf(verb+" ["+verb+"-"+verb+"]", s.Median, s.Low, s.High)
}

// Order returns the order of n programs in a round: odd rounds go backwards, so that no program
// always has the same predecessor.
func Order(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}
