package counters

import (
	"errors"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/host/radio"
)

// openRadio opens the interface called iface as a radio; nil if it is not one.
func openRadio(iface string, g *gaps) *radio.Radio {
	r, err := radio.Open(iface)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		g.note("radio "+iface, err)
	}
	return r
}

// readRadio adds the values of r. The times on the channel are read with the driver's own
// counters.
func (o *Snapshot) readRadio(r *radio.Radio, survey bool, g *gaps) {
	if r == nil {
		return
	}
	s, err := r.Read(survey)
	g.note("radio "+o.device, err)
	if v, ok := s.SignalDBm.Get(); ok {
		o.levels = append(o.levels, level{radioSignalLevel, float64(v)})
	}
	for name, f := range map[string]fact.Of[units.BitRate]{radioTransmitLevel: s.Transmit, radioReceiveLevel: s.Receive, radioExpectedLevel: s.Expected} {
		if v, ok := f.Get(); ok {
			o.levels = append(o.levels, level{name, float64(v)})
		}
	}
	for i, f := range map[id]fact.Of[uint32]{radioSent: s.Sent, radioRetries: s.Retries, radioFailed: s.Failed} {
		if v, ok := f.Get(); ok {
			o.values.setNarrow(i, v)
		}
	}
	for i, f := range map[id]fact.Of[uint64]{radioChannel: s.Channel, radioBusy: s.Busy, radioTransmitting: s.Transmitting, radioOwnNetwork: s.OwnNetwork} {
		if v, ok := f.Get(); ok {
			o.values.set(i, v)
		}
	}
}
