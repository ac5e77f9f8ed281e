package stats

import "math"

// FisherUpper returns the upper tail of Fisher's exact test (Fisher, Statistical Methods for Research
// Workers, 21.02): the chance of a or more, given the sums of the table a, b in its first row and c, d in
// its second one, if rows and columns have nothing to do with each other. All counts are 0 or more.
func FisherUpper(a, b, c, d int) float64 {
	choose := func(n, k int) float64 { // log
		whole, _ := math.Lgamma(float64(n + 1))
		one, _ := math.Lgamma(float64(k + 1))
		other, _ := math.Lgamma(float64(n - k + 1))
		return whole - one - other
	}
	row, column, n := a+b, a+c, a+b+c+d
	p := 0.0
	for x := a; x <= min(row, column); x++ {
		p += math.Exp(choose(row, x) + choose(n-row, column-x) - choose(n, column))
	}
	return min(p, 1)
}
