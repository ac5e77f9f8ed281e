package term

import (
	"fmt"
	"strings"
	"time"

	"linerate/internal/core/model"
)

const (
	intervalHead = "[ ID] Interval           Transfer     Bitrate"
	intervalRule = "- - - - - - - - - - - - - - - - - - - - - - - - -"
)

// head returns the header of lines with the columns c (report_bw_header and others in
// iperf_locale.c); each says whether the lines are intervals.
func (v *Intervals) head(c cells, each bool) string {
	head := intervalHead
	if v.Both {
		head = strings.Replace(head, "[ ID]", "[ ID][Role]", 1)
	}
	switch {
	case c.lost.IsKnown():
		head += "         Jitter    Lost/Total Datagrams"
	case c.datagrams.IsKnown():
		head += "         Total Datagrams"
	case c.retr.IsKnown() && each:
		head += "         Retr  Cwnd"
	case c.retr.IsKnown():
		head += "         Retr"
	}
	return head
}

// line returns a line in the columns of iperf3 (report_bw_format and others in iperf_locale.c),
// with more at its end.
func (v *Intervals) line(r row, d model.Direction, begin, length time.Duration, more string) string {
	role := ""
	if v.Both {
		if role = "[TX-C]"; d == model.From {
			role = "[RX-C]"
		}
	}
	line := fmt.Sprintf("[%3s]%s %6.2f-%-6.2f sec  %s  %s/sec", r.id, role, begin.Seconds(), (begin + length).Seconds(),
		adaptive(r.bytes, 1024, "Bytes"), adaptive(r.bytes*8/length.Seconds(), 1000, "bits"))
	return strings.TrimRight(line+r.also.text(v.Datagrams)+more, " ")
}

// text formats the columns after the rate, as wide as in iperf3.
func (c cells) text(datagrams bool) string {
	retr, again := c.retr.Get()
	cwnd, window := c.cwnd.Get()
	lost, counted := c.lost.Get()
	n, total := c.datagrams.Get()
	switch {
	case counted:
		jitter := "        ms"
		if j, known := c.jitter.Get(); known {
			jitter = fmt.Sprintf("%5.3f ms", j*1e3)
		}
		share := 0.0
		if n += lost; n > 0 {
			share = 100 * lost / n
		}
		return fmt.Sprintf("  %s  %.0f/%.0f (%.2g%%)  ", jitter, lost, n, share)
	case total:
		return fmt.Sprintf("  %.0f  ", n)
	case again && window:
		return fmt.Sprintf("  %3.0f   %s       ", retr, adaptive(cwnd, 1024, "Bytes"))
	case again:
		return fmt.Sprintf("  %3.0f             ", retr)
	case datagrams:
		return "  "
	}
	return "                  "
}

// adaptive formats a number like iperf3 (units.c, unit_snprintf): three digits, and a prefix
// for a power of step.
func adaptive(v, step float64, unit string) string {
	prefix := []string{"", "K", "M", "G", "T"}
	i := 0
	for ; v >= step && i < len(prefix)-1; i++ {
		v /= step
	}
	format := "%4.0f %s%s"
	switch {
	case v < 9.995:
		format = "%4.2f %s%s"
	case v < 99.95:
		format = "%4.1f %s%s"
	}
	return fmt.Sprintf(format, v, prefix[i], unit)
}
