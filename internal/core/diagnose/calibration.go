package diagnose

import "math"

// tally is how many findings of a rule were right, of how many that were said.
type tally struct{ right, said int }

// inPart is behind the name of a rule whose finding lacks a part of the evidence that
// the rule knows of.
const inPart = " in part"

// priorWeight is how many findings the expectation below counts for, (p): a rule that
// was hardly ever tried is believed as far as its evidence is direct.
const priorWeight = 5

// mostSure is the most that is told: nothing here is certain.
const mostSure = 0.99

// expected is how often findings of a rule should be right, before any was counted,
// (p): what a kernel or a driver counts under its own name is nearly certain, what
// follows from a pattern of rates and round trips is less.
func expected(rule string, whole bool) float64 {
	c := [2]float64{0.70, 0.55}
	switch rule {
	case "ceiling", "dead", "M2":
		c = [2]float64{0.98, 0.95}
	case "B07", "B08", "B09", "B39":
		c = [2]float64{0.95, 0.85}
	case "B04", "B12", "B16", "B17", "B37", "M1", "B29", "B01", "B13", "B24", "B26":
		c = [2]float64{0.90, 0.75}
	case "R01", "B10", "B11", "B14", "B14b", "B18", "B21", "B22", "B03", "B30", "M8":
		c = [2]float64{0.85, 0.70}
	case "B06", "B02", "B23", "B25":
		c = [2]float64{0.80, 0.65}
	}
	if whole {
		return c[0]
	}
	return c[1]
}

// key is the name of a rule in the table.
func key(rule string, whole bool) string {
	if whole {
		return rule
	}
	return rule + inPart
}

// calibrated is the probability that a finding of a rule is right: the counted ones and
// priorWeight expected ones together, as the mean of a beta distribution. It is 0 for a rule
// that no lab has tried.
func calibrated(rule string, whole bool) float64 {
	t := judged()[key(rule, whole)]
	if t.said == 0 {
		return 0
	}
	p := (float64(t.right) + priorWeight*expected(rule, whole)) / (float64(t.said) + priorWeight)
	return min(mostSure, math.Round(100*p)/100)
}
