package plain

import "strings"

// Distance returns how many inserted, deleted or replaced bytes turn a into b (Levenshtein
// 1966). Texts much longer than b are not compared: their distance is their own length.
func Distance(a, b string) int {
	if len(a) > 2*len(b)+8 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Nearest returns the known word that unknown most likely means, "" for none: one that begins
// with it, ends in its part after a dot, or is a few typing errors away.
func Nearest(unknown string, known []string) string {
	least := 2 * max(2, len(unknown)/3)
	if len(unknown) < 5 {
		least = 2
	}
	best, distance := "", least+1
	for _, w := range known {
		d := 2 * Distance(strings.ToLower(unknown), w)
		if swapped(strings.ToLower(unknown), w) {
			d = 1
		}
		if len(unknown) >= 3 && (strings.HasPrefix(w, unknown) || strings.HasSuffix(w, "."+unknown) || len(w) >= 4 && strings.HasPrefix(unknown, w)) {
			d = min(d, 2)
		}
		if d < distance && d < 2*len(w) {
			best, distance = w, d
		}
	}
	return best
}

// swapped reports whether swapping two neighbours in a gives b, the most common typing error.
func swapped(a, b string) bool {
	if len(a) != len(b) || a == b {
		return false
	}
	i := 0
	for a[i] == b[i] {
		i++
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}
