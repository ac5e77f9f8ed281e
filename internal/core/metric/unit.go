package metric

import "linerate/internal/core/model"

// Base returns the unit of m's stored values in UCUM notation, except for counts, which have
// the name of the counted things; "" for host counters, whose units docs/counters.md lists.
func Base(m model.Metric) string {
	switch m {
	case model.Goodput, model.StreamGoodput, model.Sent, model.StreamSent, model.IPCapacity, model.IPRate:
		return "bit/s"
	case model.RTT, model.RTTMin, model.BusyTime, model.RwndLimited, model.SndbufLimited, model.Jitter,
		model.LatencyP50, model.LatencyP99, model.IdleP50, model.IdleP99, model.AddedP50, model.AddedP99,
		model.DelayVariation, model.DelayVariationMax:
		return "s"
	case model.CPU, model.CPU + "_" + model.Metric(model.Near), model.CPU + "_" + model.Metric(model.Far):
		return "s/s"
	case model.CPUPerGbitNear, model.CPUPerGbitFar:
		return "s/Gbit"
	case model.Cwnd, model.StreamCwnd, model.PeerWindow:
		return "B"
	case model.Retransmits, model.StreamRetransmits:
		return "segments"
	case model.Datagrams, model.Lost:
		return "datagrams"
	case model.LossRatio, model.RetransmitRatio:
		return "1"
	case model.RequestRate, model.ConnectRate:
		return "1/s"
	case model.Responsiveness:
		return "1/min"
	}
	return ""
}
