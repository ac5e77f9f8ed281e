package diagnose

import (
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestPlaceOf: a queue has a place where the probes wait about as long as the packets of the
// load do, and for more than a few of them.
func TestPlaceOf(t *testing.T) {
	t.Parallel()
	times := func(base, wait time.Duration) (out []time.Duration) {
		for range 10 {
			out = append(out, base+wait)
		}
		return out
	}
	for name, c := range map[string]struct {
		wait, rtt time.Duration // of the probes; of the load, 0 is not known
		rate      float64
		want      model.PlaceKind
	}{
		"a queue":                        {10 * time.Millisecond, 14 * time.Millisecond, 50e6, model.PlaceLink},
		"a queue, round trip not known":  {10 * time.Millisecond, 0, 50e6, model.PlaceLink},
		"the load waits much longer":     {10 * time.Millisecond, 32 * time.Millisecond, 50e6, model.PlaceUnknown},
		"the probes wait for one packet": {2 * time.Millisecond, 5 * time.Millisecond, 7e6, model.PlaceUnknown},
		"nothing waits":                  {0, 32 * time.Millisecond, 50e6, model.PlaceNoQueue},
	} {
		const least = 4 * time.Millisecond
		tcp := &model.TCPSummary{MSS: fact.Known(1448, "test")}
		if c.rtt > 0 {
			tcp.RTT, tcp.RTTMin = fact.Known(c.rtt, "test"), fact.Known(least, "test")
		}
		idle, loaded := new(hist.Histogram), new(hist.Histogram)
		for range 10 {
			idle.Record(least)
			loaded.Record(least + c.wait)
		}
		run := model.Run{
			Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: c.rate}},
			Ends: []model.EndReport{{
				Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, TCP: tcp}},
				Latencies: []model.Latency{{Name: "idle udp", Direction: model.To, Times: idle}, {Name: "loaded udp", Direction: model.To, Times: loaded}},
				Trace: &model.Trace{Direction: model.To, Hops: []model.TraceHop{
					{TTL: 1, Address: "10.99.0.2", Idle: times(time.Millisecond, 0), Loaded: times(time.Millisecond, 0)},
					{TTL: 2, Address: "10.99.1.2", Arrived: true, Idle: times(least, 0), Loaded: times(least, c.wait)},
				}},
			}},
		}
		p := PlaceOf(run, model.To)
		must.Equal(t, p.Kind, c.want, "%s: %+v", name, p)
	}
}
