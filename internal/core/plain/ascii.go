package plain

import "strings"

// ASCII returns s with an ASCII character in place of each other one: of the same
// width wherever the text may be a drawing or a table, so that it stays in line.
func ASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 {
			return r
		}
		for _, to := range [...]struct {
			from string
			to   rune
		}{
			{"µμ", 'u'}, {"−–—─━‐‑", '-'}, {"│┊┃", '|'}, {"◂≤←", '<'}, {"▸≥→", '>'}, {"●•", 'o'}, {"█", '#'}, {"×", 'x'}, {"…·", '.'}, {"⁺", '+'}, {"⁻", '-'},
			{"∞", '*'}, {"“”", '"'}, {"‘’", '\''}, {"\u00a0\u202f", ' '},
		} {
			if strings.ContainsRune(to.from, r) {
				return to.to
			}
		}
		return mark
	}, s)
}
