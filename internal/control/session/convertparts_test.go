package session

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

func sizes() *rapid.Generator[units.Bytes] {
	return rapid.Map(rapid.Int64Range(0, maxBlock), func(n int64) units.Bytes { return units.Bytes(n) })
}

func histograms() *rapid.Generator[*hist.Histogram] {
	return rapid.Custom(func(t *rapid.T) *hist.Histogram {
		h := new(hist.Histogram)
		for _, d := range rapid.SliceOfN(length(), 0, 20).Draw(t, "times") {
			h.Record(d)
		}
		return h
	})
}

func count() *rapid.Generator[int64] { return rapid.Int64Range(0, maxBytes) }

// What belongs to an engine passes the wire as it is.
func TestParamsRoundTrip(t *testing.T) {
	object := rapid.MapOfN(name(), rapid.Float64(), 0, 20)
	rapid.Check(t, func(t *rapid.T) {
		want := flows().Draw(t, "flow")
		want.Lead = length().Draw(t, "lead")
		want.Points = rapid.IntRange(0, MaxPoints).Draw(t, "points")
		want.Params = traffic.Write(object.Draw(t, "params"))
		var c check
		same(t, c, decodeFlow(&c, through(t, encodeFlow(want), &sessionpb.Flow{})), want)
	})
}

func udpSummaries() *rapid.Generator[*model.UDPSummary] {
	return rapid.Custom(func(t *rapid.T) *model.UDPSummary {
		n := func(name string) int64 { return count().Draw(t, name) }
		u := &model.UDPSummary{
			Received: n("received"), Lost: n("lost"), Duplicates: n("duplicates"), Reordered: n("reordered"),
			MaxExtent: n("extent"), Jitter: number[time.Duration]().Draw(t, "jitter"), Coalesced: rapid.Bool().Draw(t, "coalesced"),
			Sent: n("sent"), Refused: n("refused"), Pacing: text(20).Draw(t, "pacing"), Segmented: rapid.Bool().Draw(t, "segmented"),
		}
		if rapid.Bool().Draw(t, "histograms") {
			u.Variation, u.Gaps = histograms().Draw(t, "variation"), histograms().Draw(t, "gaps")
		}
		return u
	})
}

// What the engines report passes the wire.
func TestPartsOfReportsRoundTrip(t *testing.T) {
	direction := rapid.SampledFrom([]model.Direction{"", model.To, model.From})
	rapid.Check(t, func(t *rapid.T) {
		sent := count().Draw(t, "sent")
		want := model.EndReport{
			Host:   model.Near,
			Flows:  []model.FlowReport{{Direction: model.From, Role: model.Receiver, UDP: udpSummaries().Draw(t, "udp")}},
			Values: []model.Value{{Direction: direction.Draw(t, "direction"), Metric: model.Metric(name().Draw(t, "metric")), Value: finite().Draw(t, "value")}},
			Latencies: []model.Latency{{
				Name: "idle udp", Direction: model.Both, Times: histograms().Draw(t, "times"), Sent: sent,
				Lost: rapid.Int64Range(0, sent).Draw(t, "lost"),
			}},
			Points: []model.Point{{
				Size: sizes().Draw(t, "size"), Rounds: count().Draw(t, "rounds"), Trials: rapid.SliceOfN(length(), 1, 9).Draw(t, "trials"),
			}, {Size: 7, Stalled: true, Log: []string{text(60).Draw(t, "log")}}},
			Counters: []model.Counter{{Name: name().Draw(t, "counter"), Of: text(12).Draw(t, "of"), Value: count().Draw(t, "value")}},
		}
		var c check
		same(t, c, decodeReport(&c, through(t, encodeReport(want), &sessionpb.EndReport{}), model.Near), want)
		s := []model.Sample{{Host: model.Far, Metric: "cpu_busy", Of: text(12).Draw(t, "of")}}
		p := through(t, encodeEvent(Event{Kind: Samples, Samples: s}), &sessionpb.RunResponse{})
		same(t, c, decodeEvent(&c, p, model.Far).Samples, s)
	})
}

func TestDecodingPartsRefuses(t *testing.T) {
	flow := func(f model.Flow) func(*check) {
		f.Engine, f.Direction, f.Duration = "e", model.To, time.Second
		return func(c *check) { decodeFlow(c, encodeFlow(f)) }
	}
	report := func(p *sessionpb.EndReport) func(*check) {
		return func(c *check) { decodeReport(c, p, model.Far) }
	}
	for name, decode := range map[string]func(*check){
		"huge params":    flow(model.Flow{Params: model.Params("{\"a\":\"" + strings.Repeat("a", MaxParams) + "\"}")}),
		"no object":      flow(model.Flow{Params: "[1]"}),
		"no JSON":        flow(model.Flow{Params: "{"}),
		"two objects":    flow(model.Flow{Params: "{} {}"}),
		"not a number":   flow(model.Flow{Params: traffic.Write(map[string]float64{"rate": math.NaN()})}),
		"idle for ever":  flow(model.Flow{Lead: MaxDuration + 1}),
		"many points":    flow(model.Flow{Points: MaxPoints + 1}),
		"bad histogram":  report(&sessionpb.EndReport{Latencies: []*sessionpb.Latency{{Name: "x", Times: []byte{0xff}}}}),
		"huge histogram": report(&sessionpb.EndReport{Latencies: []*sessionpb.Latency{{Name: "x", Times: make([]byte, maxHistogram+1)}}}),
		"more lost":      report(&sessionpb.EndReport{Latencies: []*sessionpb.Latency{{Name: "x", Sent: 1, Lost: 2}}}),
		"many trials":    report(&sessionpb.EndReport{Points: []*sessionpb.Point{{Trials: make([]int64, maxTrials+1)}}}),
		"negative trial": report(&sessionpb.EndReport{Points: []*sessionpb.Point{{Trials: []int64{-1}}}}),
		"counter":        report(&sessionpb.EndReport{Counters: []*sessionpb.Counter{{Name: "x", Value: -1}}}),
		"many counters":  report(&sessionpb.EndReport{Counters: make([]*sessionpb.Counter, MaxCounters+1)}),
		"value":          report(&sessionpb.EndReport{Values: []*sessionpb.Value{{Metric: "x", Value: math.NaN()}}}),
		"nil parts": report(&sessionpb.EndReport{
			Values: []*sessionpb.Value{nil}, Latencies: []*sessionpb.Latency{nil}, Points: []*sessionpb.Point{nil}, Counters: []*sessionpb.Counter{nil},
		}),
	} {
		var c check
		if decode(&c); !errors.Is(c.err, ErrInvalid) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}
