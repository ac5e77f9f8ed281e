package loaded

import (
	"cmp"
	"errors"
	"fmt"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// kind is one kind of probes and its results.
type kind struct {
	name   string
	idle   series
	loaded series
}

// report returns the near end's report, or the reason why there is no result.
func (n *nearRun) report() (model.EndReport, error) {
	if n.outcome == nil {
		return model.EndReport{}, fmt.Errorf("probe without load: %s", n.cut)
	}
	out := n.result.report
	warnings := append([]string(nil), n.warnings...)
	kinds := []kind{
		{name: "udp", idle: n.probes.udps.of(idling), loaded: n.probes.udps.of(loading)},
		{name: "tcp", idle: n.probes.tcps.of(idling), loaded: n.probes.tcps.of(loading)},
	}
	out.Latencies = append(out.Latencies, n.latencies(kinds)...)
	chosen := kinds[0]
	if !chosen.usable() {
		if n.udp != nil {
			warnings = append(warnings, "most UDP probes were not answered: latencies are those of TCP's")
		}
		chosen = kinds[1]
	}
	out.Values = append(out.Values, n.values(chosen)...)
	if n.cut != "" {
		warnings = append(warnings, "probing ended early: "+n.cut)
	}
	warnings = append(warnings, n.taken(kinds)...)
	skipped := n.probes.skipped.Load()
	if sent := n.sent(kinds); skipped*20 > sent {
		warnings = append(warnings, fmt.Sprintf("this end was held up: %d probes were not sent, %d were", skipped, sent))
	}
	out.Warnings = append(warnings, out.Warnings...)
	if chosen.loaded.times.Count() == 0 && n.result.err == nil {
		return out, errors.New("no probe was answered under load: " + cmp.Or(n.cut, chosen.silence()))
	}
	return out, n.result.err
}

// taken returns a note on the probes' part of a slow path under load.
func (n *nearRun) taken(kinds []kind) []string {
	var moved units.BitRate
	for _, f := range n.result.report.Flows {
		if r := units.BitRate(float64(f.Bytes) * 8 / f.Window.Seconds()); f.Window > 0 && (moved == 0 || r < moved) {
			moved = r
		}
	}
	if n.rate > 0 {
		moved = min(moved, n.rate)
	}
	window := (n.shut - n.opened).Seconds()
	udp, tcp := kinds[0].loaded.sent, kinds[1].loaded.sent
	if moved <= 0 || window <= 0 || pace(moved, udpBits+tcpBits) <= mostPace {
		return nil
	}
	took := units.BitRate(float64(udp*udpBits+tcp*tcpBits) / window)
	return []string{fmt.Sprintf("on this slow path %d probes were sent under load: they took %s, %.1f %% of it", udp+tcp, took, 100*float64(took/moved))}
}

// latencies lists the distributions of all probes that were sent.
func (n *nearRun) latencies(kinds []kind) []model.Latency {
	var out []model.Latency
	add := func(name string, s series) {
		if s.sent == 0 {
			return
		}
		out = append(out, model.Latency{
			Name: name, Direction: n.spec.Direction, Times: s.times.Histogram(), Sent: s.sent, Lost: s.sent - int64(s.times.Count()),
		})
	}
	for _, k := range kinds {
		add("idle "+k.name, k.idle)
	}
	for _, k := range kinds {
		add("loaded "+k.name, k.loaded)
	}
	return out
}

// usable reports whether at least half of the probes of each phase returned.
func (k kind) usable() bool {
	for _, s := range []series{k.idle, k.loaded} {
		if int64(s.times.Count())*2 < s.sent {
			return false
		}
	}
	return k.loaded.sent > 0
}

// silence returns the reason why no probe was answered under load.
func (k kind) silence() string {
	if k.loaded.sent == 0 {
		return "this end was held up and sent none"
	}
	return "the far end does not send them back"
}

// values returns the run's values, over the probes that returned.
func (n *nearRun) values(k kind) []model.Value {
	var out []model.Value
	for _, v := range []struct {
		metric model.Metric
		of     series
		q      float64
	}{
		{model.LatencyP50, k.loaded, 0.5}, {model.LatencyP99, k.loaded, 0.99},
		{model.IdleP50, k.idle, 0.5}, {model.IdleP99, k.idle, 0.99},
	} {
		if t, known := v.of.times.Histogram().Quantile(v.q).Get(); known {
			out = append(out, model.Value{Direction: n.direction(), Metric: v.metric, Value: t.Seconds()})
		}
	}
	return out
}

// sent returns how many probes were sent in the phases that count.
func (n *nearRun) sent(kinds []kind) int64 {
	var sum int64
	for _, k := range kinds {
		sum += k.idle.sent + k.loaded.sent
	}
	return sum
}
