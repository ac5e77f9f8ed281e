package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// The distributions use gonum's special functions: its own package of distributions needs
// linear algebra, which adds two megabytes to every program.

// studentCDF returns the probability that Student's t is at most x, with degrees ≥ 1 of freedom
// (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.1).
func studentCDF(degrees int, x float64) float64 {
	if x == 0 {
		return 0.5
	}
	nu := float64(degrees)
	tail := mathext.RegIncBeta(nu/2, 0.5, nu/(x*x+nu)) / 2
	if x > 0 {
		return 1 - tail
	}
	return tail
}

// tQuantile returns the x with studentCDF p, 0 < p < 1.
func tQuantile(degrees int, p float64) float64 {
	if p == 0.5 {
		return 0
	}
	nu, tail := float64(degrees), min(p, 1-p)
	b := mathext.InvRegIncBeta(nu/2, 0.5, 2*tail)
	return math.Copysign(math.Sqrt(nu*(1-b)/b), p-0.5)
}

// chiSquaredQuantile returns the p quantile of chi-squared, 0 ≤ p ≤ 1, with degrees > 0 of
// freedom (Abramowitz and Stegun, 26.4.19).
func chiSquaredQuantile(degrees, p float64) float64 {
	return 2 * mathext.GammaIncRegInv(degrees/2, p)
}

// normalCDF returns the probability that a standard normal variable is at most x.
func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
