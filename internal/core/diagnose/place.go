package diagnose

import (
	"fmt"
	"slices"

	"linerate/internal/core/hist"
	"linerate/internal/core/locate"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// PlaceOf returns where packets wait on the path of direction d of a run; its kind is "" if the
// run has no trace.
func PlaceOf(run model.Run, d model.Direction) model.Place {
	var ends locate.Ends
	var trace *model.Trace
	for _, e := range run.Ends {
		for _, l := range e.Latencies {
			for name, times := range map[string]**hist.Histogram{"idle udp": &ends.Idle, "loaded udp": &ends.Loaded} {
				if l.Name == name && l.Direction == d {
					*times = l.Times
				}
			}
		}
		if e.Trace != nil && e.Trace.Direction == d {
			trace = e.Trace
		}
	}
	if trace == nil {
		return model.Place{}
	}
	p := locate.Find(*trace, ends)
	if p.Kind == model.PlaceLink && doubtful(p, run) {
		return model.Place{Kind: model.PlaceUnknown, Direction: d, Later: p.Later}
	}
	return p
}

// doubtful reports whether the probes of p did not wait in the queue of the load in run: they
// take another route or have their own queue, or they waited for less than a few packets.
func doubtful(p model.Place, run model.Run) bool {
	rate, _ := run.Value(p.Direction, model.Goodput)
	for _, e := range run.Ends {
		for _, flow := range e.Flows {
			if flow.TCP == nil || flow.Direction != p.Direction || e.Host != p.Direction.Sender() {
				continue
			}
			rtt, least := flow.TCP.RTT.Or(0), flow.TCP.RTTMin.Or(0)
			if rtt > 0 && float64(p.Later) < sameQueue*float64(rtt-least) ||
				float64(p.Later) < fewPackets*float64(packetTime(flow.TCP.MSS.Or(fullMSS), units.BitRate(rate))) {
				return true
			}
		}
	}
	return false
}

// placed lists the rules whose limit is a link of the path, and so has a place there; ends
// those whose limit is at a host: that packets wait nowhere on the path is evidence for them
// (docs/locate.md).
func placed() []string { return []string{"B06", "B30", "W01", "ceiling"} }
func ends() []string   { return []string{"B07", "B08", "B16", "B21", "B22", "B09", "B12"} }

// locate adds the result of the trace of its direction to a finding.
func (f features) locate(b *model.Finding) {
	switch p := f.Place; {
	case p.Kind == model.PlaceLink && slices.Contains(placed(), b.Rule):
		b.Place = &p
		text := PlaceText(p)
		if b.Rule == "B06" && b.Kind == model.FindingOutside {
			b.Evidence = text + "; " + b.Evidence
		}
		b.Proof = append(b.Proof, model.Proof{Text: text, Source: "routers on the way, without load and under it"})
	case p.Kind == model.PlaceNoQueue && slices.Contains(ends(), b.Rule):
		b.Proof = append(b.Proof, model.Proof{
			Text:   fmt.Sprintf("packets wait nowhere on the way: under load the far end answers only %s later", units.FormatDuration(p.Later)),
			Source: "routers on the way, without load and under it",
		})
	}
}

// PlaceText says where packets wait.
func PlaceText(p model.Place) string {
	text := "packets wait in front of the link between " + locate.Between(p, func(h model.Host) string {
		if h == p.Direction.Sender() {
			return "the sender"
		}
		return "the receiver"
	})
	behind := "the receiver answers"
	if p.Behind.Host == "" {
		behind = fmt.Sprintf("hop %d and all behind it answer", p.Behind.Hop)
	}
	text += fmt.Sprintf(": %s %s later while the path is full", behind, units.FormatDuration(p.Later))
	switch before := p.Before.Hop; {
	case before == 1:
		text += ", hop 1 does not"
	case before == 2:
		text += ", hops 1 and 2 do not"
	case before > 2:
		text += fmt.Sprintf(", hops 1 to %d do not", before)
	case p.Behind.Host == "":
		text += ": the sender's own link or its queue"
	}
	if p.Ports > 0 {
		text += fmt.Sprintf("; it is one link of a bundle: probes from %s wait there, and those from others do not", plain.Count(p.Ports, "source port"))
	}
	switch silent := p.Silent; {
	case len(silent) == 1:
		text += fmt.Sprintf("; hop %d between them tells too little", silent[0])
	case len(silent) > 1:
		text += fmt.Sprintf("; hops %d to %d between them tell too little", silent[0], silent[len(silent)-1])
	case p.Behind.Host != "" && p.Before.Hop > 0:
		text += " (the last link, or the receiver itself)"
	}
	return text
}
