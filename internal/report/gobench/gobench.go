// Package gobench renders the runs of a session as lines of the Go benchmark format
// (https://go.dev/design/14313-benchmark-format), which benchstat compares: a line for
// each run that counts and each direction, with all numbers of that run.
//
// benchstat takes runs for independent samples. It knows no blocks, so a drift of the
// path looks to it like a difference; the verdicts of a session do not have that fault.
package gobench

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/report"
)

// Render writes the runs of s, of which d is the report. Keys say only what two
// sessions share that may be compared: benchstat makes a table of its own where they
// differ.
func Render(w io.Writer, s model.Session, d report.Document) error {
	var b bytes.Buffer
	key := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, plain.Line(value))
		}
	}
	near, _ := s.Facts(model.Near)
	key("goos", near.OS)
	key("goarch", near.Arch)
	key("near", d.Header.Near)
	key("far", d.Header.Far)
	fmt.Fprintf(&b, "# linerate %s, session %s of %s\n", plain.Line(s.Version), plain.Line(s.ID), s.Created.UTC().Format("2006-01-02 15:04:05 UTC"))
	if d.Untrustworthy != "" {
		fmt.Fprintf(&b, "# no verdict counts: %s\n", plain.Line(d.Untrustworthy))
	}
	runs := report.Counted(s.Runs)
	slices.SortStableFunc(runs, func(a, b model.Run) int { // benchstat compares with what it reads first
		return first(s.Plan, a) - first(s.Plan, b)
	})
	units(&b, runs)
	for _, r := range runs {
		for _, w := range append(r.Flow.Direction.Parts(), "") {
			if numbers := line(r, w); numbers != "" {
				fmt.Fprintf(&b, "%s 1%s\n", name(r, w), numbers)
			}
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// first is 0 for the runs of the baseline and 1 for others.
func first(p model.Plan, r model.Run) int {
	if r.Setting == p.Baseline {
		return 0
	}
	return 1
}

// unit is that of the values of m, of which a line has one each.
func unit(m model.Metric) string {
	if m == model.Goodput {
		return "bit/s"
	}
	base := metric.Base(m)
	if base == "s" {
		base = "sec" // as benchstat writes it
	}
	return strings.TrimSuffix(word(string(m))+"-"+base, "-")
}

// units says which way each unit is good, for those of which that is known.
func units(b *bytes.Buffer, runs []model.Run) {
	var seen []model.Metric
	for _, r := range runs {
		for _, v := range r.Values {
			info, ok := metric.Of(v.Metric)
			if !ok || slices.Contains(seen, v.Metric) {
				continue
			}
			seen = append(seen, v.Metric)
			better := "higher"
			if info.LowIs {
				better = "lower"
			}
			fmt.Fprintf(b, "Unit %s better=%s\n", unit(v.Metric), better)
		}
	}
}

// name is that of a run's benchmark. Its last part is a word that ends in no digits,
// which would be taken for a number of processors.
func name(r model.Run, w model.Direction) string {
	out := "BenchmarkLinerate/engine=" + word(r.Flow.Engine)
	if r.Setting != "" {
		out += "/setting=" + word(r.Setting)
	}
	if w == "" {
		return out + "/direction=none"
	}
	return out + "/direction=" + word(string(w))
}

func line(r model.Run, w model.Direction) string {
	var out strings.Builder
	seen := map[model.Metric]bool{}
	for _, v := range r.Values {
		if v.Direction == w && !seen[v.Metric] {
			seen[v.Metric] = true
			fmt.Fprintf(&out, " %s %s", strconv.FormatFloat(v.Value, 'g', -1, 64), unit(v.Metric))
		}
	}
	return out.String()
}

// word is a text from elsewhere as a part of a name: no blanks, which end one, and no
// slashes and equals signs, which take it apart.
func word(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' || r == '=' {
			return '_'
		}
		return r
	}, plain.Line(text))
}
