package radio

import (
	"encoding/binary"
	"errors"
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// sourceNT is the source of these values.
const sourceNT = "wlanapi"

var errConnection = errors.New("wlanapi: the answer is cut short or malformed")

// decodeConnection decodes the result of WlanQueryInterface for a connected interface,
// WLAN_CONNECTION_ATTRIBUTES of wlanapi.h: state and mode, a name of 256 UTF-16 units, and
// from 520 on WLAN_ASSOCIATION_ATTRIBUTES, in which a network name of 36 bytes, its type and
// an address of 6 bytes precede five numbers; the last three are the signal quality in
// percent, and the rates in kbit/s.
func (s *State) decodeConnection(b []byte) error {
	const quality, receive, transmit = 576, 580, 584
	if len(b) < transmit+4 {
		return errConnection
	}
	at := func(n int) uint32 { return binary.LittleEndian.Uint32(b[n:]) }
	const connected = 1 // wlan_interface_state_connected
	if at(0) != connected {
		fact.Explain(s, "it is connected to nothing")
		return nil
	}
	s.Role = fact.Known("station", sourceNT)
	// 0 % is -100 dBm, 100 % is -50 dBm or more (Microsoft's page on
	// WLAN_ASSOCIATION_ATTRIBUTES).
	s.SignalDBm = fact.If(at(quality) <= 100, int(at(quality)/2)-100, sourceNT+", to 2 dBm", fmt.Sprintf("a signal of %d %%", at(quality)))
	rate := func(n int) fact.Of[units.BitRate] {
		return fact.If(at(n) > 0, units.BitRate(at(n))*1e3, sourceNT, "Windows does not report it")
	}
	s.Receive, s.Transmit = rate(receive), rate(transmit)
	return nil
}
