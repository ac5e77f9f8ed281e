package figures_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/figures"
	"linerate/internal/report/importer"
	"linerate/internal/report/plot"
)

// published returns the text of a published case.
func published(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "importer", "testdata", "cases", name+".csv")))(t)
	return string(text)
}

// heat imports a table and returns its map.
func heat(t *testing.T, text string, where []string, columns ...string) (plot.Figure, plot.Heat) {
	t.Helper()
	var o importer.Options
	for _, c := range columns {
		one := must.Get(importer.ParseColumn(c))(t)
		o.Columns = append(o.Columns, one)
	}
	for _, w := range where {
		one := must.Get(importer.ParseWhere(w))(t)
		o.Where = append(o.Where, one)
	}
	f := must.Get(importer.Read("csv", []byte(text), o))(t)
	s, samples, err := importer.Session([]importer.Named{{Name: "t.csv", File: f}}, importer.About{ID: "20261121T130000-ca5e", Now: time.Unix(0, 0)})
	must.Do(t, err)
	must.True(t, len(s.Verdicts)+len(s.Plateaus) == 0, "a table of no blocks has verdicts %+v and plateaus %+v", s.Verdicts, s.Plateaus)
	for _, f := range figures.Of(s, report.Build(s, report.Options{Samples: samples}), samples) {
		if f.Name == "grid" {
			return f, f.Panels[0].(plot.Heat)
		}
	}
	return plot.Figure{}, plot.Heat{}
}

// TestMapOfWindows: three kernels with five windows are a map of 15 cells, whose most and
// least the sentence names.
func TestMapOfWindows(t *testing.T) {
	f, h := heat(t, published(t, "virtio-windows"), nil, "setting=test", "setting=window_bytes", "goodput=avg_mbit_s:Mbit/s")
	must.Need(t, slices.Equal(h.Rows, []string{"1", "2", "3"}) && len(h.Columns) == 5 && h.Cells[0][3] == 237.30e6 && !(math.Abs(h.Cells[2][0]-128.51e6) > 1), "%+v", h)
	for _, want := range []string{"1 with 1048576 (237.3 Mbit/s)", "3 with 65536 (128.5 Mbit/s)"} {
		must.Contain(t, f.Sentence, want)
	}
	must.Contain(t, f.SVG(plot.Wide), "237.3", "the picture has no figures")
}

// TestMapOfCards: the published matrix of computers and cards as a map. The article has
// words and no figures, so the rates are the test's own, one for each line; what nobody
// measured stays empty, and one medium is not mixed with the other.
func TestMapOfCards(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(published(t, "nic-matrix")), "\n")
	cells := map[string]float64{}
	lines[0] += ",rate,unit"
	for i := range lines[1:] {
		rate := float64(10 + i)
		if part := strings.SplitN(lines[i+1], ",", 6); part[3] == "100baseTX" {
			cells[part[4]+" with "+part[1]] = rate * 1e6
			if part[1] == "dc0" && part[4] == "FMV and IBM" {
				rate = 14.0 / 8 // the same as another unit says it
				cells[part[4]+" with "+part[1]] = 14e6
				lines[i+1] += fmt.Sprintf(",%g,MB/s", rate)
				continue
			}
		}
		lines[i+1] += fmt.Sprintf(",%g,Mbit/s", rate)
	}
	_, h := heat(t, strings.Join(lines, "\n"), []string{"medium=100baseTX"}, "setting=computer", "setting=driver", "goodput=rate:{unit}")
	must.Need(t, len(h.Rows) >= 4 && slices.Equal(h.Columns, []string{"xl0", "sis0", "fxp0", "dc0", "pcn0", "em0"}), "%+v", h)
	for i, row := range h.Rows {
		for j, column := range h.Columns {
			want, measured := cells[row+" with "+column]
			got := h.Cells[i][j]
			must.True(t, (!measured || got == want) && (measured || math.IsNaN(got)), "%s with %s: %v, want %v (%v)", row, column, got, want, measured)
		}
	}
	_, none := heat(t, strings.Join(lines, "\n"), []string{"medium=100baseTX", "driver=xl0"}, "setting=computer", "setting=driver", "goodput=rate:{unit}")
	must.True(t, len(none.Cells) <= 0, "one card is no map: %+v", none)
}

// TestHostileMap: a table whose lines all differ in both columns has as many cells as the
// square of its lines, and no map.
func TestHostileMap(t *testing.T) {
	var text strings.Builder
	text.WriteString("a,b,v\n")
	for n := range 900 {
		fmt.Fprintf(&text, "a%d,b%d,1\n", n, n)
	}
	_, h := heat(t, text.String(), nil, "setting=a", "setting=b", "goodput=v:MB/s")
	must.True(t, len(h.Cells) == 0, "a map of %d lines", len(h.Cells))
}

// TestSharesCarryDirections: each direction of a table has a map of its own.
func TestSharesCarryDirections(t *testing.T) {
	f, _ := heat(t, "direction,a,b,v\nwrite,1,1,10\nwrite,2,2,20\nread,1,1,30\nread,2,2,40\n", nil, "direction=direction", "setting=a", "setting=b", "goodput=v:MB/s")
	must.True(t, len(f.Panels) == 2 && f.Panels[1].(plot.Heat).Cells[1][1] == 320e6, "%+v", f.Panels)
}
