package format_test

import (
	"bytes"
	stdcsv "encoding/csv"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/reporttest"
)

func table(t *testing.T, c reporttest.Case) (text []byte, rows [][]string) {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, format.CSV(&b, c.Session, report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()}), c.Samples))
	rows = must.Get(stdcsv.NewReader(bytes.NewReader(b.Bytes())).ReadAll())(t)
	return b.Bytes(), rows
}

func TestTableIsAsStored(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "test" && c.Name != "interrupted" {
			continue
		}
		got, _ := table(t, c)
		must.Golden(t, filepath.Join("testdata", c.Name+".csv"), string(got))
	}
}

// TestEveryNumberIsThere: each number of each run and each sample has a row that reads back as
// the same number.
func TestEveryNumberIsThere(t *testing.T) {
	for _, c := range reporttest.Cases() {
		_, rows := table(t, c)
		var want []float64
		for _, r := range c.Session.Runs {
			for _, v := range r.Values {
				want = append(want, v.Value)
			}
			for _, x := range c.Samples[r.Number] {
				want = append(want, x.Value)
			}
		}
		must.Need(t, len(rows) == len(want)+1, "%s: %d rows of %d numbers", c.Name, len(rows)-1, len(want))
		for i, row := range rows[1:] {
			must.Equal(t, must.Get(strconv.ParseFloat(row[len(row)-1], 64))(t), want[i], "%s, row %d: %v is", c.Name, i, row)
		}
	}
}

// TestNoCellIsAFormula: the name of a setting cannot become a formula, a cell or a row.
func TestNoCellIsAFormula(t *testing.T) {
	for _, evil := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "a,b", "a\"b", "a\nb", "\t=1", "\x1b[2J"} {
		c := reporttest.Cases()[1]
		for i := range c.Session.Runs {
			c.Session.Runs[i].Setting = evil
		}
		c.Samples[1][0].Of, c.Samples[1][0].Metric = evil, model.Metric(evil)
		text, rows := table(t, c)
		must.True(t, !bytes.ContainsRune(text, '\x1b'), "%q is in the file", evil)
		for _, row := range rows[1:] {
			must.Need(t, len(row) == len(format.CSVColumns()), "%q: a row of %d cells", evil, len(row))
			for i, cell := range row[:len(row)-1] {
				must.True(t, cell == "" || !strings.ContainsAny(cell[:1], "=+-@\t"), "%q: %s is %q", evil, format.CSVColumns()[i], cell)
			}
		}
	}
}
