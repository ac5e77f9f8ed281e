package stats

import "math"

// bets are the λ of the mixture, fixed before any data: they serve block noise
// from about 0.1 % to 25 % (statistics.md section 5.1).
var bets = [...]float64{4, 8, 16, 32, 64, 128, 256, 512}

// Limits of the search for an end of the anytime interval (section 5.2).
const (
	evidenceReach = 3.0 // log ratio on either side
	evidenceSteps = 60
)

// Evidence gathers block differences one by one and may be looked at after each
// of them, however often: by Ville's inequality (1939) the chance that it ever
// reaches 1/a against a true hypothesis is at most a (Ramdas, Grünwald, Vovk,
// Shafer, arXiv 2210.01948; the bets after de la Peña, Ann. Probab. 27, 1999).
// Make one with NewEvidence. It is not safe for concurrent use.
type Evidence struct {
	margin float64
	diffs  []float64
	max    Extremes
	sets   []Interval // running intersections, one for each alpha
	alphas []float64
	empty  bool
}

// Extremes are running maxima over the blocks, as natural logarithms.
type Extremes struct {
	Up       float64 // of E⁺(0), against "not better"
	Down     float64 // of E⁻(0), against "not worse"
	NotAbove float64 // of E⁻(+m), against "better by the margin or more"
	NotBelow float64 // of E⁺(−m), against "worse by the margin or more"
}

// NewEvidence returns evidence without data. margin is m as a log ratio; alphas
// are the two-sided levels of the anytime intervals to keep, such as 0.05.
func NewEvidence(margin float64, alphas ...float64) *Evidence {
	e := &Evidence{margin: margin, alphas: alphas, sets: make([]Interval, len(alphas))}
	for i, a := range alphas {
		e.sets[i] = Interval{Low: math.Inf(-1), High: math.Inf(1), Confidence: 1 - a}
	}
	return e
}

// Add adds the difference of the next complete block, a finite number.
func (e *Evidence) Add(d float64) {
	e.diffs = append(e.diffs, d)
	e.max.Up = max(e.max.Up, e.LogUp(0))
	e.max.Down = max(e.max.Down, e.LogDown(0))
	e.max.NotAbove = max(e.max.NotAbove, e.LogDown(e.margin))
	e.max.NotBelow = max(e.max.NotBelow, e.LogUp(-e.margin))
	for i := range e.sets {
		e.narrow(i)
	}
}

// N returns the number of blocks added.
func (e *Evidence) N() int { return len(e.diffs) }

// Max returns the running maxima; before the first block they are 0, since
// evidence starts at 1.
func (e *Evidence) Max() Extremes { return e.max }

// LogUp returns ln E⁺(δ), the evidence that the gain is above δ. It falls in δ
// and is below n ln 2.
func (e *Evidence) LogUp(delta float64) float64 { return e.log(delta, 1) }

// LogDown returns ln E⁻(δ), the evidence that the gain is below δ. It rises in
// δ and is below n ln 2.
func (e *Evidence) LogDown(delta float64) float64 { return e.log(delta, -1) }

// Interval returns the anytime interval of the i-th alpha of NewEvidence: the
// running intersection over all blocks so far, which covers the gain at all
// times together. It never widens. Where the data of a later block leave no
// common value, the last interval stays and Contradicted reports true.
func (e *Evidence) Interval(i int) Interval { return e.sets[i] }

// Contradicted reports whether the blocks have no constant gain in common at
// one of the levels: the effect changed during the session.
func (e *Evidence) Contradicted() bool { return e.empty }

// log returns ln of (1/8) Σ_λ Π_b 2/(1 + exp(−2λ·sign·(D_b − δ))).
func (e *Evidence) log(delta, sign float64) float64 {
	var terms [len(bets)]float64
	top := math.Inf(-1)
	for i, lambda := range bets {
		sum := float64(len(e.diffs)) * math.Ln2
		for _, d := range e.diffs {
			sum -= softplus(-2 * lambda * sign * (d - delta))
		}
		terms[i] = sum
		top = max(top, sum)
	}
	total := 0.0
	for _, t := range terms {
		total += math.Exp(t - top)
	}
	return top + math.Log(total/float64(len(bets)))
}

// softplus returns ln(1 + e^y) without overflow; beyond ±37 the rest is below
// the resolution of a float64.
func softplus(y float64) float64 {
	switch {
	case y > 37:
		return y
	case y < -37:
		return 0
	}
	return math.Log1p(math.Exp(y))
}

// narrow intersects the i-th interval with that of the blocks so far.
func (e *Evidence) narrow(i int) {
	level := math.Log(2 / e.alphas[i])
	if float64(len(e.diffs))*math.Ln2 <= level {
		return // 2ⁿ is not enough to bound anything
	}
	low, high := e.solve(level)
	next := e.sets[i]
	next.Low, next.High = max(next.Low, low), min(next.High, high)
	if next.Low > next.High {
		e.empty = true
		return
	}
	e.sets[i] = next
}

// solve returns the δ at which ln E⁺ and ln E⁻ cross level. The search starts
// from [−3, 3], widened so that it always encloses the data: a gain beyond
// twentyfold is possible where a window was far too small.
func (e *Evidence) solve(level float64) (low, high float64) {
	from, to := -evidenceReach, evidenceReach
	for _, d := range e.diffs {
		from, to = min(from, d-evidenceReach), max(to, d+evidenceReach)
	}
	low = bisect(from, to, func(x float64) bool { return e.LogUp(x) >= level })
	high = -bisect(-to, -from, func(x float64) bool { return e.LogDown(-x) >= level })
	return low, high
}

// bisect returns the largest x in [from, to] for which ok still holds, ok being
// true up to a point and false after it; −Inf where it does not hold at from.
func bisect(from, to float64, ok func(float64) bool) float64 {
	if !ok(from) {
		return math.Inf(-1)
	}
	for range evidenceSteps {
		mid := (from + to) / 2
		if ok(mid) {
			from = mid
		} else {
			to = mid
		}
	}
	return from
}
