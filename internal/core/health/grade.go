package health

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Grade holds the values from which a quantity is POOR and BAD. The manual has the same table,
// and --grade changes it.
type Grade struct {
	Name      string
	What      string
	Poor, Bad float64
	From      string // source of the values
	time      bool   // seconds; else a share, 0…1
	low       bool   // low values are worse
}

// setGrade is the source of a grade that the user chose.
const setGrade = "--grade"

// Grades returns the default grades (diagnosis-2.md section 6). Y.1541: ITU-T, network
// performance objectives; Teams: Microsoft, quality of the network between a client and its
// edge.
func Grades() []Grade {
	return []Grade{
		{Name: "loss", What: "datagrams lost at half of what one stream carries", Poor: 0.001, Bad: 0.01, From: "ITU-T Y.1541 classes 0 and 1, Teams"},
		{Name: "resent", What: "TCP segments sent again, whatever the congestion control makes of it", Poor: 0.001, Bad: 0.01, From: "DSLReports, quality grade A+"},
		{Name: "overflow", What: "TCP segments sent again by a flow that fills the path", Poor: 0.05, Bad: 0.12, From: "DSLReports, quality grades C and D"},
		{Name: "queueing", What: "latency that a full path adds to the idle one", Poor: 0.030, Bad: 0.200, From: "DSLReports, grades of bufferbloat A and C", time: true},
		{Name: "jitter", What: "variation of paced datagrams (RFC 3550 section 6.4.1)", Poor: 0.015, Bad: 0.030, From: "Teams, site edge and client", time: true},
		{Name: "errors", What: "frames that arrive broken", Poor: 1e-7, Bad: 1e-5, From: "IEEE 802.3, a bit error rate of 1e-10 is 1.2e-6 of full frames"},
		{Name: "speed", What: "one stream of what the path can carry", Poor: 0.90, Bad: 0.10, From: "linerate", low: true},
		{Name: "balance", What: "the slower direction of the faster one, where no rate of the path is known", Poor: 0.33, Bad: 0.10, From: "linerate", low: true},
	}
}

// ParseGrades returns the grades with some defaults replaced, in the form "loss=0.05%,0.5%",
// separated by semicolons.
func ParseGrades(text string) ([]Grade, error) {
	out := Grades()
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, values, _ := strings.Cut(part, "=")
		i := slices.IndexFunc(out, func(g Grade) bool { return g.Name == strings.TrimSpace(name) })
		if i < 0 {
			names := lists.Each(out, func(g Grade) string { return g.Name })
			return nil, fmt.Errorf("%q is no quantity with grades; there are %s", name, strings.Join(names, ", "))
		}
		poor, bad, two := strings.Cut(values, ",")
		g := &out[i]
		var err error
		if g.Poor, err = g.parse(poor); err == nil && two {
			g.Bad, err = g.parse(bad)
		}
		switch {
		case err != nil || !two:
			how := fmt.Errorf("%q: write two values, POOR and BAD, as %s=%s,%s", part, g.Name, g.value(Grades()[i].Poor), g.value(Grades()[i].Bad))
			if err != nil {
				how = fmt.Errorf("%w: %w", how, err)
			}
			return nil, how
		case g.low && g.Bad > g.Poor, !g.low && g.Bad < g.Poor:
			return nil, fmt.Errorf("%q: BAD is the worse of the two", part)
		}
		g.From = setGrade
	}
	return out, nil
}

func (g Grade) parse(text string) (float64, error) {
	if g.time {
		d, err := units.ParseDuration(strings.TrimSpace(text))
		return d.Seconds(), err
	}
	p, err := units.ParsePercent(strings.TrimSpace(text))
	return float64(p) / 100, err
}

// value formats a value of g.
func (g Grade) value(v float64) string {
	if g.time {
		return units.FormatDuration(time.Duration(v * float64(time.Second)))
	}
	return exact(v)
}

// of returns the state of a value of g.
func (g Grade) of(v float64) State {
	worse := func(bound float64) bool {
		if g.low {
			return v < bound
		}
		return v >= bound && v > 0
	}
	switch {
	case worse(g.Bad):
		return Bad
	case worse(g.Poor):
		return Poor
	}
	return OK
}

// shareConfidence is the confidence of each bound of a share (statistics.md section 1: 95 %).
const shareConfidence = 0.95

// ofShare returns the state of a share of so many packets, and its evidence. It is POOR or
// worse only if the whole interval is, and OK only if the whole interval is.
func (g Grade) ofShare(share float64, of int64) (State, string) {
	lost := int64(math.Round(share * float64(of)))
	low, high := stats.ShareBounds(lost, of, shareConfidence)
	seen := fmt.Sprintf("%d of %d, so between %s and %s", lost, of, exact(low), exact(high))
	switch {
	case g.of(low) != OK:
		return g.of(share), seen
	case high < g.Poor:
		return OK, ""
	}
	return Unseen, "not enough evidence: " + seen
}

// grade returns the named grade of this session.
func (j judge) grade(name string) Grade {
	all := Grades()
	if j.s != nil && j.s.Check != nil && j.s.Check.Grades != "" {
		if set, err := ParseGrades(j.s.Check.Grades); err == nil {
			all = set
		}
	}
	return all[slices.IndexFunc(all, func(g Grade) bool { return g.Name == name })]
}
