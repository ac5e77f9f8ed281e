package radio

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

// sourceMac is the source of these values.
const sourceMac = "system_profiler"

// airports is the output of "system_profiler -json SPAirPortDataType":
//
//	{"SPAirPortDataType": [{"spairport_airport_interfaces": [{"_name": "en0",
//	  "spairport_current_network_information": {"spairport_network_channel": "36 (5GHz, 80MHz)",
//	    "spairport_network_rate": 866, "spairport_signal_noise": "-46 dBm / -96 dBm"}}]}]}
type airports struct {
	All []struct {
		Interfaces []struct {
			Name    string `json:"_name"`
			Current *struct {
				Channel string  `json:"spairport_network_channel"`
				Rate    float64 `json:"spairport_network_rate"` // Mbit/s
				Signal  string  `json:"spairport_signal_noise"`
			} `json:"spairport_current_network_information"`
		} `json:"spairport_airport_interfaces"`
	} `json:"SPAirPortDataType"`
}

// macChannel matches a channel with its band and width, macSignal a signal.
var (
	macChannel = regex.New(`^(\d{1,3}) \((2|5|6)GHz, (\d{2,3})MHz\)`)
	macSignal  = regex.New(`^(-\d{1,2}|-1[01]\d) dBm`)
)

// parseAirport parses what the system reports about the interface called name.
func parseAirport(b []byte, name string) (s State, err error) {
	var all airports
	if err := json.Unmarshal(b, &all); err != nil {
		return s, fmt.Errorf("system_profiler: %s", err.Error())
	}
	for _, one := range all.All {
		for _, i := range one.Interfaces {
			if i.Name != name {
				continue
			}
			if i.Current == nil {
				fact.Explain(&s, "it is connected to nothing")
				return s, nil
			}
			s.Role = fact.Known("station", sourceMac)
			if m := macChannel.FindStringSubmatch(i.Current.Channel); m != nil {
				channel, _ := strconv.Atoi(m[1])
				wide, _ := strconv.Atoi(m[3])
				s.FrequencyMHz, s.WidthMHz = fact.Known(frequency(m[2], channel), sourceMac), fact.Known(wide, sourceMac)
			}
			if m := macSignal.FindStringSubmatch(i.Current.Signal); m != nil {
				dbm, _ := strconv.Atoi(m[1])
				s.SignalDBm = fact.Known(dbm, sourceMac)
			}
			if i.Current.Rate > 0 {
				s.Transmit = fact.Known(units.BitRate(i.Current.Rate*1e6), sourceMac)
			}
			return s, nil
		}
	}
	return s, fmt.Errorf("not a wireless interface: %w", errors.ErrUnsupported)
}

// frequency returns the centre of a channel in MHz (IEEE 802.11-2020 section 19.3.15 and
// annex E; as Linux net/wireless/util.c ieee80211_channel_to_freq_khz).
func frequency(band string, channel int) int {
	switch {
	case band == "2" && channel == 14:
		return 2484
	case band == "2":
		return 2407 + 5*channel
	case band == "6":
		return 5950 + 5*channel
	}
	return 5000 + 5*channel
}
