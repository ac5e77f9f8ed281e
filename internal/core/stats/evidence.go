package stats

import "math"

// The bets, fixed before any data (statistics.md section 5.1). sizeBets are the λ of the first
// family: they suit block noise from about 0.1 % to 25 %, and a single far block can ruin them.
// signBets are the c of the second, which bets on the sign alone and loses at most a factor of
// 1 − c per block.
var (
	sizeBets = [8]float64{4, 8, 16, 32, 64, 128, 256, 512}
	signBets = [3]float64{0.3, 0.6, 0.85}
)

// sizeShare is the part of the capital that the size bets start with.
const sizeShare = 0.85

const betCount = 8 + 3 // size bets and sign bets

// Limits of the search for an end of the anytime interval (section 5.2).
const (
	evidenceReach = 3.0 // log ratio on either side
	evidenceSteps = 60
)

// capital is what every bet has won so far against one hypothesis, as natural logarithms that
// include the starting shares: size bets first.
type capital [betCount]float64

// fresh returns the capital before the first block.
func fresh() capital {
	var c capital
	for i := range c {
		if i < len(sizeBets) {
			c[i] = math.Log(sizeShare / float64(len(sizeBets)))
		} else {
			c[i] = math.Log((1 - sizeShare) / float64(len(signBets)))
		}
	}
	return c
}

// bet plays one block whose difference lies x above the hypothesis.
func (c *capital) bet(x float64) {
	for i, lambda := range sizeBets {
		c[i] += math.Ln2 - softplus(-2*lambda*x)
	}
	if x == 0 {
		return // neither sign: the stake comes back
	}
	for i, stake := range signBets {
		c[len(sizeBets)+i] += math.Log1p(math.Copysign(stake, x))
	}
}

// log returns the logarithm of the total capital.
func (c *capital) log() float64 {
	top := c.top()
	sum := 0.0
	for _, v := range c {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

func (c *capital) top() float64 {
	top := c[0]
	for _, v := range c[1:] {
		top = max(top, v)
	}
	return top
}

// Evidence accumulates block differences and may be inspected after each of them: by Ville's
// inequality (1939) the chance that it ever reaches 1/a against a true hypothesis is at most a
// (Ramdas, Grünwald, Vovk, Shafer, arXiv 2210.01948; the size bets after de la Peña, Ann.
// Probab. 27, 1999). Create one with NewEvidence. It is not safe for concurrent use.
type Evidence struct {
	margin float64
	alphas []float64
	diffs  []float64
	max    Extremes
	sets   []Interval // intersections computed since the last block, by alpha
	// Against no gain, from above and below, and against a gain of the margin.
	up, down, notAbove, notBelow capital
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
	c := fresh()
	return &Evidence{margin: margin, alphas: alphas, up: c, down: c, notAbove: c, notBelow: c}
}

// Add adds the difference of the next complete block. It ignores a value that is not finite,
// and returns false.
func (e *Evidence) Add(d float64) bool {
	if !finite(d) {
		return false
	}
	e.diffs, e.sets = append(e.diffs, d), nil
	e.up.bet(d)
	e.down.bet(-d)
	e.notAbove.bet(e.margin - d)
	e.notBelow.bet(d + e.margin)
	e.max.Up = max(e.max.Up, e.up.log())
	e.max.Down = max(e.max.Down, e.down.log())
	e.max.NotAbove = max(e.max.NotAbove, e.notAbove.log())
	e.max.NotBelow = max(e.max.NotBelow, e.notBelow.log())
	return true
}

// Max returns the running maxima; before the first block they are 0, since
// evidence starts at 1.
func (e *Evidence) Max() Extremes { return e.max }

// Interval returns the anytime interval of the i-th alpha of NewEvidence: the intersection of
// those after every block so far, which covers the gain at all times together. It never widens
// beyond the resolution of the search. If a later block leaves the intersection empty, Interval
// returns the last one that was not, and Contradicted reports true.
func (e *Evidence) Interval(i int) Interval {
	iv := e.together(i)
	if iv.Low <= iv.High {
		return iv
	}
	from, to := 0, len(e.diffs) // numbers of blocks with and without a common value
	for to-from > 1 {
		mid := (from + to) / 2
		if c := e.interval(i, e.diffs[:mid]); c.Low <= c.High {
			from = mid
		} else {
			to = mid
		}
	}
	return e.interval(i, e.diffs[:from])
}

// Contradicted reports whether, at one of the levels, no constant gain fits all blocks: the
// effect changed during the session.
func (e *Evidence) Contradicted() bool {
	for i := range e.alphas {
		if iv := e.together(i); iv.Low > iv.High {
			return true
		}
	}
	return false
}

// together returns the intersection over all blocks, whose ends may have crossed.
func (e *Evidence) together(i int) Interval {
	if e.sets == nil {
		e.sets = make([]Interval, len(e.alphas))
		for j := range e.sets {
			e.sets[j] = e.interval(j, e.diffs)
		}
	}
	return e.sets[i]
}

// interval returns the intersection over the blocks of diffs. A δ lies outside if the evidence
// against it ever reached the level, so that one search over the running maximum is equivalent
// to a search after every block. It starts from [−3, 3], widened to always enclose the data: a
// gain beyond twentyfold is possible if a window was far too small.
func (e *Evidence) interval(i int, diffs []float64) Interval {
	level := math.Log(2 / e.alphas[i])
	from, to := -evidenceReach, evidenceReach
	for _, d := range diffs {
		from, to = min(from, d-evidenceReach), max(to, d+evidenceReach)
	}
	return Interval{
		Low:        bisect(from, to, func(x float64) bool { return everReached(diffs, x, 1, level) }),
		High:       -bisect(-to, -from, func(x float64) bool { return everReached(diffs, -x, -1, level) }),
		Confidence: 1 - e.alphas[i],
	}
}

// everReached reports whether the evidence against a gain of delta, on the side of sign, was at
// least e^level after any block. A search calls it sixty times per end, so it keeps the stakes
// themselves, not their logarithms, with one exponential per block: each λ is twice the one
// before, so each e^(−2λx) is the square of the one before. A stake that underflows float64
// stays lost, which can only widen an interval.
func everReached(diffs []float64, delta, sign, level float64) bool {
	var size [len(sizeBets)]float64
	var side [len(signBets)]float64
	for i := range size {
		size[i] = sizeShare / float64(len(sizeBets))
	}
	for i := range side {
		side[i] = (1 - sizeShare) / float64(len(signBets))
	}
	enough := math.Exp(level)
	for _, d := range diffs {
		x, sum := sign*(d-delta), 0.0
		t := math.Exp(-2 * sizeBets[0] * x)
		for i := range size {
			size[i] *= 2 / (1 + t)
			sum += size[i]
			t *= t
		}
		for i, c := range signBets {
			if x != 0 {
				side[i] *= 1 + math.Copysign(c, x)
			}
			sum += side[i]
		}
		if sum >= enough {
			return true
		}
	}
	return false
}

// softplus returns ln(1 + e^y) without overflow; beyond ±37 the difference to its asymptote is
// below the resolution of a float64.
func softplus(y float64) float64 {
	switch {
	case y > 37:
		return y
	case y < -37:
		return 0
	}
	return math.Log1p(math.Exp(y))
}

// bisect returns the largest x in [from, to] for which ok holds, given that ok is true up to a
// point and false after it; −Inf if it does not hold at from.
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
