package stats

import (
	"math"
	"slices"

	"linerate/internal/core/lists"
)

// Screening (statistics.md section 11.2).
const (
	ScreenMost = 19  // factors of the largest design
	ScreenKeep = 1.2 // pseudo standard errors from which an effect is worth a race (p)
)

// Screen returns a two-level design for at least n factors, 1 for the best guess and −1 for the
// present value: rows, each to be measured beside its mirror image, with all signs reversed.
// Its columns, which may be more than n, are orthogonal, and clear of interactions of two
// factors. It is nil for n < 1 and n > ScreenMost.
func Screen(n int) [][]int {
	switch {
	case n < 1 || n > ScreenMost:
		return nil
	case n <= 8:
		return sixteen()
	case n <= 11:
		return plackettBurman("++-+++---+-")
	}
	return plackettBurman("++--++++-+-+----++-")
}

// sixteen returns the half of the 16-run design whose mirror image is the other half: columns
// A, B, C, D, ABC, ABD, ACD, BCD, with D = −1 in all rows of this half.
func sixteen() [][]int {
	var out [][]int
	for i := range 8 {
		sign := func(bit int) int { return 2*(i>>bit&1) - 1 }
		a, b, c, d := sign(0), sign(1), sign(2), -1
		out = append(out, []int{a, b, c, d, a * b * c, a * b * d, a * c * d, b * c * d})
	}
	return out
}

// plackettBurman returns the design from a first row: its cyclic shifts, and a row of −1
// (Plackett and Burman, Biometrika 33, 1946).
func plackettBurman(first string) [][]int {
	n := len(first)
	out := make([][]int, n+1)
	for i := range out {
		out[i] = make([]int, n)
		for j := range out[i] {
			out[i][j] = -1
			if i < n && first[(j-i+n)%n] == '+' {
				out[i][j] = 1
			}
		}
	}
	return out
}

// Effects returns the effect of each column of a design, the difference between its two levels,
// from the differences row − mirror of the measured rows, one of d for each of rows.
func Effects(rows [][]int, d []float64) []float64 {
	if len(rows) == 0 || len(rows) != len(d) {
		return nil
	}
	out := make([]float64, len(rows[0]))
	for c := range out {
		for i, row := range rows {
			out[c] += float64(row[c]) * d[i] / float64(len(d))
		}
	}
	return out
}

// Lenth returns the pseudo standard error of effects that are mostly zero (Lenth, Technometrics
// 31, 1989), 0 for none.
func Lenth(effects []float64) float64 {
	size := lists.Each(effects, math.Abs)
	s0 := 1.5 * Median(size)
	small := slices.DeleteFunc(slices.Clone(size), func(e float64) bool { return e >= 2.5*s0 })
	if len(small) == 0 { // nearly all are 0
		return s0
	}
	return 1.5 * Median(small)
}
