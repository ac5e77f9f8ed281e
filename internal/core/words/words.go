// Package words compares words that people type with those that they may have
// meant.
package words

import "strings"

// Distance returns how many bytes to insert, delete or replace turn a into b
// (Levenshtein 1966). Texts much longer than b are not compared: they get
// their own length.
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

// Nearest returns the known word that unknown most likely meant, "" for none: one
// that begins with it or ends in its part after a dot, or is a few slips of the
// keyboard away.
func Nearest(unknown string, known []string) string {
	best, distance := "", max(2, len(unknown)/3)+1
	for _, w := range known {
		d := Distance(strings.ToLower(unknown), w)
		if len(unknown) >= 3 && (strings.HasPrefix(w, unknown) || strings.HasSuffix(w, "."+unknown) || len(w) >= 4 && strings.HasPrefix(unknown, w)) {
			d = min(d, 1)
		}
		if d < distance && d < len(w) {
			best, distance = w, d
		}
	}
	return best
}
