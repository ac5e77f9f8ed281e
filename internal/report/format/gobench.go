package format

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"linerate/internal/core/lists"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
	"linerate/internal/report"
)

// GoBench renders the runs of a session in the Go benchmark format
// (https://go.dev/design/14313-benchmark-format), which benchstat compares: a line per counted
// run and direction, with all numbers of that run, and one per message size of a sweep.
//
// benchstat treats runs as independent samples. It does not know blocks, so a drift of the path
// looks like a difference; the verdicts of a session do not have that flaw.
//
// It writes the runs of session s with report d. The keys are limited to what two
// comparable sessions share, because benchstat makes a separate table for different keys.
func GoBench(w io.Writer, s model.Session, d report.Document) error {
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
	slices.SortStableFunc(runs, func(a, b model.Run) int { // benchstat takes the first runs as the reference
		return firstBench(s.Plan, a) - firstBench(s.Plan, b)
	})
	benchUnits(&b, runs)
	for _, r := range runs {
		for _, w := range slices.Compact(append(r.Flow.Direction.Parts(), r.Flow.Direction, "")) {
			if numbers := line(r, w); numbers != "" {
				fmt.Fprintf(&b, "%s 1%s\n", name(r, w), numbers)
			}
		}
		for _, end := range r.Ends {
			for _, p := range end.Points {
				if len(p.Trials) > 0 {
					took := stats.Median(lists.Each(p.Trials, time.Duration.Seconds))
					fmt.Fprintf(&b, "%s/size=%dB 1 %s message-sec\n", name(r, r.Flow.Direction), p.Size, number(took))
				}
			}
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// firstBench is 0 for the runs of the baseline and 1 for others.
func firstBench(p model.Plan, r model.Run) int {
	if r.Setting == p.Baseline {
		return 0
	}
	return 1
}

// unit returns the unit of m's values; each line has one value per unit.
func unit(m model.Metric) string {
	if m == model.Goodput {
		return "bit/s"
	}
	base := metric.Base(m)
	if base == "s" {
		base = "sec" // as in benchstat
	}
	return strings.TrimSuffix(word(string(m))+"-"+base, "-")
}

// benchUnits declares for each unit whether high or low values are good, if that is known.
func benchUnits(b *bytes.Buffer, runs []model.Run) {
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

// name returns the name of a run's benchmark. It must not end in digits, which would be taken
// for a number of processors.
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
			fmt.Fprintf(&out, " %s %s", number(v.Value), unit(v.Metric))
		}
	}
	return out.String()
}

// word converts foreign text to a part of a name: without blanks, which end a name, and without
// slashes and equals signs, which split it.
func word(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' || r == '=' {
			return '_'
		}
		return r
	}, plain.Line(text))
}
