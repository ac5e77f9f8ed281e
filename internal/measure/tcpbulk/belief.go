package tcpbulk

import (
	"cmp"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// ccInfo is the source of these facts.
const ccInfo = "TCP_CC_INFO"

// belief collects bbr's model of the path at each reading in the measured window.
type belief struct {
	asked    bool   // the congestion control of the streams is bbr
	reason   string // why the kernel does not report it, "" if it does
	rates    []units.BitRate
	rtts     []time.Duration
	steady   int
	inFlight fact.Of[int64]
}

func (b *belief) prepare(spec model.Flow, streams []*stream) {
	name, err := streams[0].link.congestion()
	if b.asked = err == nil && strings.HasPrefix(name, "bbr"); !b.asked {
		return
	}
	intervals := min(int(spec.Duration/spec.Interval)+2, maxReserve)
	b.rates, b.rtts = make([]units.BitRate, 0, intervals), make([]time.Duration, 0, intervals)
}

func (b *belief) read(streams []*stream) {
	if !b.asked || b.reason != "" {
		return
	}
	var rate units.BitRate
	var least fact.Of[time.Duration]
	steady, inFlight := true, fact.Known(int64(0), ccInfo)
	for _, s := range streams {
		m, err := s.link.bbr()
		if err != nil {
			b.reason = err.Error()
			return
		}
		rate += m.Rate
		least = fact.Known(min(m.RTTMin, least.Or(m.RTTMin)), ccInfo)
		steady = steady && m.Steady
		if inFlight.IsKnown() {
			most, known := m.InFlight.Get()
			inFlight = fact.If(known, inFlight.Or(0)+most, ccInfo, "bbr has no bound of its own")
		}
	}
	b.rates, b.rtts, b.inFlight = append(b.rates, rate), append(b.rtts, least.Or(0)), inFlight
	if steady {
		b.steady++
	}
}

// summary returns bbr's model in the second half, when it had found the path; nil without bbr.
func (b *belief) summary() *model.BBRSummary {
	n := len(b.rates)
	switch {
	case !b.asked:
		return nil
	case b.reason != "" || n == 0:
		why := cmp.Or(b.reason, "no reading in the window")
		return &model.BBRSummary{Rate: fact.Unknown[units.BitRate](why), RTTMin: fact.Unknown[time.Duration](why), Steady: fact.Unknown[float64](why)}
	}
	return &model.BBRSummary{
		Rate: fact.Known(median(b.rates[n/2:]).Or(0), ccInfo), RTTMin: fact.Known(median(b.rtts[n/2:]).Or(0), ccInfo),
		Steady: fact.Known(float64(b.steady)/float64(n), ccInfo), InFlight: b.inFlight,
	}
}
