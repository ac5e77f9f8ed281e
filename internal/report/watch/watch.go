// Package watch reports on monitored paths, as data and as sentences.
package watch

import (
	"fmt"
	"io"
	"strings"
	"time"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// The names of the documents.
const (
	Schema      = "linerate/watch/v1"
	EventSchema = "linerate/watchevent/v1"
)

// Document lists all monitored paths.
type Document struct {
	Hosts []Host `json:"hosts"`
}

// Host is a monitored path.
type Host struct {
	Host    string    `json:"host"` // as the user named it, secrets removed
	Looks   int       `json:"looks"`
	Last    time.Time `json:"last,omitzero"`     // the last look that counts
	Session string    `json:"session,omitempty"` // of that look
	Missed  int       `json:"missed"`            // looks since then at which the host was unreachable
	Streams []Stream  `json:"streams"`
	Changes []Change  `json:"changes"` // the oldest first
}

// Stream is a number of a path: goodput in bit/s, a round trip in seconds, loss of 0…1.
type Stream struct {
	Metric    model.Metric    `json:"metric"`
	Direction model.Direction `json:"direction"`
	Usual     *float64        `json:"usual"` // at this time of day and week; null if there are too few looks
	Values    []Value         `json:"values"`
}

// Value is the result of one look.
type Value struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

// Change is a change of a stream.
type Change struct {
	Metric    model.Metric         `json:"metric"`
	Direction model.Direction      `json:"direction"`
	Worse     bool                 `json:"worse"`
	Was       float64              `json:"was"`
	Now       float64              `json:"now"`
	Low       float64              `json:"low"` // of Now, with 95 % confidence
	High      float64              `json:"high"`
	After     time.Time            `json:"after"` // the last look without it
	Since     time.Time            `json:"since"` // the first look with it
	Found     time.Time            `json:"found"`
	Session   string               `json:"session"` // the session that found it
	Text      string               `json:"text"`
	Changed   []fingerprint.Change `json:"changed,omitempty"` // changed on the hosts meanwhile; omitted if nothing read there changed, or it was not read

	looked bool // whether the hosts were checked for changes
}

// Event is an event to report at once.
type Event struct {
	Kind    string    `json:"kind"` // worse, better, away, back
	Host    string    `json:"host"`
	At      time.Time `json:"at"`
	Text    string    `json:"text"`
	Session string    `json:"session"`
	Change  *Change   `json:"change,omitempty"`
}

// HostOf returns the state of the path to a far target.
func HostOf(far string, p *series.Path, now time.Time) Host {
	h := Host{Host: far, Looks: p.Count, Last: p.Last.At, Session: p.Last.ID, Missed: p.Missed, Streams: []Stream{}, Changes: []Change{}}
	for _, s := range series.Streams() {
		looks, y := p.Series(s).Looks()
		if len(looks) == 0 {
			continue
		}
		one := Stream{Metric: s.Metric, Direction: s.Direction, Values: []Value{}}
		for i, l := range looks {
			one.Values = append(one.Values, Value{l.At, s.Value(y[i])})
		}
		if usual, known := p.Series(s).Usual(now); known {
			v := s.Value(usual)
			one.Usual = &v
		}
		h.Streams = append(h.Streams, one)
	}
	for i := range p.Changes {
		h.Changes = append(h.Changes, ChangeOf(far, &p.Changes[i]))
	}
	return h
}

// ChangeOf returns a change of the path to a far target.
func ChangeOf(far string, t *series.Told) Change {
	low, high := t.Range()
	c := Change{
		Metric: t.Metric, Direction: t.Direction, Worse: t.Worse, Was: t.Value(t.Was), Now: t.Value(t.Now), Low: low, High: high,
		After: t.Before.At, Since: t.Since.At, Found: t.Found.At, Session: t.Found.ID,
	}
	what := map[bool]string{true: "worse", false: "better"}[t.Worse]
	c.Text = fmt.Sprintf("%s is %s since %s (the look before was at %s): %s instead of %s", t.Name(model.EndName(far)), what, clock(c.Since), clock(c.After), quantity(t.Metric, c.Now), quantity(t.Metric, c.Was))
	return c
}

// With returns c with the changes on the hosts meanwhile.
func (c Change) With(changed []fingerprint.Change) Change {
	c.Changed = changed
	c.looked = true
	return c
}

// Lines returns the sentences about a change.
func (c Change) Lines() []string {
	lines := []string{c.Text}
	switch {
	case len(c.Changed) > 0:
		lines = append(lines, "  changed meanwhile: "+fingerprint.Since(c.Changed))
	case c.looked:
		lines = append(lines, "  nothing that linerate reads on the hosts changed meanwhile")
	}
	return lines
}

// quantity formats a value of a metric with its unit.
func quantity(m model.Metric, v float64) string {
	if m == model.Goodput {
		return units.BitRate(v).String()
	}
	if m == model.LossRatio {
		return units.FormatShare(v)
	}
	return units.FormatDuration(time.Duration(v * float64(time.Second)).Round(time.Microsecond))
}

func clock(t time.Time) string { return t.Format("2006-01-02 15:04") }

// Line summarises the last look.
func (h Host) Line() string {
	end := model.EndName(h.Host)
	if h.Looks == 0 {
		return end + ": no look yet"
	}
	var parts []string
	for _, s := range h.Streams {
		last := s.Values[len(s.Values)-1]
		if !last.At.Equal(h.Last) {
			continue // it was not measured then
		}
		what := short(s)
		if s.Metric == model.Goodput { // which needs no name
			what = string(s.Direction)
		}
		parts = append(parts, what+" "+quantity(s.Metric, last.Value))
	}
	return end + ": " + strings.Join(parts, ", ")
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
			head += ", the last one at " + clock(h.Last)
		}
		if h.Missed > 0 {
			head += fmt.Sprintf("; not reached at %s since", plain.Count(h.Missed, "look"))
		}
		all = append(all, head)
		for _, s := range h.Streams {
			row := make([]float64, 0, len(s.Values))
			for _, v := range s.Values {
				row = append(row, v.Value)
			}
			usual := "too few looks to say what is usual"
			if s.Usual != nil {
				usual = "usual " + quantity(s.Metric, *s.Usual)
			}
			all = append(all, fmt.Sprintf("  %-13s %s  %s, %s", short(s), plain.Spark(row, min(drawn, max(8, len(row)))), quantity(s.Metric, row[len(row)-1]), usual))
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

func short(s Stream) string {
	if s.Metric == model.IdleP50 {
		return "round trip"
	}
	return metric.Name(s.Metric) + " " + string(s.Direction)
}
