package session

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
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

// The settings of every engine pass the wire.
func TestPartsOfFlowsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := flows().Draw(t, "flow")
		switch rapid.IntRange(0, 4).Draw(t, "part") {
		case 0:
			want.UDP = &model.UDPFlow{
				Rate: units.BitRate(rapid.Float64Range(0, 1e12).Draw(t, "rate")), Pacing: name().Draw(t, "pacing"), Plain: rapid.Bool().Draw(t, "plain"),
			}
		case 1:
			want.Sweep = &model.Sweep{
				Sizes: rapid.SliceOfN(sizes(), 1, 30).Draw(t, "sizes"), Mode: name().Draw(t, "mode"),
				Fresh: rapid.Bool().Draw(t, "fresh"), Spin: rapid.Bool().Draw(t, "spin"),
			}
			want.Duration, want.Bytes = 0, 0 // its sizes end it
		case 2:
			want.Requests = &model.Requests{
				Rate: rapid.Float64Range(0, 1e9).Draw(t, "rate"), Reply: sizes().Draw(t, "reply"),
				Connect: rapid.Bool().Draw(t, "connect"), Spin: rapid.Bool().Draw(t, "spin"),
			}
		case 3:
			want.Loaded = &model.Loaded{Engine: name().Draw(t, "engine"), Idle: length().Draw(t, "idle")}
		case 4:
			want.Copy = &model.Copy{
				Mode: name().Draw(t, "mode"), Source: text(40).Draw(t, "source"), Sink: text(40).Draw(t, "sink"),
				Direct: rapid.Bool().Draw(t, "direct"), Sync: rapid.Bool().Draw(t, "sync"), Plain: rapid.Bool().Draw(t, "plain"),
			}
		}
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
		"negative rate":     flow(model.Flow{UDP: &model.UDPFlow{Rate: -1}}),
		"no rate":           flow(model.Flow{UDP: &model.UDPFlow{Rate: units.BitRate(math.NaN())}}),
		"many sizes":        flow(model.Flow{Sweep: &model.Sweep{Sizes: make([]units.Bytes, MaxPoints+1)}}),
		"huge message":      flow(model.Flow{Sweep: &model.Sweep{Sizes: []units.Bytes{maxBlock + 1}}}),
		"negative message":  flow(model.Flow{Sweep: &model.Sweep{Sizes: []units.Bytes{-1}}}),
		"infinite arrivals": flow(model.Flow{Requests: &model.Requests{Rate: math.Inf(1)}}),
		"huge reply":        flow(model.Flow{Requests: &model.Requests{Reply: maxBlock + 1}}),
		"idle for ever":     flow(model.Flow{Loaded: &model.Loaded{Idle: MaxDuration + 1}}),
		"path that steers":  flow(model.Flow{Copy: &model.Copy{Sink: "/\x1b[2J"}}),
		"bad histogram":     report(&sessionpb.EndReport{Latencies: []*sessionpb.Latency{{Name: "x", Times: []byte{0xff}}}}),
		"huge histogram":    report(&sessionpb.EndReport{Latencies: []*sessionpb.Latency{{Name: "x", Times: make([]byte, maxHistogram+1)}}}),
		"more lost":         report(&sessionpb.EndReport{Latencies: []*sessionpb.Latency{{Name: "x", Sent: 1, Lost: 2}}}),
		"many trials":       report(&sessionpb.EndReport{Points: []*sessionpb.Point{{Trials: make([]int64, maxTrials+1)}}}),
		"negative trial":    report(&sessionpb.EndReport{Points: []*sessionpb.Point{{Trials: []int64{-1}}}}),
		"counter":           report(&sessionpb.EndReport{Counters: []*sessionpb.Counter{{Name: "x", Value: -1}}}),
		"many counters":     report(&sessionpb.EndReport{Counters: make([]*sessionpb.Counter, MaxCounters+1)}),
		"value":             report(&sessionpb.EndReport{Values: []*sessionpb.Value{{Metric: "x", Value: math.NaN()}}}),
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
