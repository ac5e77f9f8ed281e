package format

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/report"
)

// CSVColumns returns the names of the columns. Their order stays; new ones are added at the end.
func CSVColumns() []string {
	return []string{"session", "run", "block", "attempt", "position", "setting", "state", "counts", "started",
		"row", "end", "host", "direction", "metric", "of", "unit", "start_s", "length_s", "warmup", "value"}
}

// CSV renders a session as one long table: a row for every number of every run and for
// every sample, as stored, in base units, in the format of RFC 4180.
//
// It writes session s, its report d and its samples. A cell is empty if its value is
// unknown.
func CSV(w io.Writer, s model.Session, d report.Document, samples model.Samples) error {
	t := csv.NewWriter(w)
	t.UseCRLF = false         // RFC 4180 has CRLF; every reader accepts both, and Unix tools only this
	_ = t.Write(CSVColumns()) // Error returns the error of this and all other writes
	counted := map[int]bool{}
	for _, r := range report.Counted(s.Runs) {
		counted[r.Number] = true
	}
	for _, r := range s.Runs {
		run := []string{cell(s.ID), strconv.Itoa(r.Number), strconv.Itoa(r.Block), strconv.Itoa(r.Attempt), strconv.Itoa(r.Position),
			cell(r.Setting), string(r.State), flag(counted[r.Number]), moment(r.Started)}
		row := func(more ...string) { _ = t.Write(slices.Concat(run, more)) }
		for _, v := range r.Values {
			row("run", "", "", string(v.Direction), cell(string(v.Metric)), "", metric.Base(v.Metric), "", "", "", number(v.Value))
		}
		for _, x := range samples.Of(r.Number) {
			row("sample", string(x.Host), cell(d.Header.Of(x.Host)), string(x.Direction), cell(string(x.Metric)), cell(x.Of), metric.Base(x.Metric),
				number(x.Start.Seconds()), number(x.Length.Seconds()), flag(x.Omitted), number(x.Value))
		}
		if err := t.Error(); err != nil {
			return err
		}
	}
	t.Flush()
	return t.Error()
}

// number formats v so that it parses back exactly.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// cell escapes foreign text. Spreadsheets run text that begins like a formula; a leading
// apostrophe prevents that.
func cell(text string) string {
	text = plain.Line(text)
	if text != "" && strings.ContainsRune("=+-@\t", rune(text[0])) {
		return "'" + text
	}
	return text
}
