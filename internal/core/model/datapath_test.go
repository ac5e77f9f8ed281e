package model

import (
	"testing"

	"linerate/internal/must"
)

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]Ports{
		"5300": {5300, 5300}, "5300-5310": {5300, 5310}, " 1 ": {1, 1}, "65535": {65535, 65535},
		"": {}, "0": {}, "65536": {}, "-1": {}, "5310-5300": {}, "5300-": {}, "a": {}, "5300-5310-5320": {}, "0-0": {}, "ssh": {},
	} {
		got, err := ParsePorts(text)
		must.True(t, got == want && (err == nil) == (want != Ports{}), "%q: %v, %v", text, got, err)
		if err != nil {
			continue
		}
		if back, err := ParsePorts(got.String()); back != got || err != nil {
			t.Errorf("%q read back: %v, %v", got, back, err)
		}
		must.True(t, got.Has(got.First) && !got.Has(got.First-1) && !got.Has(got.Last+1), "%v has the wrong ones", got)
	}
	must.True(t, (Ports{}).Has(40000) && (Ports{}).Valid(), "any port")
}

func TestDataPathWords(t *testing.T) {
	for want, p := range map[string]DataPath{
		"": {}, "through ssh": {Through: ThroughSSH},
		"the far end connects to the near one, data port 5300-5301": {ConnectFrom: Far, Ports: Ports{5300, 5301}},
	} {
		must.Equal(t, p.String(), want, "%+v", p)
	}
	must.Fail(t, must.Err(ParseConnectFrom("FAR")), "FAR is taken")
	must.Fail(t, must.Err(ParseThrough("vpn")), "vpn is taken")
}
