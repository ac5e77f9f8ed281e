package term

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/report"
)

// latencies prints a line for each distribution of times.
func (p *printer) latencies(d report.Document) {
	if len(d.Latencies) == 0 {
		return
	}
	var probes, requests []report.Latency
	for _, l := range d.Latencies {
		if l.Probe != "" {
			probes = append(probes, l)
		} else {
			requests = append(requests, l)
		}
	}
	p.probes(probes)
	p.requests(requests)
}

// probes prints the results of probes before a load and beside it.
func (p *printer) probes(list []report.Latency) {
	var rows [][]string
	for _, l := range list {
		added := ""
		if v, ok := l.Added.Get(); ok {
			added = "+" + units.FormatDuration(max(0, v))
		}
		rows = append(rows, []string{fmt.Sprintf("%s (%s)", l.Label, strings.ToUpper(l.Probe)), span(l.P50), added, span(l.P99), span(l.Max), lost(l)})
	}
	if len(rows) > 0 {
		p.table([]string{"latency", ">median", ">added", ">p99", ">max", ">lost"}, rows, nil)
		p.gap()
	}
}

// requests prints the whole tail, measured from when requests were due and, below that, from
// when they were sent.
func (p *printer) requests(list []report.Latency) {
	var rows [][]string
	note := ""
	for _, l := range list {
		label := l.Label
		if l.Name == model.LatencyServed {
			label = "  served"
			note = "times are from when a request was due; served: from when it was sent"
		}
		rate := ""
		if v, ok := l.Rate.Get(); ok {
			rate = strconv.FormatFloat(v, 'f', 0, 64)
		}
		rows = append(rows, []string{label, rate, span(l.P50), span(l.P90), span(l.P99), span(l.P999), span(l.Max), lost(l)})
	}
	if len(rows) > 0 {
		p.table([]string{"requests", ">per s", ">median", ">p90", ">p99", ">p99.9", ">max", ">lost"}, rows, nil)
		p.paragraph(dim, note, 2)
		p.gap()
	}
}

// lost says how many were never answered.
func lost(l report.Latency) string {
	if l.Lost == 0 {
		return "0"
	}
	return fmt.Sprintf("%d of %d", l.Lost, l.Sent)
}

// span formats a time with three digits, or "" if unknown.
func span(v fact.Of[time.Duration]) string {
	d, ok := v.Get()
	if !ok {
		return ""
	}
	return units.FormatDuration(d)
}

// datagrams describes a direction's datagrams, if there were any.
func (p *printer) datagrams(l report.Line) {
	u := l.Datagrams
	if u == nil {
		return
	}
	parts := []string{fmt.Sprintf("%d of %d lost", u.Lost, u.Received+u.Lost)}
	if u.Duplicates > 0 {
		parts = append(parts, fmt.Sprintf("%d came twice", u.Duplicates))
	}
	if u.Reordered > 0 {
		parts = append(parts, fmt.Sprintf("%d out of order", u.Reordered))
	}
	if j, ok := u.Jitter.Get(); ok {
		parts = append(parts, "jitter "+units.FormatDuration(j))
	}
	sent := "sent"
	rate, reported := u.SentRate.Get() // foreign senders report neither that nor their pacing
	if reported {
		sent = rate.String() + " sent"
	}
	switch v, ok := u.Asked.Get(); {
	case !ok:
		sent += " " + u.Asked.Reason()
	case reported:
		sent += " (" + v.String() + " asked for)"
	default:
		sent = v.String() + " asked for"
	}
	if parts = append(parts, sent); u.Asked.IsKnown() && u.Pacing != "" {
		parts = append(parts, "paced by "+u.Pacing)
	}
	p.paragraph(normal, l.Label+": "+strings.Join(parts, ", "), 2)
}
