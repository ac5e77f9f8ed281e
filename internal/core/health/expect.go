package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// Clause is one demand on a path: a quantity, in one direction or both, and a bound.
type Clause struct {
	Text  string // as the user wrote it
	Of    string // one of the quantities: "goodput", "loss", "p99"
	Only  model.Direction
	Op    string // "<", "<=", ">", ">="
	Bound float64
}

// Met is the result of a demand.
type Met struct {
	Clause   string           `json:"clause"`
	Met      bool             `json:"met"`
	Measured fact.Of[float64] `json:"measured"` // the worse of two directions, in base units
	Text     string           `json:"text"`
}

// quantity is the subject of a demand.
type quantity struct {
	name  string
	low   bool // low values are good
	parse func(string) (float64, error)
	show  func(float64) string
	of    func(j judge, d model.Direction) (float64, bool)
}

func quantities() []quantity {
	rate := func(s string) (float64, error) { v, err := units.ParseBitRate(s); return float64(v), err }
	span := func(s string) (float64, error) { v, err := units.ParseDuration(s); return v.Seconds(), err }
	share := func(s string) (float64, error) { v, err := units.ParsePercent(s); return float64(v) / 100, err }
	whole := func(s string) (float64, error) { v, err := strconv.ParseUint(s, 10, 16); return float64(v), err }
	showSpan := func(v float64) string { return units.FormatDuration(seconds(v)) }
	single := func(m model.Metric) func(judge, model.Direction) (float64, bool) {
		return func(j judge, d model.Direction) (float64, bool) {
			r, ok := j.valid(d)
			v, known := r.Value(d, m)
			return v, ok && known
		}
	}
	return []quantity{
		{"goodput", false, rate, func(v float64) string { return units.BitRate(v).String() }, func(j judge, d model.Direction) (float64, bool) {
			if r, ok := j.valid(d); ok {
				return r.Value(d, model.Goodput)
			}
			_, tried := j.single(d)
			return 0, tried // nothing arrived
		}},
		{"loss", true, share, exact, judge.lossRatio},
		{"rtt", true, span, showSpan, single(model.IdleP50)},
		{"p50", true, span, showSpan, single(model.LatencyP50)},
		{"p99", true, span, showSpan, single(model.LatencyP99)},
		{"added", true, span, showSpan, single(model.AddedP50)},
		{"mtu", false, whole, func(v float64) string { return fmt.Sprintf("%.0f", v) }, func(j judge, d model.Direction) (float64, bool) {
			w, ok := j.way(d)
			return float64(w.Passes), ok && w.Passes >= mtu.Least
		}},
	}
}

// lossRatio returns the share of datagrams lost at the lowest tested rate or, without UDP, the
// share of TCP segments that were retransmitted.
func (j judge) lossRatio(d model.Direction) (float64, bool) {
	lowest, ratio := units.BitRate(0), 0.0
	for _, r := range j.s.Runs {
		u, paced := udp.Toward(r.Flow, d)
		if v, ok := r.Value(d, model.LossRatio); paced && ok && r.State == model.RunValid && (lowest == 0 || u.Rate < lowest) {
			lowest, ratio = u.Rate, v
		}
	}
	if lowest > 0 {
		return ratio, true
	}
	r, ok := j.valid(d)
	v, known := r.Value(d, model.RetransmitRatio)
	return v, ok && known
}

// Quantities names the subjects of demands, for help texts.
func Quantities() []string {
	out := lists.Each(quantities(), func(q quantity) string { return q.name })
	return out
}

// ParseExpect parses demands such as "900M,loss<0.1%,p99<20ms,from.goodput>100M". A bare rate
// is the least goodput. The error names every invalid clause.
func ParseExpect(text string) ([]Clause, error) {
	var out []Clause
	var wrong []string
	for part := range strings.SplitSeq(text, ",") {
		c, err := parseClause(strings.TrimSpace(part))
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		out = append(out, c)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s; write it like 900M,loss<0.1%%,p99<20ms", strings.Join(wrong, "; "))
	}
	return out, nil
}

func parseClause(text string) (Clause, error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		v, err := units.ParseBitRate(text)
		if err != nil || v <= 0 {
			return Clause{}, fmt.Errorf("%.60q is neither a rate nor a quantity with a bound", text)
		}
		return Clause{Text: text, Of: "goodput", Op: ">=", Bound: float64(v)}, nil
	}
	c := Clause{Text: text, Of: strings.TrimSpace(text[:at]), Op: text[at : at+1]}
	value := text[at+1:]
	if strings.HasPrefix(value, "=") {
		c.Op, value = c.Op+"=", value[1:]
	}
	for _, d := range []model.Direction{model.To, model.From} {
		if rest, ok := strings.CutPrefix(c.Of, string(d)+"."); ok {
			c.Of, c.Only = rest, d
		}
	}
	i := slices.IndexFunc(quantities(), func(q quantity) bool { return q.name == c.Of })
	if i < 0 {
		return c, fmt.Errorf("%.60q is none of %s", c.Of, strings.Join(Quantities(), ", "))
	}
	q := quantities()[i]
	if q.low != strings.HasPrefix(c.Op, "<") {
		return c, fmt.Errorf("%.60q: %s is good when it is %s", text, q.name, map[bool]string{true: "low: use <", false: "high: use >"}[q.low])
	}
	var err error
	if c.Bound, err = q.parse(strings.TrimSpace(value)); err != nil {
		return c, fmt.Errorf("%.60q: %w", text, err)
	}
	return c, nil
}

// Meets checks s against demands. A quantity that was not measured does not meet its demand.
func Meets(s *model.Session, clauses []Clause) []Met {
	j := judge{s}
	out := lists.Each(clauses, j.meets)
	return out
}

func (j judge) meets(c Clause) Met {
	i := slices.IndexFunc(quantities(), func(q quantity) bool { return q.name == c.Of })
	q := quantities()[i]
	m := Met{Clause: c.Text, Met: true, Measured: fact.Unknown[float64]("not measured")}
	directions := []model.Direction{model.To, model.From}
	if c.Only != "" {
		directions = []model.Direction{c.Only}
	}
	for _, d := range directions {
		v, ok := q.of(j, d)
		if !ok {
			m.Measured = fact.Unknown[float64]("not measured")
			m.Met, m.Text = false, fmt.Sprintf("not measured from %s to %s", j.name(d.Sender()), j.name(d.Receiver()))
			return m
		}
		m.Met = m.Met && holds(v, c.Op, c.Bound)
		if worst, known := m.Measured.Get(); !known || q.low == (v > worst) {
			m.Measured = fact.Known(v, "measured")
			m.Text = fmt.Sprintf("%s, from %s to %s", q.show(v), j.name(d.Sender()), j.name(d.Receiver()))
		}
	}
	return m
}

func holds(v float64, op string, bound float64) bool {
	switch op {
	case "<":
		return v < bound
	case "<=":
		return v <= bound
	case ">":
		return v > bound
	}
	return v >= bound
}
