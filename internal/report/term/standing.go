package term

import (
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/report"
)

// Standings returns lines of at most width columns with the standings of all settings after a
// block. label names a direction; it is called only if there are several.
func Standings(all []report.Standing, label func(model.Direction) string, width int) []string {
	var lines []string
	for _, s := range all {
		text := clean(s.Setting)
		if several(all) {
			text += " " + label(s.Direction)
		}
		for i, line := range Wrap(text+": "+s.Text, width-tableIndent, width-2*tableIndent) {
			if i > 0 {
				line = strings.Repeat(" ", tableIndent) + line
			}
			lines = append(lines, strings.Repeat(" ", tableIndent)+line)
		}
	}
	return lines
}

func several(all []report.Standing) bool {
	for _, s := range all {
		if s.Direction != all[0].Direction {
			return true
		}
	}
	return false
}
