package lab

import (
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/lab/wire"
)

// Limits of a swing: a rate that nearly stops is no swing, and a period of a few frames is
// jitter.
const (
	maxSwing       = 90 // percent
	minSwingPeriod = 100 * time.Millisecond
	maxSwingPeriod = 24 * time.Hour
)

// swing parses SHARE/PERIOD or SHARE/PERIOD/LEAD, as in 10%/60s/15s.
func (p *parser) swing(key, value string) wire.Swing {
	wrong := func() wire.Swing {
		p.fault("%s=%s: use a share up to %d%% and a period from %s to 24h, for example 10%%/60s, or 10%%/60s/15s to begin 15s into it",
			key, value, maxSwing, minSwingPeriod)
		return wire.Swing{}
	}
	parts := strings.Split(value, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return wrong()
	}
	share, err := units.ParsePercent(parts[0])
	if err != nil || !(share > 0 && share <= maxSwing) {
		return wrong()
	}
	s := wire.Swing{Share: share}
	if s.Period, err = time.ParseDuration(parts[1]); err != nil || s.Period < minSwingPeriod || s.Period > maxSwingPeriod {
		return wrong()
	}
	if len(parts) == 3 {
		if s.Lead, err = time.ParseDuration(parts[2]); err != nil || s.Lead < 0 || s.Lead >= s.Period {
			p.fault("%s=%s: it begins so far into the period as the third part says: use a time from 0s to less than %s", key, value, parts[1])
		}
	}
	return s
}

// maySwing checks that each direction that swings is limited by its own rate only, and that a
// shared medium has one rate.
func (p *parser) maySwing() {
	for _, w := range p.spec.ways() {
		path := w.rated()
		if path.Swing.Share == 0 {
			continue
		}
		if path.Rate == 0 {
			p.fault("swing %s has no effect without a rate: give rate= as well", w.says)
		}
		for _, other := range []struct {
			key  string
			rate units.BitRate
		}{{"stage", path.Stage}, {"police", path.Police}, {"bus", p.spec.Bus}} {
			if other.rate > 0 {
				p.fault("swing %s is of rate= alone: leave out %s=", w.says, other.key)
			}
		}
	}
	if p.spec.HalfDuplex && p.spec.To.Swing != p.spec.From.Swing {
		p.fault("duplex=half: one medium has one swing: give swing= for both directions")
	}
}

// Rates returns the wire's rates from the near host and from the far one, unknown if unlimited.
// For a rate that swings it is the mean, and the source says so.
func (s Spec) Rates() [2]fact.Of[units.BitRate] {
	of := func(p wire.Path) fact.Of[units.BitRate] {
		switch {
		case p.Rate == 0:
			return fact.Unknown[units.BitRate]("the lab's wire has no rate limit")
		case p.Swing.Share > 0:
			return fact.Known(p.Rate, "the lab's wire, the mean of a rate that swings by "+p.Swing.String())
		}
		return fact.Known(p.Rate, "the lab's wire")
	}
	return [2]fact.Of[units.BitRate]{of(s.To), of(s.From)}
}
