package series

import (
	"fmt"
	"strings"
	"time"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/core/units"
)

// History is the state of a monitored path, for display.
type History struct {
	Host    string    `json:"host"` // as the user named it, secrets removed
	Looks   int       `json:"looks"`
	Last    time.Time `json:"last,omitzero"`     // the last look that counts
	Session string    `json:"session,omitempty"` // of that look
	Missed  int       `json:"missed"`            // looks since then at which the host was unreachable
	Streams []Values  `json:"streams"`
	Changes []Report  `json:"changes"` // the oldest first
}

// Values is a number of a path over time: goodput in bit/s, a round trip in seconds, loss of 0…1.
type Values struct {
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

// Report is a change of a stream, for display.
type Report struct {
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

// HistoryOf returns the state of the path to a far target.
func HistoryOf(far string, p *Path, now time.Time) History {
	h := History{Host: far, Looks: p.Count, Last: p.Last.At, Session: p.Last.ID, Missed: p.Missed, Streams: []Values{}, Changes: []Report{}}
	for _, s := range Streams() {
		looks, y := p.Series(s).Looks()
		if len(looks) == 0 {
			continue
		}
		one := Values{Metric: s.Metric, Direction: s.Direction, Values: []Value{}}
		for i, l := range looks {
			one.Values = append(one.Values, Value{l.At, s.Value(y[i])})
		}
		if usual, n := p.Series(s).Reference(now); n > 0 {
			v := s.Value(usual)
			one.Usual = &v
		}
		h.Streams = append(h.Streams, one)
	}
	for i := range p.Changes {
		h.Changes = append(h.Changes, ReportOf(far, &p.Changes[i]))
	}
	return h
}

// ReportOf returns a change of the path to a far target.
func ReportOf(far string, t *StreamChange) Report {
	low, high := t.Range()
	c := Report{
		Metric: t.Metric, Direction: t.Direction, Worse: t.Worse, Was: t.Value(t.Was), Now: t.Value(t.Now), Low: low, High: high,
		After: t.Before.At, Since: t.Since.At, Found: t.Found.At, Session: t.Found.ID,
	}
	c.Text = t.Headline(model.EndName(far)) + ": " + Instead(t.Metric, c.Now, c.Was)
	return c
}

// Headline says what has changed on the path to an end, and since when.
func (t *StreamChange) Headline(end string) string {
	what := map[bool]string{true: "worse", false: "better"}[t.Worse]
	return fmt.Sprintf("%s is %s since %s (the look before was at %s)", t.Name(end), what, Clock(t.Since.At), Clock(t.Before.At))
}

// Instead formats a value with the one before.
func Instead(m model.Metric, now, was float64) string {
	return Quantity(m, now) + " instead of " + Quantity(m, was)
}

// With returns c with the changes on the hosts meanwhile.
func (c Report) With(changed []fingerprint.Change) Report {
	c.Changed = changed
	c.looked = true
	return c
}

// Lines returns the sentences about a change.
func (c Report) Lines() []string {
	lines := []string{c.Text}
	switch {
	case len(c.Changed) > 0:
		lines = append(lines, "  changed meanwhile: "+fingerprint.Since(c.Changed))
	case c.looked:
		lines = append(lines, "  nothing that linerate reads on the hosts changed meanwhile")
	}
	return lines
}

// Quantity formats a value of a metric with its unit.
func Quantity(m model.Metric, v float64) string {
	switch m {
	case model.Goodput:
		return units.BitRate(v).String()
	case model.LossRatio, packets.Marks:
		return units.FormatShare(v)
	case packets.Passes:
		return fmt.Sprintf("%.0f bytes", v)
	default:
		return units.FormatDuration(time.Duration(v * float64(time.Second)).Round(time.Microsecond))
	}
}

// Clock formats a time as a list shows it.
func Clock(t time.Time) string { return t.Format("2006-01-02 15:04") }

// Line summarises the last look.
func (h History) Line() string {
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
		what := s.Short()
		if s.Metric == model.Goodput { // which needs no name
			what = string(s.Direction)
		}
		parts = append(parts, what+" "+Quantity(s.Metric, last.Value))
	}
	return end + ": " + strings.Join(parts, ", ")
}

// Short names the number without the end of the path.
func (s Values) Short() string {
	if s.Metric == model.IdleP50 {
		return "round trip"
	}
	return metric.Name(s.Metric) + " " + string(s.Direction)
}
