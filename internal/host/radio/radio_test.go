package radio

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
)

// recorded returns the answers in a testdata file, by command.
func recorded(t testing.TB, name string) map[string][][]byte {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", "linux-6.1", name+".hex")))(t)
	all := map[string][][]byte{}
	for l := range strings.Lines(string(text)) {
		if command, digits, ok := strings.Cut(strings.TrimSpace(l), " "); ok && command != "#" {
			all[command] = append(all[command], must.Get(hex.DecodeString(digits))(t))
		}
	}
	return all
}

// decode decodes all answers about a radio.
func decode(answers map[string][][]byte) (s State, err error) {
	for command, read := range map[string]func([]byte) error{"interface": s.decodeInterface, "power-save": s.decodePowerSave} {
		for _, b := range answers[command] {
			err = errors.Join(err, read(b))
		}
	}
	return s, errors.Join(err, s.decodeStations(answers["station"]), s.decodeSurvey(answers["survey"]))
}

// TestRecorded: linerate decodes recorded answers to what iw printed for them.
func TestRecorded(t *testing.T) {
	for name, want := range map[string]string{
		"station":      "station, sends at 1 Mbit/s, receives at 11 Mbit/s, expects to carry 46.31 Mbit/s, -30 dBm, 2437 MHz, 20 MHz wide",
		"access-point": "access point, sends at 11 Mbit/s, receives at 1 Mbit/s, expects to carry 6.468 Mbit/s, -30 dBm, 2437 MHz, 20 MHz wide",
	} {
		s := must.Get(decode(recorded(t, name)))(t)
		must.Equal(t, s.String(), want)
		counted := map[string][3]uint32{"station": {284, 0, 0}, "access-point": {208, 0, 1}}[name]
		must.Equal(t, [3]uint32{s.Sent.Or(9), s.Retries.Or(9), s.Failed.Or(9)}, counted, name)
		must.True(t, s.PowerSave.IsKnown() && !s.Channel.IsKnown(), "%s: power save %v, channel %v, of which none was in use", name, s.PowerSave, s.Channel)
	}
}

// attribute encodes a netlink attribute.
func attribute(kind uint16, value ...byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// TestDecode covers values that the recorded radios do not have.
func TestDecode(t *testing.T) {
	number := func(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }
	survey := func(first []byte, busy uint64) []byte {
		return attribute(attrSurvey, append(append(append(first, attribute(surveyTime, number(1000)...)...), attribute(surveyBusy, number(busy)...)...), attribute(surveyTransmit, number(7)...)...)...)
	}
	var s State
	must.Do(t, s.decodeSurvey([][]byte{survey(nil, 900), survey(attribute(surveyInUse), 250), survey(nil, 100)}))
	must.True(t, s.Busy.Or(0) == 250 && s.Channel.Or(0) == 1000 && s.Transmitting.Or(0) == 7 && !s.OwnNetwork.IsKnown(), "the channel in use: %+v", s.Counts)

	rate := attribute(stationTransmit, append(attribute(rate16, 0xe8, 0x03), attribute(rate32, 0x00, 0x00, 0x01, 0x00)...)...)
	must.Do(t, s.decodeStations([][]byte{attribute(attrStation, append(attribute(stationSignal, 0xc4), rate...)...)}))
	must.True(t, s.SignalDBm.Or(0) == -60 && s.Transmit.Or(0) == 6553.6e6, "a rate that needs 32 bits, and a signal without an average: %s", s.Radio)
	for n, why := range map[int]string{0: "connected to nothing", 2: "2 stations"} {
		must.Do(t, s.decodeStations(make([][]byte, n)))
		must.Contain(t, s.Transmit.Reason(), why)
	}
	must.Do(t, s.decodeInterface(nil))
	must.Contain(t, s.FrequencyMHz.Reason(), "no channel")
	must.Do(t, s.decodePowerSave(attribute(attrPowerSave, 1, 0, 0, 0)))
	must.True(t, s.PowerSave.Or(false), "power save")
	must.Is(t, s.decodePowerSave(attribute(attrPowerSave, 1)), errMessage)
}

// connection encodes a radio as Windows reports it.
func connection(state, quality, receive, transmit uint32) []byte {
	b := make([]byte, 604)
	for at, n := range map[int]uint32{0: state, 576: quality, 580: receive, 584: transmit} {
		binary.LittleEndian.PutUint32(b[at:], n)
	}
	return b
}

func TestConnection(t *testing.T) {
	for want, b := range map[string][]byte{
		"station, sends at 866.7 Mbit/s, receives at 780 Mbit/s, -60 dBm": connection(1, 80, 780000, 866700),
		"station, sends at 1 Mbit/s":                                      connection(1, 101, 0, 1000),
		"":                                                                connection(4, 80, 1, 1),
	} {
		var s State
		must.Do(t, s.decodeConnection(b))
		must.Equal(t, s.String(), want)
	}
	var s State
	must.Is(t, s.decodeConnection(make([]byte, 587)), errConnection)
}

func TestAirport(t *testing.T) {
	const head, tail = `{"SPAirPortDataType":[{"spairport_airport_interfaces":[{"_name":"en0"`, `},{"_name":"awdl0"}]}]}`
	for want, text := range map[string]string{
		"station, sends at 866 Mbit/s, -46 dBm, 5180 MHz, 80 MHz wide":    `,"spairport_current_network_information":{"_name":"<redacted>","spairport_network_channel":"36 (5GHz, 80MHz)","spairport_network_rate":866,"spairport_signal_noise":"-46 dBm / -96 dBm"}`,
		"station, sends at 2.401 Gbit/s, -50 dBm, 6135 MHz, 160 MHz wide": `,"spairport_current_network_information":{"spairport_network_channel":"37 (6GHz, 160MHz)","spairport_network_rate":2401,"spairport_signal_noise":"-50 dBm / -96 dBm"}`,
		"station, 2412 MHz, 20 MHz wide":                                  `,"spairport_current_network_information":{"spairport_network_channel":"1 (2GHz, 20MHz)"}`,
		"station":                                                         `,"spairport_current_network_information":{"spairport_network_channel":"odd"}`,
		"":                                                                "",
	} {
		must.Equal(t, must.Get(parseAirport([]byte(head+text+tail), "en0"))(t).String(), want)
	}
	must.Is(t, must.Err(parseAirport([]byte(head+tail), "en7")), errors.ErrUnsupported)
	must.True(t, must.Err(parseAirport([]byte("{"), "en0")) != nil && frequency("2", 14) == 2484, "half a document, channel 14")
}

// FuzzAnswers: no answer makes a decoder panic, and rates stay positive.
func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"station", "access-point"} {
		for _, answers := range recorded(f, name) {
			f.Add(answers[0])
		}
	}
	f.Add(connection(1, 80, 780000, 866700))
	f.Add([]byte(`{"SPAirPortDataType":[{"spairport_airport_interfaces":[{"_name":"en0","spairport_current_network_information":{"spairport_network_rate":1}}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _ := decode(map[string][][]byte{"interface": {b}, "station": {b}, "survey": {b, b}, "power-save": {b}})
		mac, _ := parseAirport(b, "en0")
		var nt State
		_ = nt.decodeConnection(b)
		for _, s := range []State{s, mac, nt} {
			must.True(t, s.Transmit.Or(1) > 0 && s.Receive.Or(1) > 0, "%s", s)
		}
	})
}
