// Package watch reports on monitored paths, as data and as sentences.
package watch

import (
	"fmt"
	"io"
	"time"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// The names of the documents.
const (
	Schema      = "linerate/watch/v1"
	EventSchema = "linerate/watchevent/v1"
)

// Document lists all monitored paths.
type Document struct {
	Hosts []series.History `json:"hosts"`
}

// Event is an event to report at once.
type Event struct {
	Kind    string         `json:"kind"` // worse, better, away, back
	Host    string         `json:"host"`
	At      time.Time      `json:"at"`
	Text    string         `json:"text"`
	Session string         `json:"session"`
	Change  *series.Report `json:"change,omitempty"`
}

// drawn is how many looks a row shows: two days of hourly looks.
const drawn = 48

// Render writes hosts, each with a row for each stream and its changes.
func Render(w io.Writer, d Document, wrap func(string) []string) error {
	var all []string
	for i, h := range d.Hosts {
		if i > 0 {
			all = append(all, "")
		}
		head := fmt.Sprintf("%s   %s", model.EndName(h.Host), plain.Count(h.Looks, "look"))
		if h.Looks > 0 {
			head += ", the last one at " + series.Clock(h.Last)
		}
		if h.Missed > 0 {
			head += fmt.Sprintf("; not reached at the last %s", plain.Count(h.Missed, "look"))
		}
		if all = append(all, head); h.Looks == 0 {
			all = append(all, "  forget it: linerate prune --kind watch --state failed")
		}
		for _, s := range h.Streams {
			row := lists.Each(s.Values, func(v series.Value) float64 { return v.Value })
			usual := "too few looks to say what is usual"
			if s.Usual != nil {
				usual = "usual " + series.Quantity(s.Metric, *s.Usual)
			}
			all = append(all, fmt.Sprintf("  %-13s %s  %s, %s", s.Short(), plain.Spark(row, min(drawn, max(8, len(row)))), series.Quantity(s.Metric, row[len(row)-1]), usual))
		}
		for _, c := range h.Changes {
			for _, line := range c.Lines() {
				all = append(all, wrap("  "+line)...)
			}
		}
	}
	for _, line := range all {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
