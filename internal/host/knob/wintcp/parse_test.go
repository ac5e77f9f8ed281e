package wintcp

import (
	"errors"
	"os"
	"slices"
	"testing"

	"linerate/internal/must"
)

// TestParseCapture reads part of a public capture of Get-NetTCPSetting on Windows 10
// (esnet/iperf issue 1069): the first template in full, and as much of the second as the
// capture shows.
func TestParseCapture(t *testing.T) {
	b := must.Get(os.ReadFile("testdata/windows-10/get-nettcpsetting.txt"))(t)
	blocks := must.Get(parseList(string(b)))(t)
	must.Need(t, len(blocks) == 2, "parseList = %d blocks", len(blocks))
	for name, want := range map[string]string{
		"SettingName": "InternetCustom", "MinRtoMs": "300", "InitialCongestionWindowMss": "10", "CongestionProvider": "CUBIC", "DelayedAckTimeoutMs": "40", "AutoTuningLevelLocal": "Normal",
	} {
		must.Equal(t, blocks[1][name], want, "%s", name)
	}
	v, ok := blocks[0]["Timestamps"]
	must.True(t, ok && v == "", "Timestamps of a template that has none = %q, %v", v, ok)
	s, _ := sourceOf("Timestamps")
	must.Is(t, must.Err(s.parse("SettingName : Automatic\nTimestamps :\n")), errors.ErrUnsupported, "an empty value")
	must.Fail(t, must.Err(s.parse(string(b))), "two templates were taken for one")
}

func TestParseKeyword(t *testing.T) {
	s, _ := sourceOf("*JumboPacket")
	a, err := s.parse("RegistryKeyword : *Other\r\n\r\nRegistryKeyword : *JumboPacket\r\nRegistryValue : {1514}\r\nValidRegistryValues : {1514, 4088,\r\n                      9014}\r\nNumericParameterMinValue :\r\n")
	must.True(t, err == nil && a.value == "1514" && slices.Equal(a.values, []string{"1514", "4088", "9014"}), "%+v, %v", a, err)
	must.Is(t, must.Err(s.parse("RegistryKeyword : *JumboPacket\nRegistryValue : {}\n")), errors.ErrUnsupported, "no value")
	up, _ := sourceOf("MediaConnectionState")
	a, err = up.parse("MediaConnectionState : Disconnected\n")
	must.True(t, a.value == "0" && err == nil, "%+v, %v", a, err)
}

func FuzzParseList(f *testing.F) {
	f.Add("SettingName : Internet\r\nMinRto(ms) : 300\r\n\r\n")
	f.Add("a : {1,\n   2}\n")
	f.Fuzz(func(_ *testing.T, output string) {
		for _, name := range []string{"Timestamps", "*JumboPacket", "NlMtuBytes"} {
			s, _ := sourceOf(name)
			_, _ = s.parse(output)
		}
	})
}
