// Package words compares words that people type with those that they may have
// meant.
package words

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
