package format

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/fleet/odd"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/sweep"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/mesh"
)

// OpenMetrics renders the results of a session as OpenMetrics text
// (https://prometheus.io/docs/specs/om/open_metrics_spec/): gauges and summaries in base units
// without timestamps, which the textfile collector of node_exporter accepts too.
//
// It writes session s with report d. Unknown values have no line.
func OpenMetrics(w io.Writer, s model.Session, d report.Document) error {
	m := metricsPage{ends: labels("near", d.Header.Near, "far", d.Header.Far, "session", s.ID)}
	if s.Mesh != nil {
		m.ends = labels("session", s.ID)
	}
	m.session(s, d)
	m.lines(d)
	m.latencies(d)
	m.sizes(d)
	if d.Untrustworthy == "" {
		m.verdicts(d)
	}
	m.limits(s)
	if s.Mesh != nil {
		m.mesh(mesh.Of(&s))
	}
	m.b.WriteString("# EOF\n")
	_, err := w.Write(m.b.Bytes())
	return err
}

type metricsPage struct {
	b    bytes.Buffer
	head string // of a family without a line so far
	ends string // labels of every line: two sessions in one folder of a textfile collector must have different series
}

// label is one label of a line.
type label struct{ name, value string }

// family begins a metric, which is omitted if it has no line. Its unit, if it has one, ends its
// name.
func (p *metricsPage) family(name, unit, help string) { p.typed(name, "gauge", unit, help) }

func (p *metricsPage) typed(name, kind, unit, help string) {
	p.head = fmt.Sprintf("# TYPE linerate_%s %s\n", name, kind)
	if unit != "" {
		p.head += fmt.Sprintf("# UNIT linerate_%s %s\n", name, unit)
	}
	p.head += fmt.Sprintf("# HELP linerate_%s %s\n", name, escapeLabel(help))
}

func (p *metricsPage) line(name string, v float64, more ...label) {
	var all []string
	if p.ends != "" {
		all = append(all, p.ends)
	}
	for _, l := range more {
		all = append(all, labels(l.name, l.value))
	}
	set := ""
	if len(all) > 0 {
		set = "{" + strings.Join(all, ",") + "}"
	}
	fmt.Fprintf(&p.b, "%slinerate_%s%s %s\n", p.head, name, set, strconv.FormatFloat(v, 'g', -1, 64))
	p.head = ""
}

// labels formats pairs of names and values.
func labels(pairs ...string) string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, fmt.Sprintf(`%s="%s"`, pairs[i], escapeLabel(pairs[i+1])))
	}
	return strings.Join(out, ",")
}

// escapeLabel converts foreign text to the format's quoted form.
func escapeLabel(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(plain.Line(text))
}

func (p *metricsPage) session(s model.Session, d report.Document) {
	p.family("session_info", "", "What was measured; always 1.")
	p.line("session_info", 1, label{"kind", string(s.Kind)}, label{"state", string(s.State)}, label{"version", s.Version})
	if report.Dated(s) {
		p.family("session_start_timestamp_seconds", "seconds", "When the session began, since the epoch.")
		p.line("session_start_timestamp_seconds", stamp(s.Created))
	}
	if !s.Ended.IsZero() {
		p.family("session_end_timestamp_seconds", "seconds", "When the session ended, since the epoch.")
		p.line("session_end_timestamp_seconds", stamp(s.Ended))
	}
	p.family("session_trustworthy", "", "1 unless the session found out that its verdicts must not be believed.")
	p.line("session_trustworthy", boolean(d.Untrustworthy == ""))
}

func stamp(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// gauge is one number of a report line.
type gauge struct {
	name, unit, help string
	of               func(report.Line) (float64, bool)
}

func bytesPerSecond(v fact.Of[units.BitRate]) (float64, bool) {
	rate, ok := v.Get()
	return float64(rate) / 8, ok
}

func gauges() []gauge {
	return []gauge{
		{"ceiling_bytes_per_second", "bytes_per_second", "Payload that the path can carry at most.", func(l report.Line) (float64, bool) { return bytesPerSecond(l.Ceiling) }},
		{"ceiling_used_ratio", "ratio", "Goodput as a share of the ceiling.", func(l report.Line) (float64, bool) { return l.Share.Get() }},
		{"retransmitted_segments", "segments", "Segments sent again, in all valid runs together.", func(l report.Line) (float64, bool) {
			n, ok := l.Retransmits.Get()
			return float64(n), ok
		}},
		{"loaded_round_trip_seconds", "seconds", "Round trip of the flow itself, median over runs.", func(l report.Line) (float64, bool) {
			t, ok := l.LoadedRTT.Get()
			return t.Seconds(), ok
		}},
		{"near_cpu_cores", "cores", "CPU of the measuring process at the near end.", func(l report.Line) (float64, bool) { return l.NearCPU.Get() }},
		{"far_cpu_cores", "cores", "CPU of the measuring process at the far end.", func(l report.Line) (float64, bool) { return l.FarCPU.Get() }},
	}
}

// lines writes the rates of all settings, and the other numbers of the directions.
func (p *metricsPage) lines(d report.Document) {
	type row struct {
		setting   string
		direction model.Direction
		rate      units.BitRate
		runs      int
	}
	var rows []row
	for _, c := range d.Classic {
		if c.Basis == report.OverRuns {
			rows = append(rows, row{c.Setting, c.Direction, c.Median, c.N})
		}
	}
	for _, l := range d.Lines { // in a search it combines several rates
		if !slices.ContainsFunc(rows, func(r row) bool { return r.setting == l.Setting && r.direction == l.Direction }) {
			rows = append(rows, row{l.Setting, l.Direction, l.Goodput, l.Runs})
		}
	}
	p.family("goodput_bytes_per_second", "bytes_per_second", "Payload that arrived, median over valid runs.")
	for _, r := range rows {
		p.line("goodput_bytes_per_second", float64(r.rate)/8, label{"direction", string(r.direction)}, label{"setting", r.setting})
	}
	p.family("valid_runs", "", "Runs behind the goodput.")
	for _, r := range rows {
		p.line("valid_runs", float64(r.runs), label{"direction", string(r.direction)}, label{"setting", r.setting})
	}
	for _, g := range gauges() {
		p.family(g.name, g.unit, g.help)
		for _, l := range d.Lines {
			if v, ok := g.of(l); ok && !math.IsNaN(v) {
				p.line(g.name, v, label{"direction", string(l.Direction)}, label{"setting", l.Setting})
			}
		}
	}
	if rtt, ok := d.Header.RTT.Get(); ok {
		p.family("least_round_trip_seconds", "seconds", "Least round trip that a kernel saw in any run.")
		p.line("least_round_trip_seconds", rtt.Seconds())
	}
}

func (p *metricsPage) latencies(d report.Document) {
	p.typed("latency_seconds", "summary", "seconds", "Times of probes or requests, all valid runs together.")
	for _, l := range d.Latencies {
		for _, q := range []struct {
			text string
			of   fact.Of[time.Duration]
		}{{"0.5", l.P50}, {"0.9", l.P90}, {"0.99", l.P99}, {"0.999", l.P999}, {"1", l.Max}} {
			if t, ok := q.of.Get(); ok {
				p.line("latency_seconds", t.Seconds(), label{"of", l.Name}, label{"direction", string(l.Direction)}, label{"quantile", q.text})
			}
		}
	}
	p.family("answers_per_second", "", "Requests or connections answered a second, median of the runs.")
	for _, l := range d.Latencies {
		if v, ok := l.Rate.Get(); ok {
			p.line("answers_per_second", v, label{"direction", string(l.Direction)})
		}
	}
}

// sizes writes the points of a sweep.
func (p *metricsPage) sizes(d report.Document) {
	if d.Section == nil {
		return
	}
	curves, ok := d.Section.Data.(*sweep.Document)
	if !ok {
		return
	}
	p.family("message_seconds", "seconds", "Time of one message of that many bytes one way, median over all trials.")
	for _, c := range curves.Directions {
		for _, x := range c.Curve.Sizes {
			if x.Trials > 0 {
				p.line("message_seconds", x.Median.Seconds(), label{"direction", string(c.Direction)}, label{"size", strconv.FormatInt(int64(x.Size), 10)})
			}
		}
	}
}

// verdicts writes one line per verdict, and its change if that is a ratio.
func (p *metricsPage) verdicts(d report.Document) {
	each := func(name, unit, help string, value func(report.Table, report.Row) (float64, []label, bool)) {
		p.family(name, unit, help)
		for _, t := range d.Tables {
			for _, r := range t.Rows {
				v, more, ok := value(t, r)
				if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
					continue
				}
				p.line(name, v, append([]label{{"direction", string(t.Direction)}, {"metric", string(t.Metric)}, {"setting", r.Setting}}, more...)...)
			}
		}
	}
	each("verdict", "", "The verdict on a setting against the baseline, as a label; always 1.", func(_ report.Table, r report.Row) (float64, []label, bool) {
		return 1, []label{{"verdict", string(r.Outcome)}}, true
	})
	ratio := func(of func(report.Row) model.Bound) func(report.Table, report.Row) (float64, []label, bool) {
		return func(t report.Table, r report.Row) (float64, []label, bool) {
			return float64(of(r)) / 100, nil, t.Unit == "%"
		}
	}
	each("change_ratio", "ratio", "Change against the baseline: 0.1 is 10 % more.", ratio(func(r report.Row) model.Bound { return r.Change }))
	each("change_low_ratio", "ratio", "Lower end of the interval of the change.", ratio(func(r report.Row) model.Bound { return r.Low }))
	each("change_high_ratio", "ratio", "Upper end of the interval of the change.", ratio(func(r report.Row) model.Bound { return r.High }))
}

// limits writes the limit of each direction, with its confidence.
func (p *metricsPage) limits(s model.Session) {
	p.family("limit_confidence_ratio", "ratio", "How sure it is that this limits the direction; 0 where that was never checked.")
	for _, f := range s.Findings {
		if f.Kind == model.FindingLimit {
			p.line("limit_confidence_ratio", f.Confidence, label{"direction", string(f.Direction)}, label{"rule", f.Rule}, label{"limit", f.Limit}, label{"end", cmp.Or(string(f.Host), "path")})
		}
	}
}

// mesh writes every direction of a mesh, and what is odd in it.
func (p *metricsPage) mesh(d mesh.Document) {
	each := func(name, unit, help string, value func(mesh.Way) (float64, bool)) {
		p.family(name, unit, help)
		for _, w := range d.Ways {
			if v, ok := value(w); ok {
				p.line(name, v, label{"sender", w.From}, label{"receiver", w.To})
			}
		}
	}
	each("mesh_goodput_bytes_per_second", "bytes_per_second", "Payload that arrived on a way, median over valid runs.", func(w mesh.Way) (float64, bool) {
		if w.Goodput == nil {
			return 0, false
		}
		return float64(*w.Goodput) / 8, true
	})
	each("mesh_round_trip_seconds", "seconds", "Round trip of a pair without load, median over valid runs.", func(w mesh.Way) (float64, bool) {
		if w.RoundTrip == nil {
			return 0, false
		}
		return w.RoundTrip.Seconds(), true
	})
	p.family("mesh_odd", "", "A host or a way that carries less than the others, or could not be measured; always 1.")
	for i, t := range d.Odd {
		if !slices.ContainsFunc(d.Odd[:i], func(o odd.Thing) bool { return o.Name == t.Name }) { // one series
			p.line("mesh_odd", 1, label{"of", t.Name})
		}
	}
}
