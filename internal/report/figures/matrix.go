package figures

import (
	"fmt"
	"math"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/report/plot"
)

// spread says in a sentence what a matrix of far ends shows: its largest and its
// smallest cell.
func spread(h plot.Heat, w model.Direction) string {
	high, low := [2]int{-1}, [2]int{-1}
	for i, row := range h.Cells {
		for j, v := range row {
			if math.IsNaN(v) {
				continue
			}
			if high[0] < 0 || v > h.Cells[high[0]][high[1]] {
				high = [2]int{i, j}
			}
			if low[0] < 0 || v < h.Cells[low[0]][low[1]] {
				low = [2]int{i, j}
			}
		}
	}
	if high[0] < 0 {
		return ""
	}
	at := func(c [2]int) string {
		return fmt.Sprintf("%s with %s (%s)", bare(h.Rows[c[0]]), bare(h.Columns[c[1]]), plot.Format(h.Cells[c[0]][c[1]], h.Unit))
	}
	return fmt.Sprintf("%s: most is %s, least %s", map[model.Direction]string{model.To: "to the far ends", model.From: "from the far ends"}[w], at(high), at(low))
}

// bare is the name of a level without its code: "nas" of "A1: nas".
func bare(name string) string {
	if _, rest, ok := strings.Cut(name, ": "); ok {
		return rest
	}
	return name
}
