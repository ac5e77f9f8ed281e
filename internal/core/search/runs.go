package search

import (
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
)

// reached is the share of the requested rate that a sender must reach.
const reached = 0.98

// drained is the share of the sent and not lost datagrams that must arrive in the same time.
// Without it, short runs would find the rate at which the path's queues fill within a run, not
// the path's rate.
const drained = 0.995

// edges returns the payload of the two datagrams that may fall just outside a window.
func edges(f model.FlowReport) float64 {
	if f.UDP == nil || f.UDP.Sent == 0 {
		return 0
	}
	return 2 * float64(f.Bytes) / float64(f.UDP.Sent)
}

// Trials converts the valid runs of a session, in order.
func Trials(runs []model.Run, d model.Direction) []Trial {
	var out []Trial
	for _, r := range runs {
		loss, ok := r.Value(d, model.LossRatio)
		asked, datagrams := udp.Of(r.Flow)
		if !ok || r.State != model.RunValid || !datagrams {
			continue
		}
		t := Trial{Rate: asked.Rate, Loss: loss}
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if f.Direction == d && f.Role == model.Receiver && f.UDP != nil {
					t.Lost, t.Sent = f.UDP.Lost, f.UDP.Lost+f.UDP.Received
				}
				if f.Direction == d && f.Role == model.Sender && f.Window > 0 {
					sent := (float64(f.Bytes) + edges(f)) * 8 / f.Window.Seconds()
					got, _ := r.Value(d, model.Goodput)
					got += edges(f) * 8 / f.Window.Seconds()
					t.Short = sent < reached*float64(t.Rate)
					t.Filling = got < drained*(1-loss)*min(sent, float64(t.Rate))
				}
			}
		}
		out = append(out, t)
	}
	return out
}
