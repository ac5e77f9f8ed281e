// Package bulk holds the parameters of engine tcpbulk.
package bulk

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
)

// Name is the engine's name.
const Name = "tcpbulk"

// Params are the parameters.
type Params struct {
	Rate  units.BitRate `json:"rate,omitempty"`  // of payload, per direction, over all streams; 0 is as fast as possible
	MPTCP bool          `json:"mptcp,omitempty"` // Multipath TCP (RFC 8684) in place of TCP
	// NoCopy sends from the pages of a file in memory (sendfile(2)) and has the receiver's
	// kernel drop the payload (MSG_TRUNC), where the host can: what the path carries beyond
	// what copying allows. A program that uses its data does not get there.
	NoCopy bool `json:"no_copy,omitempty"`
}

// Paced returns f with its TCP streams, or those that it probes beside, limited to rate per
// direction; false if f sends something else.
func Paced(f model.Flow, rate units.BitRate) (model.Flow, bool) {
	load := probes.Load(f)
	if load.Engine != Name {
		return f, false
	}
	p, err := traffic.Read[Params](load.Params)
	p.Rate = rate
	return probes.WithLoad(f, traffic.Write(p)), err == nil
}

// Kind is the kind of traffic.
func Kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Title: "TCP",
		Metrics: func(model.Flow) traffic.Metrics {
			return traffic.Metrics{Measured: append([]model.Metric{model.Goodput, model.RTT, model.RetransmitRatio}, traffic.PerGbit()...)}
		},
		Options: []traffic.Option{
			traffic.Param(traffic.Option{
				Name: "mptcp", Usage: "Multipath TCP over all subflows that both hosts open (Linux), with a row for each", Switch: true, Fixed: true,
			}, traffic.Switch, func(p *Params) *bool { return &p.MPTCP }),
			traffic.Param(traffic.Option{
				Name: "no-copy", Usage: "neither end copies the payload (Linux): the rate beyond the limit of copying, which no program that reads its data reaches", Switch: true,
			}, traffic.Switch, func(p *Params) *bool { return &p.NoCopy }),
		},
		Demand: func(f model.Flow) traffic.Demand {
			p, _ := traffic.Read[Params](f.Params) // the engine reports what is no parameter
			return traffic.Demand{Rate: p.Rate}
		},
		Section: section,
	}
}

// path identifies one subflow of a connection across runs.
type path struct {
	direction model.Direction
	from, to  string // addresses
}

// section returns a row for each subflow, and which payload was not copied; nil for plain TCP.
// Connections of different runs have different ports, so only addresses identify a row.
func section(t traffic.Measured) *traffic.Section {
	type carried struct {
		rates []float64 // of a run, all streams together
		rtts  []float64 // s, of a run and stream
		again int64
	}
	seen := map[path]*carried{}
	var order []path
	for _, r := range t.Runs {
		rate := map[path]float64{}
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				for _, s := range f.Subflows {
					p := path{f.Direction, s.From, s.To}
					if seen[p] == nil {
						seen[p] = &carried{}
						order = append(order, p)
					}
					rate[p] += float64(s.Bytes) * 8 / f.Window.Seconds()
					seen[p].again += s.Retransmits
					if rtt, known := s.RTT.Get(); known {
						seen[p].rtts = append(seen[p].rtts, rtt.Seconds())
					}
				}
			}
		}
		for p, v := range rate {
			seen[p].rates = append(seen[p].rates, v)
		}
	}
	if len(order) == 0 {
		return uncopied(t)
	}
	slices.SortStableFunc(order, func(a, b path) int { return -cmp.Compare(a.direction, b.direction) }) // to, from
	table := traffic.Block{Columns: []traffic.Column{
		{Title: "subflow"}, {Title: "from"}, {Title: "to"}, {Title: "acknowledged", Right: true}, {Title: "round trip", Right: true}, {Title: "retransmitted", Right: true},
	}}
	out := &traffic.Section{Key: "subflows", Beside: true}
	var data []Subflow
	for _, p := range order {
		c := seen[p]
		d := Subflow{Direction: p.direction, From: p.from, To: p.to, Rate: units.BitRate(stats.Median(c.rates)), Retransmits: c.again}
		rtt := "unknown"
		if len(c.rtts) > 0 {
			d.RTT = time.Duration(stats.Median(c.rtts) * float64(time.Second))
			rtt = units.FormatDuration(d.RTT)
		}
		data = append(data, d)
		row := []traffic.Cell{{Text: t.Label(p.direction)}, {Text: p.from}, {Text: p.to}, {Text: d.Rate.String()}, {Text: rtt}, {Text: fmt.Sprint(c.again)}}
		table.Rows = append(table.Rows, row)
	}
	out.Data, out.Blocks = data, []traffic.Block{{Tone: traffic.Heading, Text: "Multipath TCP"}, table}
	if lone(order) {
		out.Blocks = append(out.Blocks, traffic.Block{Tone: traffic.Aside, Text: "One subflow in each direction: this is one path, as with TCP. More come from ip mptcp endpoint add ADDRESS dev INTERFACE subflow, and ip mptcp limits on both hosts."})
	}
	out.Blocks = append(out.Blocks, traffic.Gap())
	return out
}

// uncopied says aloud which ends did not copy the payload, nil if all did.
func uncopied(t traffic.Measured) *traffic.Section {
	var data []Uncopied
	for _, r := range t.Runs {
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if u := (Uncopied{f.Direction, f.Role}); f.Uncopied && !slices.Contains(data, u) {
					data = append(data, u)
				}
			}
		}
	}
	if len(data) == 0 {
		return nil
	}
	var blocks []traffic.Block
	for _, u := range data {
		text := "sent without copying it"
		if u.Role == model.Receiver {
			text = "dropped by the receiver's kernel, not copied to the program"
		}
		blocks = append(blocks, traffic.Block{Tone: traffic.Aside, Text: t.Label(u.Direction) + ": the payload was " + text})
	}
	return &traffic.Section{Key: "uncopied", Beside: true, Data: data, Blocks: append(blocks, traffic.Gap())}
}

// Uncopied is an end of a direction that moved the payload without copying it.
type Uncopied struct {
	Direction model.Direction `json:"direction"`
	Role      model.Role      `json:"role"`
}

// lone reports whether no direction had more than one subflow.
func lone(order []path) bool {
	return !slices.ContainsFunc(order, func(p path) bool {
		return slices.ContainsFunc(order, func(q path) bool { return p != q && p.direction == q.direction })
	})
}

// Subflow is the result of one subflow, over all runs that count.
type Subflow struct {
	Direction   model.Direction `json:"direction"`
	From        string          `json:"from"` // address of the sender
	To          string          `json:"to"`
	Rate        units.BitRate   `json:"rate"`             // of acknowledged payload, bit/s: median over runs
	RTT         time.Duration   `json:"rtt_ns,omitempty"` // smoothed: median over runs and streams; 0 if unknown
	Retransmits int64           `json:"retransmits"`      // segments, of all runs
}
