package diagnose

import "math"

// tally is how many findings of a rule were right, out of how many that were made.
type tally struct{ right, said int }

// inPart follows the name of a rule whose finding lacks some of the evidence that the rule
// uses.
const inPart = " in part"

// priorWeight is how many findings the expectation below counts for, (p): for a rule that was
// hardly ever tested, the confidence follows from how direct its evidence is.
const priorWeight = 5

// mostSure is the highest confidence ever reported: nothing here is certain.
const mostSure = 0.99

// expected is how often findings of a rule should be right, before any was counted, (p): a
// kernel's or driver's own counter is nearly certain evidence, a pattern of rates and round
// trips less so.
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

// key returns the name of a rule in the table.
func key(rule string, whole bool) string {
	if whole {
		return rule
	}
	return rule + inPart
}

// calibrated returns the probability that a finding of a rule is right: the mean of a beta
// distribution over the counted findings and priorWeight expected ones. It is 0 for a rule that
// no lab has tested.
func calibrated(rule string, whole bool) float64 {
	t := judged()[key(rule, whole)]
	if t.said == 0 {
		return 0
	}
	p := (float64(t.right) + priorWeight*expected(rule, whole)) / (float64(t.said) + priorWeight)
	return min(mostSure, math.Round(100*p)/100)
}
