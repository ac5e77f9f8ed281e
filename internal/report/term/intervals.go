package term

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
)

// Intervals writes what a test moves in each interval and over its connections in the
// columns of iperf3, for people and scripts that know them. The numbers are those of
// the receiver, unless only the sender tells any.
type Intervals struct {
	Every   bool // a line for each interval; else only those over the whole run
	Streams int  // connections in each direction
	Alone   bool // only the near end tells anything, as beside another program's server
	Name    func(model.Host) string

	Both bool // both directions at once

	at   model.Direction // whose header was written
	base map[start]time.Duration
}

// start is of the warm-up, or of the measured window, of a direction.
type start struct {
	direction model.Direction
	omitted   bool
}

const (
	intervalHead = "[ ID] Interval           Transfer     Bitrate"
	intervalRule = "- - - - - - - - - - - - - - - - - - - - - - - - -"
)

// Begin begins a run.
func (v *Intervals) Begin() { v.at, v.base = "", map[start]time.Duration{} }

// Add returns the lines of the intervals in a batch of one end's samples.
func (v *Intervals) Add(batch []model.Sample) []string {
	if !v.Every || v.base == nil {
		return nil
	}
	var lines []string
	for _, s := range batch {
		host, m := v.teller(s.Direction)
		if s.Host != host || s.Metric != m {
			continue
		}
		if v.at == "" || v.at != s.Direction && !v.Both {
			v.at = s.Direction
			lines = append(lines, v.title(s.Direction), v.head())
		}
		of, more := start{s.Direction, s.Omitted}, ""
		if s.Omitted {
			more = "(omitted)"
		}
		if _, known := v.base[of]; !known {
			v.base[of] = s.Start
		}
		write := func(id string, rate float64) {
			lines = append(lines, v.line(id, s.Direction, s.Start-v.base[of], s.Length, rate*s.Length.Seconds()/8, more))
		}
		streams := v.streams(batch, s)
		for _, one := range streams {
			write(one.Of, one.Value)
		}
		if len(streams) > 0 {
			write("SUM", s.Value)
			lines = append(lines, intervalRule)
		} else {
			write(v.all(), s.Value)
		}
	}
	return lines
}

// streams are the samples of single connections in the interval of s.
func (v *Intervals) streams(batch []model.Sample, s model.Sample) []model.Sample {
	var out []model.Sample
	for _, one := range batch {
		if one.Metric == model.StreamGoodput && one.Host == s.Host && one.Direction == s.Direction && one.Start == s.Start {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(x, y model.Sample) int {
		a, _ := strconv.Atoi(x.Of)
		b, _ := strconv.Atoi(y.Of)
		return cmp.Compare(a, b)
	})
	return out
}

// End returns the lines over a whole run: each connection, and their sum, as each end
// counted it.
func (v *Intervals) End(r model.Run) []string {
	var lines []string
	for _, d := range []model.Direction{model.To, model.From} {
		var body []string
		for _, role := range []model.Role{model.Sender, model.Receiver} {
			for _, e := range r.Ends {
				for _, f := range e.Flows {
					if f.Direction == d && f.Role == role && f.Window > 0 {
						body = append(body, v.flow(f)...)
					}
				}
			}
		}
		if len(body) == 0 {
			continue
		}
		switch {
		case v.Both && len(lines) > 0:
		case v.at == "":
			lines = append(lines, v.title(d), v.head())
		case v.Streams < 2:
			lines = append(lines, intervalRule, v.head())
		default:
			lines = append(lines, v.head())
		}
		lines = append(lines, body...)
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	return lines
}

// flow are the lines of one end's count of a direction.
func (v *Intervals) flow(f model.FlowReport) []string {
	var lines []string
	if len(f.Streams) > 1 {
		for i, bytes := range f.Streams {
			lines = append(lines, v.line(strconv.Itoa(i+1), f.Direction, 0, f.Window, float64(bytes), string(f.Role)))
		}
	}
	id, role := v.all(), string(f.Role)
	if f.TCP != nil {
		if n, known := f.TCP.Retransmits.Get(); known {
			role += fmt.Sprintf(", %s", plural(n, "retransmit"))
		}
	}
	return append(lines, v.line(id, f.Direction, 0, f.Window, float64(f.Bytes), role))
}

// all is the ID of everything that a direction moves.
func (v *Intervals) all() string {
	if v.Streams > 1 {
		return "SUM"
	}
	return "1"
}

// teller is whose samples of which metric tell what a direction moves.
func (v *Intervals) teller(d model.Direction) (model.Host, model.Metric) {
	if v.Alone && d == model.To {
		return model.Near, model.Sent
	}
	return d.Receiver(), model.Goodput
}

func (v *Intervals) head() string {
	if v.Both {
		return strings.Replace(intervalHead, "[ ID]", "[ ID][Role]", 1)
	}
	return intervalHead
}

func (v *Intervals) title(d model.Direction) string {
	if v.Both && !v.Alone {
		return clean(fmt.Sprintf("to %s (TX-C) and from it (RX-C): what each end received", v.Name(model.Far)))
	}
	host, m := v.teller(d)
	way := "to " + v.Name(model.Far)
	if d == model.From {
		way = "from " + v.Name(model.Far)
	}
	if m == model.Sent {
		return clean(fmt.Sprintf("%s: what %s sent", way, v.Name(host)))
	}
	return clean(fmt.Sprintf("%s: what %s received", way, v.Name(host)))
}

// line is a line in the columns of iperf3 (iperf_locale.c, report_bw_format).
func (v *Intervals) line(id string, d model.Direction, begin, length time.Duration, bytes float64, more string) string {
	role := ""
	if v.Both {
		if role = "[TX-C]"; d == model.From {
			role = "[RX-C]"
		}
	}
	line := fmt.Sprintf("[%3s]%s %6.2f-%-6.2f sec  %s  %s/sec", id, role, begin.Seconds(), (begin + length).Seconds(),
		adaptive(bytes, 1024, "Bytes"), adaptive(bytes*8/length.Seconds(), 1000, "bits"))
	if more != "" {
		line += "  " + more
	}
	return line
}

// adaptive writes a number as iperf3 does (units.c, unit_snprintf): three digits, and a
// prefix of which each is step times the one before.
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
