package radio

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// The requests and answers of nl80211 (Linux include/uapi/linux/nl80211.h, 6.1).
const (
	cmdGetInterface = 5
	cmdGetStation   = 17
	cmdGetSurvey    = 50
	cmdGetPowerSave = 62

	attrIndex     = 3   // NL80211_ATTR_IFINDEX
	attrType      = 5   // NL80211_ATTR_IFTYPE
	attrStation   = 21  // NL80211_ATTR_STA_INFO
	attrFrequency = 38  // NL80211_ATTR_WIPHY_FREQ
	attrSurvey    = 84  // NL80211_ATTR_SURVEY_INFO
	attrPowerSave = 93  // NL80211_ATTR_PS_STATE
	attrWidth     = 159 // NL80211_ATTR_CHANNEL_WIDTH

	stationSignal    = 7 // NL80211_STA_INFO_*
	stationTransmit  = 8
	stationSent      = 10
	stationRetries   = 11
	stationFailed    = 12
	stationAverage   = 13 // SIGNAL_AVG
	stationReceive   = 14
	stationExpected  = 27
	rate16           = 1 // NL80211_RATE_INFO_BITRATE
	rate32           = 5 // NL80211_RATE_INFO_BITRATE32
	surveyInUse      = 3 // NL80211_SURVEY_INFO_*
	surveyTime       = 4
	surveyBusy       = 5
	surveyTransmit   = 8
	surveyOwnNetwork = 11
)

// source80211 is the source of these values.
const source80211 = "nl80211"

var errMessage = errors.New("nl80211: the answer is cut short or malformed")

// attributes calls one for each attribute of b.
func attributes(b []byte, one func(d *netlink.AttributeDecoder)) error {
	d, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return errMessage
	}
	for d.Next() {
		one(d)
	}
	if d.Err() != nil {
		return errMessage
	}
	return nil
}

// nested calls one for the attributes inside the present one of d.
func nested(d *netlink.AttributeDecoder, one func(d *netlink.AttributeDecoder)) {
	d.Nested(func(inner *netlink.AttributeDecoder) error {
		for inner.Next() {
			one(inner)
		}
		return nil
	})
}

// role names an interface type (enum nl80211_iftype).
func role(n uint32) fact.Of[string] {
	name := map[uint32]string{1: "ad hoc", 2: "station", 3: "access point", 6: "monitor", 7: "mesh", 8: "station", 9: "access point"}[n]
	return fact.If(name != "", name, source80211, fmt.Sprintf("interface type %d", n))
}

// width returns a channel width in MHz (enum nl80211_chan_width).
func width(n uint32) fact.Of[int] {
	mhz := map[uint32]int{0: 20, 1: 20, 2: 40, 3: 80, 4: 160, 5: 160, 6: 5, 7: 10, 8: 1, 9: 2, 10: 4, 11: 8, 12: 16, 13: 320}[n]
	return fact.If(mhz != 0, mhz, source80211, fmt.Sprintf("channel width %d", n))
}

// decodeInterface decodes the answer to cmdGetInterface. An interface without a channel has
// no attributes of one.
func (s *State) decodeInterface(b []byte) error {
	const none = "it is on no channel"
	s.FrequencyMHz, s.WidthMHz = fact.Unknown[int](none), fact.Unknown[int](none)
	return attributes(b, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case attrType:
			s.Role = role(d.Uint32())
		case attrFrequency:
			s.FrequencyMHz = fact.Known(int(d.Uint32()), source80211)
		case attrWidth:
			s.WidthMHz = width(d.Uint32())
		}
	})
}

// decodeStations decodes the answers to cmdGetStation, one for each radio at the other end.
// If there are several, it does not know which one is on the path.
func (s *State) decodeStations(answers [][]byte) error {
	if len(answers) != 1 {
		why := "it is connected to nothing"
		if len(answers) > 1 {
			why = fmt.Sprintf("%d stations are connected", len(answers))
		}
		s.SignalDBm, s.Transmit, s.Receive, s.Expected = fact.Unknown[int](why), fact.Unknown[units.BitRate](why), fact.Unknown[units.BitRate](why), fact.Unknown[units.BitRate](why)
		s.Sent, s.Retries, s.Failed = fact.Unknown[uint32](why), fact.Unknown[uint32](why), fact.Unknown[uint32](why)
		return nil
	}
	return attributes(answers[0], func(d *netlink.AttributeDecoder) {
		if d.Type() == attrStation {
			nested(d, s.station)
		}
	})
}

func (s *State) station(d *netlink.AttributeDecoder) {
	switch d.Type() {
	case stationSignal:
		if v := d.Int8(); !s.SignalDBm.IsKnown() {
			s.SignalDBm = fact.Known(int(v), source80211+" signal")
		}
	case stationAverage:
		s.SignalDBm = fact.Known(int(d.Int8()), source80211+" signal avg")
	case stationTransmit:
		s.Transmit = rate(d)
	case stationReceive:
		s.Receive = rate(d)
	case stationExpected:
		s.Expected = fact.Known(units.BitRate(d.Uint32())*1e3, source80211)
	case stationSent:
		s.Sent = fact.Known(d.Uint32(), source80211)
	case stationRetries:
		s.Retries = fact.Known(d.Uint32(), source80211)
	case stationFailed:
		s.Failed = fact.Known(d.Uint32(), source80211)
	}
}

// rate decodes a rate in units of 100 kbit/s. The older attribute has 16 bits.
func rate(d *netlink.AttributeDecoder) fact.Of[units.BitRate] {
	var n uint32
	nested(d, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case rate16:
			n = max(n, uint32(d.Uint16()))
		case rate32:
			n = max(n, d.Uint32())
		}
	})
	return fact.If(n > 0, units.BitRate(n)*1e5, source80211, "no frame was sent yet")
}

// decodeSurvey decodes the answers to cmdGetSurvey, one for each channel, and uses the one of
// the present channel.
func (s *State) decodeSurvey(answers [][]byte) error {
	for _, b := range answers {
		var c Counts
		used := false
		err := attributes(b, func(d *netlink.AttributeDecoder) {
			if d.Type() != attrSurvey {
				return
			}
			nested(d, func(d *netlink.AttributeDecoder) {
				switch d.Type() {
				case surveyInUse:
					used = true
				case surveyTime:
					c.Channel = fact.Known(d.Uint64(), source80211)
				case surveyBusy:
					c.Busy = fact.Known(d.Uint64(), source80211)
				case surveyTransmit:
					c.Transmitting = fact.Known(d.Uint64(), source80211)
				case surveyOwnNetwork:
					c.OwnNetwork = fact.Known(d.Uint64(), source80211)
				}
			})
		})
		if err != nil {
			return err
		}
		if used {
			s.Channel, s.Busy, s.Transmitting, s.OwnNetwork = c.Channel, c.Busy, c.Transmitting, c.OwnNetwork
		}
	}
	return nil
}

// decodePowerSave decodes the answer to cmdGetPowerSave.
func (s *State) decodePowerSave(b []byte) error {
	return attributes(b, func(d *netlink.AttributeDecoder) {
		if d.Type() == attrPowerSave {
			s.PowerSave = fact.Known(d.Uint32() == 1, source80211)
		}
	})
}
