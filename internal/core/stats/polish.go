package stats

import (
	"math"
	"slices"
)

// polishPasses is how often rows and columns are swept (statistics.md section 12).
const polishPasses = 3

// oddSpread is from how many robust standard deviations on a cell is odd
// (statistics.md section 12), and oddLeast what it has to differ by at least, as a log
// ratio: where all others agree to the last digit everything would be odd.
const (
	oddSpread = 3 * madScale
	oddLeast  = 0.05
)

// Odd finds the cells of a matrix of positive values that do not fit row and column:
// those whose log value is far from the additive fit of a median polish (Tukey,
// Exploratory Data Analysis, 1977). A slow host is a slow row or column, and nothing
// odd; a slow path is one cell. Not a number is a cell that was not measured. Where a
// row or a column has fewer than three values nothing can be told apart.
func Odd(cells [][]float64) (odd [][2]int) {
	if !fullEnough(cells) {
		return nil
	}
	rest := make([][]float64, len(cells))
	for i, row := range cells {
		for _, v := range row {
			rest[i] = append(rest[i], math.Log(v))
		}
	}
	for range polishPasses {
		for i := range rest {
			sweep(rest[i], func(j int) *float64 { return &rest[i][j] })
		}
		for j := range rest[0] {
			column := make([]float64, len(rest))
			for i := range rest {
				column[i] = rest[i][j]
			}
			sweep(column, func(i int) *float64 { return &rest[i][j] })
		}
	}
	var all []float64
	for _, v := range slices.Concat(rest...) {
		if finite(v) {
			all = append(all, math.Abs(v))
		}
	}
	if len(all) == 0 {
		return nil
	}
	most := max(oddSpread*Median(all), oddLeast)
	for i, row := range rest {
		for j, v := range row {
			if finite(v) && math.Abs(v) > most {
				odd = append(odd, [2]int{i, j})
			}
		}
	}
	return odd
}

// fullEnough reports whether every row and column of cells has three values.
func fullEnough(cells [][]float64) bool {
	const least = 3
	if len(cells) < least || len(cells[0]) < least {
		return false
	}
	columns := make([]int, len(cells[0]))
	for _, row := range cells {
		n := 0
		for j, v := range row {
			if v > 0 && finite(v) {
				n, columns[j] = n+1, columns[j]+1
			}
		}
		if n < least {
			return false
		}
	}
	return slices.Min(columns) >= least
}

// sweep takes the median of values away from where they are.
func sweep(values []float64, at func(int) *float64) {
	var known []float64
	for _, v := range values {
		if finite(v) {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return
	}
	middle := Median(known)
	for i := range values {
		*at(i) -= middle
	}
}
