package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// RankResult is the Hodges–Lehmann estimate with its exact interval.
type RankResult struct {
	N        int
	Estimate float64 // median of the Walsh averages
	Interval         // Confidence is the achieved one; unbounded if K is 0
	K        int     // the interval's ends are the K-th Walsh averages from either side
	Warnings []string
}

// RankTables caches distributions of the signed-rank statistic by number of blocks, for many
// series. The zero value caches nothing.
type RankTables map[int][]float64

func (t RankTables) of(n int) []float64 {
	p, ok := t[n]
	if !ok {
		p = signedRankDistribution(n)
		if t != nil {
			t[n] = p
		}
	}
	return p
}

// Ranks computes the statistics of one series of differences that use all its Walsh averages.
// Create one with NewRanks; it is not safe for concurrent use.
type Ranks struct {
	d, walsh []float64
	tables   RankTables
}

// NewRanks returns the ranks of d and does not modify d. tables may be nil.
func NewRanks(d []float64, tables RankTables) *Ranks { return &Ranks{d: d, tables: tables} }

// HodgesLehmann returns the median of all averages (D_i + D_j)/2, i ≤ j, and the exact interval
// of at least level from the signed-rank distribution (Hodges and Lehmann, Ann. Math. Stat. 34,
// 1963; Lehmann, Nonparametrics, 2006; statistics.md section 4.2). It assumes that D − g is
// symmetric about 0. If n is too small for level, the interval is unbounded, with a warning.
func (x *Ranks) HodgesLehmann(level float64) RankResult {
	r := RankResult{N: len(x.d), Estimate: math.NaN(), Interval: Unbounded()}
	if len(x.d) == 0 {
		r.Warnings = append(r.Warnings, "no blocks")
		return r
	}
	if !allFinite(x.d) {
		r.Warnings = append(r.Warnings, notFinite)
		return r
	}
	if x.walsh == nil {
		x.walsh = walshAverages(x.d)
	}
	r.Estimate = sortedMedian(x.walsh)
	below := 0.0 // P(T⁺ ≤ K−1)
	for _, p := range x.tables.of(len(x.d)) {
		if below+p > (1-level)/2 {
			break
		}
		below += p
		r.K++
	}
	if r.K == 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d blocks cannot give an exact interval at %.4g %%", r.N, 100*level))
		return r
	}
	r.Interval = Interval{Low: x.walsh[r.K-1], High: x.walsh[len(x.walsh)-r.K], Confidence: 1 - 2*below}
	return r
}

// PseudoMedian returns only the Hodges–Lehmann estimate, NaN if there are no values or one is
// not finite.
func PseudoMedian(d []float64) float64 {
	if len(d) == 0 || !allFinite(d) {
		return math.NaN()
	}
	return middle(unsortedWalsh(d))
}

// selected moves the k-th smallest value of x, counted from 0, to index k, with no greater
// value before it, and returns it (Hoare, Comm. ACM 4, 1961). That is enough for an estimate
// after each block of a long session, which needs no sorting.
func selected(x []float64, k int) float64 {
	for low, high := 0, len(x)-1; low < high; {
		pivot, i, j := x[low+(high-low)/2], low, high
		for i <= j {
			for x[i] < pivot {
				i++
			}
			for x[j] > pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return x[k]
		}
	}
	return x[k]
}

// walshAverages returns all (D_i + D_j)/2, i ≤ j, sorted.
func walshAverages(d []float64) []float64 {
	walsh := unsortedWalsh(d)
	slices.Sort(walsh)
	return walsh
}

func unsortedWalsh(d []float64) []float64 {
	walsh := make([]float64, 0, len(d)*(len(d)+1)/2)
	for i, a := range d {
		for _, b := range d[i:] {
			walsh = append(walsh, (a+b)/2)
		}
	}
	return walsh
}

// SignedRank returns T⁺, the sum of the ranks of the positive differences, and its exact
// two-sided p (Wilcoxon, Biometrics Bull. 1, 1945). It drops zeros, and treats numbers within
// 1e-12 as equal. It returns false if sizes are tied, a difference is not finite or nothing is
// left, since the exact distribution does not apply then: use SignFlip on the same differences.
func (x *Ranks) SignedRank() (tPlus int, p float64, ok bool) {
	d := x.d
	if !allFinite(d) {
		return 0, 1, false
	}
	nonzero := slices.DeleteFunc(slices.Clone(d), func(v float64) bool { return math.Abs(v) <= slack })
	slices.SortFunc(nonzero, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	for i, v := range nonzero {
		if i > 0 && math.Abs(v)-math.Abs(nonzero[i-1]) <= slack {
			return 0, 1, false
		}
		if v > 0 {
			tPlus += i + 1
		}
	}
	n := len(nonzero)
	if n == 0 {
		return 0, 1, false
	}
	dist, tail := x.tables.of(n), 0.0
	for t := range min(tPlus, n*(n+1)/2-tPlus) + 1 {
		tail += dist[t]
	}
	return tPlus, min(1, 2*tail), true
}

// signedRankDistribution returns P(T⁺ = t) for t = 0…n(n+1)/2: the coefficients
// of Π (1 + x^r)/2, r = 1…n, in about n³/6 steps.
func signedRankDistribution(n int) []float64 {
	p := make([]float64, n*(n+1)/2+1)
	p[0] = 1
	for r := 1; r <= n; r++ {
		for t := r * (r + 1) / 2; t >= 0; t-- {
			q := p[t]
			if t >= r {
				q += p[t-r]
			}
			p[t] = q / 2
		}
	}
	return p
}
