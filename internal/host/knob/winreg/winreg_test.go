package winreg_test

import (
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/winreg"
	"linerate/internal/must"
)

const tcpip = `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`

func memory() winreg.Memory {
	return winreg.Memory{tcpip: {"EnablePMTUDiscovery": "dword:1", "Hostname": "sz:desk", "DataBasePath": `expand:%SystemRoot%\System32\drivers\etc`}}
}

func open(t *testing.T, m winreg.Memory, path string) *winreg.Value {
	t.Helper()
	return must.Get(m.Open(path))(t)
}

func TestConformance(t *testing.T) {
	m := memory()
	bad := []string{"", "1", "dword:x", "dword:-1", "dword:4294967296", "binary:00", "sz"}
	for name, c := range map[string]knobtest.Case{
		"EnablePMTUDiscovery": {Other: "dword:0", Bad: append(bad, "sz:1", "qword:1")},
		"EnablePMTUBHDetect":  {Other: "dword:1", Bad: bad}, // absent before
		"Hostname":            {Other: "sz:other", Bad: append(bad, "dword:1")},
		"DataBasePath":        {Other: `expand:C:\etc`, Bad: append(bad, "sz:x")},
	} {
		t.Run(name, func(t *testing.T) {
			c.Backend, c.Absent = open(t, m, `HKLM\`+tcpip+`\`+name), open(t, m, `HKLM\SYSTEM\Nothing\`+name)
			knobtest.Run(t, c)
		})
	}
	t.Run("removed", func(t *testing.T) {
		knobtest.Run(t, knobtest.Case{
			Backend: open(t, m, `HKLM\`+tcpip+`\Hostname`), Other: winreg.Absent, Bad: bad, Absent: open(t, m, `HKLM\SYSTEM\Nothing\Hostname`),
		})
	})
}

// TestAbsentComesBack: undo removes a value that was absent, and restores the type of one
// that was present.
func TestAbsentComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := winreg.Memory{tcpip: {}}
		before := map[string]string{}
		for _, name := range []string{"a", "b"} {
			if rapid.Bool().Draw(rt, "there") {
				before[name] = rapid.SampledFrom([]string{"dword:0", "dword:1", "sz:9014", "expand:%x%", "qword:5"}).Draw(rt, "value")
				m[tcpip][name] = before[name]
			}
		}
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			v := open(t, m, `HKLM\`+tcpip+`\`+rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name"))
			old := must.Get(v.Read(t.Context()))(rt)
			_ = v.Write(t.Context(), rapid.SampledFrom([]string{"dword:7", "sz:x", winreg.Absent}).Draw(rt, "new")) // another type is refused
			must.Do(rt, v.Write(t.Context(), old))
		}
		for _, name := range []string{"a", "b"} {
			must.Need(rt, m[tcpip][name] == before[name] && len(m[tcpip]) == len(before), "was %v, is %v", before, m[tcpip])
		}
	})
}

func TestPaths(t *testing.T) {
	for _, bad := range []string{"", "HKLM", `HKLM\x`, `HKLM\x\`, `HKCU\Software\x`, "HKLM\\a\\b\x00"} {
		must.Fail(t, must.Err(memory().Open(bad)), "Open(%q) succeeded", bad)
	}
}

// TestCatalogueUsesWhatIsThere: the catalogue's values are well-formed, and setting an absent
// one writes a DWORD.
func TestCatalogueUsesWhatIsThere(t *testing.T) {
	for _, k := range knob.Catalogue() {
		n, ok := k.Native["windows"]
		if !ok || n.Mechanism != knob.WinReg {
			continue
		}
		must.OK(t, must.Err(memory().Open(n.Name)), "%s", k.ID)
		must.Equal(t, must.Get(k.Encode("windows", winreg.Absent, "1"))(t), "dword:1", "%s: 1", k.ID)
		must.Equal(t, must.Get(k.Decode("windows", "dword:0"))(t), "0", "%s: dword:0", k.ID)
	}
}
