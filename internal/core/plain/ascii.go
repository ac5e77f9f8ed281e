package plain

import "strings"

// ASCII replaces every other character of s by an ASCII one: of the same width wherever the
// text may be a drawing or a table, to keep it aligned.
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
