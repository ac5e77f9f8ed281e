package wintcp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/wintcp"
	"linerate/internal/must"
)

// machine is a Windows in memory. It accepts only the commands that linerate builds, and
// prints like the cmdlets: the labels of Get-NetTCPSetting are from a public capture on
// Windows 10 (esnet/iperf issue 1069); those of the other cmdlets are the properties of their
// classes in Microsoft's documentation.
type machine struct {
	adapters map[string]map[string]string // keywords of each adapter, NlMtu and EcnMarking
	tcp      map[string]string
	offload  map[string]string
	fail     string   // output of every change, if set
	commands []string // the commands run
}

func newMachine() *machine {
	return &machine{
		adapters: map[string]map[string]string{"Ethernet 2": {
			"*JumboPacket": "1514", "*SpeedDuplex": "0", "*ReceiveBuffers": "512", "*FlowControl": "3", "*LsoV2IPv4": "1", "NlMtu": "1500", "EcnMarking": "AppDecide",
		}},
		tcp: map[string]string{
			"MinRto(ms)": "300", "InitialCongestionWindow(MSS)": "10", "CongestionProvider": "CUBIC", "CwndRestart": "False", "DelayedAckTimeout(ms)": "40",
			"DelayedAckFrequency": "2", "MemoryPressureProtection": "Disabled", "AutoTuningLevelLocal": "Normal", "AutoTuningLevelEffective": "Local",
			"EcnCapability": "Disabled", "Timestamps": "Disabled", "InitialRto(ms)": "1000", "ScalingHeuristics": "Disabled",
			"NonSackRttResiliency": "Disabled", "ForceWS": "Enabled", "MaxSynRetransmissions": "4",
		},
		offload: map[string]string{
			"ReceiveSideScaling": "Enabled", "ReceiveSegmentCoalescing": "Enabled", "Chimney": "Disabled", "TaskOffload": "Enabled", "PacketCoalescingFilter": "Enabled",
		},
	}
}

func label(parameter string) string {
	return map[string]string{
		"MinRtoMs": "MinRto(ms)", "InitialRtoMs": "InitialRto(ms)", "DelayedAckTimeoutMs": "DelayedAckTimeout(ms)", "InitialCongestionWindowMss": "InitialCongestionWindow(MSS)", "NlMtuBytes": "NlMtu",
	}[parameter]
}

func printed(m map[string]string) string {
	var b strings.Builder
	b.WriteString("\r\n\r\n")
	for name, value := range m {
		fmt.Fprintf(&b, "%-32s: %s\r\n", name, value)
	}
	b.WriteString("\r\n")
	return b.String()
}

// forms returns the known commands with their effects.
func (m *machine) forms() map[string]func(a []string) (string, error) {
	none := errors.New("CmdletizationQuery_NotFound_Name,Get-NetAdapterAdvancedProperty No matching object")
	return map[string]func(a []string) (string, error){
		`Get-NetTCPSetting -SettingName Internet \| Format-List \| Out-String -Width 4096`: func([]string) (string, error) {
			if m.tcp == nil {
				return "", none
			}
			return printed(m.tcp), nil
		},
		`Set-NetTCPSetting -SettingName Internet -(\w+) (\w+)`: func(a []string) (string, error) {
			name := a[1]
			if l := label(name); l != "" {
				name = l
			}
			m.tcp[name] = a[2]
			return "", nil
		},
		`Get-NetOffloadGlobalSetting \| Format-List \| Out-String -Width 4096`: func([]string) (string, error) { return printed(m.offload), nil },
		`Set-NetOffloadGlobalSetting -(\w+) (\w+)`: func(a []string) (string, error) {
			m.offload[a[1]] = a[2]
			return "", nil
		},
		`Get-NetIPInterface -InterfaceAlias '(.+)' -AddressFamily IPv4 \| Format-List -Property \* \| Out-String -Width 4096`: func(a []string) (string, error) {
			k, ok := m.adapters[a[1]]
			if !ok {
				return "", none
			}
			return printed(map[string]string{"NlMtu": k["NlMtu"], "EcnMarking": k["EcnMarking"], "InterfaceAlias": a[1]}), nil
		},
		`Set-NetIPInterface -InterfaceAlias '(.+)' -AddressFamily IPv4 -(\w+) (\w+) -PolicyStore ActiveStore`: func(a []string) (string, error) {
			name := a[2]
			if l := label(name); l != "" {
				name = l
			}
			m.adapters[a[1]][name] = a[3]
			return "", nil
		},
		`Get-NetAdapterAdvancedProperty -Name '(.+)' -AllProperties \| Format-List -Property \* \| Out-String -Width 4096`: func(a []string) (string, error) {
			if m.adapters[a[1]] == nil {
				return "", none
			}
			var all strings.Builder
			for keyword, value := range m.adapters[a[1]] {
				if !strings.HasPrefix(keyword, "*") {
					continue
				}
				all.WriteString(printed(map[string]string{"RegistryKeyword": keyword, "RegistryValue": "{" + value + "}", "ValidRegistryValues": valid(keyword),
					"NumericParameterMinValue": least(keyword), "NumericParameterMaxValue": most(keyword), "NumericParameterStepValue": step(keyword),
					"CimClass": "ROOT/StandardCimv2:MSFT_NetAdapterAdvancedPropertySettingData"}))
			}
			return all.String(), nil
		},
		`Set-NetAdapterAdvancedProperty -Name '(.+)' -RegistryKeyword '(.+)' -RegistryValue (\w+)`: func(a []string) (string, error) {
			m.adapters[a[1]][a[2]] = a[3]
			return "", nil
		},
		`netsh.exe interface tcp set supplemental template=internet congestionprovider=(\w+)`: func(a []string) (string, error) {
			m.tcp["CongestionProvider"] = strings.ToUpper(a[1])
			return "Ok.", nil
		},
	}
}

func valid(keyword string) string {
	return map[string]string{"*JumboPacket": "{1514, 4088, 9014}", "*SpeedDuplex": "{0, 1, 2, 3, 4, 6}", "*FlowControl": "{0, 1, 2, 3, 4}", "*LsoV2IPv4": "{0, 1}"}[keyword]
}

func least(keyword string) string { return map[string]string{"*ReceiveBuffers": "80"}[keyword] }
func most(keyword string) string  { return map[string]string{"*ReceiveBuffers": "2048"}[keyword] }
func step(keyword string) string  { return map[string]string{"*ReceiveBuffers": "8"}[keyword] }

var frame = regexp.MustCompile(`^powershell.exe -NoLogo -NoProfile -NonInteractive -Command \$ErrorActionPreference='Stop'; \$FormatEnumerationLimit=-1; try \{ (.*) \} catch \{ .* \}$`)

func (m *machine) run(ctx context.Context, argv []string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	line := strings.Join(argv, " ")
	if inner := frame.FindStringSubmatch(line); inner != nil {
		line = inner[1]
	}
	m.commands = append(m.commands, line)
	for form, do := range m.forms() {
		a := regexp.MustCompile("^" + form + "$").FindStringSubmatch(line)
		if a == nil {
			continue
		}
		if m.fail != "" && !strings.HasPrefix(line, "Get-") {
			return "", errors.New(m.fail)
		}
		return do(a)
	}
	return "", fmt.Errorf("CommandNotFoundException: no such command: %s", line)
}

func open(t *testing.T, m *machine, adapter, name string) *wintcp.Setting {
	t.Helper()
	return must.Get(wintcp.OpenWith(m.run, adapter, name))(t)
}

func TestConformance(t *testing.T) {
	m := newMachine()
	without := &machine{adapters: map[string]map[string]string{}}
	for name, c := range map[string]knobtest.Case{
		"AutoTuningLevelLocal":       {Other: "Restricted", Bad: []string{"", "Fast", "normal; calc"}},
		"Timestamps":                 {Other: "Enabled", Bad: []string{"1", "Maybe"}},
		"CwndRestart":                {Other: "True", Bad: []string{"Enabled"}},
		"MinRtoMs":                   {Other: "20", Bad: []string{"25", "x", "-10"}},
		"InitialCongestionWindowMss": {Other: "32", Bad: []string{"11"}},
		"CongestionProvider":         {Other: "newreno", Bad: []string{"", "a b", "x=y"}},
		"*JumboPacket":               {Other: "9014", Bad: []string{"9000", "", "x"}},
		"*ReceiveBuffers":            {Other: "1024", Bad: []string{"72", "2056", "81", "x"}},
		"*SpeedDuplex":               {Other: "6", Bad: []string{"5", "auto"}},
		"NlMtuBytes":                 {Other: "1400", Bad: []string{"", "big"}},
		"EcnMarking":                 {Other: "UseEct0", Bad: []string{"Enabled"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Backend, c.Absent = open(t, m, "Ethernet 2", name), open(t, without, "Wi-Fi", name)
			knobtest.Run(t, c)
		})
	}
	t.Run("ReceiveSideScaling", func(t *testing.T) {
		knobtest.Run(t, knobtest.Case{
			Backend: open(t, m, "", "ReceiveSideScaling"), Other: "Disabled", Bad: []string{"off"}, Absent: open(t, without, "Wi-Fi", "*RSS"),
		})
	})
}

// TestWindowsUndoIsIdentity goes through the catalogue's encodings: setting a value and
// undoing it leaves the machine as it was.
func TestWindowsUndoIsIdentity(t *testing.T) {
	values := map[string][]string{
		"link.frame_mtu": {"1500", "4074", "9000"}, "nic.media.speed": {"0", "10", "100"}, "nic.media.duplex": {"half", "full"}, "nic.pause.rx": {"0", "1"}, "nic.pause.tx": {"0", "1"},
		"nic.offload.tso": {"0", "1"}, "tcp.recv_buffer_max": {"65536", "1048576", "16776960"}, "tcp.timestamps": {"0", "1"}, "tcp.ecn": {"0", "1"}, "tcp.slow_start_after_idle": {"0", "1"},
		"nic.ring.rx": {"256", "1024"}, "link.mtu": {"1400", "1500"}, "tcp.congestion_control": {"cubic", "newreno"},
	}
	var ids []string
	for id := range values {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine()
		before := fmt.Sprint(m.adapters, m.tcp, m.offload)
		var undo []func() error
		for range rapid.IntRange(1, 6).Draw(rt, "changes") {
			id := rapid.SampledFrom(ids).Draw(rt, "knob")
			k, _ := knob.NewIndex().ByID(model.KnobID(id))
			b := open(t, m, "Ethernet 2", k.Native["windows"].Name)
			old := must.Get(b.Read(t.Context()))(rt)
			raw, err := k.Encode("windows", old, rapid.SampledFrom(values[id]).Draw(rt, "value"))
			if errors.Is(err, errors.ErrUnsupported) {
				continue // a duplex without a speed
			}
			must.Do(rt, err)
			must.Dof(rt, b.Write(t.Context(), raw), "%s=%s", id, raw)
			got, err := b.Read(t.Context())
			must.Need(rt, got == raw && err == nil, "%s: wrote %s, it holds %s, %v", id, raw, got, err)
			undo = append(undo, func() error { return b.Write(t.Context(), old) })
		}
		for _, u := range slices.Backward(undo) {
			must.Do(rt, u())
		}
		after := fmt.Sprint(m.adapters, m.tcp, m.offload)
		must.Need(rt, after == before, "was\n%s\nis\n%s", before, after)
	})
}

func TestErrorsByTheirIds(t *testing.T) {
	for text, want := range map[string]error{
		"Windows System Error 5,Set-NetTCPSetting Access is denied.":                                 fs.ErrPermission,
		"The requested operation requires elevation (Run as administrator).":                         fs.ErrPermission,
		"Windows System Error 87,Set-NetTCPSetting Property CongestionProvider is read-only":         errors.ErrUnsupported,
		"NamedParameterNotFound,Set-NetTCPSetting A parameter cannot be found":                       errors.ErrUnsupported,
		"CmdletizationQuery_NotFound_Name,Get-NetAdapterAdvancedProperty No MSFT_NetAdapter objects": fs.ErrNotExist,
	} {
		m := newMachine()
		m.fail = text
		must.Is(t, open(t, m, "", "Timestamps").Write(t.Context(), "Enabled"), want, "%q", text)
	}
	m := newMachine()
	m.fail = "something else"
	err := open(t, m, "", "Timestamps").Write(t.Context(), "Enabled")
	must.True(t, err != nil && !errors.Is(err, errors.ErrUnsupported), "another error = %v", err)
}

// TestPolicyWins: a setting under group policy is not written.
func TestPolicyWins(t *testing.T) {
	m := newMachine()
	m.tcp["AutoTuningLevelEffective"] = "GroupPolicy"
	err := open(t, m, "", "AutoTuningLevelLocal").Write(t.Context(), "Restricted")
	must.True(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), "group policy"), "Write = %v", err)
	must.Equal(t, m.tcp["AutoTuningLevelLocal"], "Normal", "it was written all the same")
}

// TestNamesAreQuoted: an adapter's name is quoted as data, whatever characters it has.
func TestNamesAreQuoted(t *testing.T) {
	m := newMachine()
	_, err := open(t, m, "x'; Remove-Item C:\\; '", "*JumboPacket").Read(t.Context())
	must.True(t, err != nil && strings.Contains(m.commands[0], "-Name 'x''; Remove-Item C:\\; '''"), "%v: %q", err, m.commands)
	must.Fail(t, must.Err(wintcp.OpenWith(m.run, "a\nb", "*JumboPacket")), "a name with a line feed was accepted")
	for _, name := range []string{"", "*", "*a b", "Nonsense"} {
		must.Is(t, must.Err(wintcp.OpenWith(m.run, "Ethernet", name)), errors.ErrUnsupported, "Open(%q)", name)
	}
}

// TestRemember: a few commands read many settings.
func TestRemember(t *testing.T) {
	m := newMachine()
	run := wintcp.Remember(m.run)
	for _, name := range []string{"Timestamps", "EcnCapability", "*JumboPacket", "*SpeedDuplex", "NlMtuBytes", "EcnMarking", "TaskOffload", "ReceiveSideScaling"} {
		v, err := must.Get(wintcp.OpenWith(run, "Ethernet 2", name))(t).Read(t.Context())
		must.True(t, v != "" && err == nil, "%s = %q, %v", name, v, err)
	}
	must.True(t, len(m.commands) == 4, "%d commands were started: %q", len(m.commands), m.commands)
	s, _ := wintcp.OpenWith(run, "Ethernet 2", "*RSS")
	must.Is(t, must.Err(s.Read(t.Context())), errors.ErrUnsupported, "a keyword that the driver has not")
}

// TestCatalogueUsesWhatIsThere: this mechanism can open every setting that the catalogue
// gives it.
func TestCatalogueUsesWhatIsThere(t *testing.T) {
	for _, k := range knob.Catalogue() {
		n, ok := k.Native["windows"]
		if !ok || n.Mechanism != knob.WinTCP {
			continue
		}
		must.OK(t, must.Err(wintcp.OpenWith(newMachine().run, "Ethernet", n.Name)), "%s", k.ID)
	}
}

// TestCommandThatHangs: an undo, which has no other timeout, waits half a minute for a
// hanging PowerShell or netsh, and can try again.
func TestCommandThatHangs(t *testing.T) {
	for _, name := range []string{"ScalingHeuristics", "CongestionProvider", "NlMtuBytes"} {
		synctest.Test(t, func(t *testing.T) {
			m, hangs := newMachine(), true
			s, err := wintcp.OpenWith(func(ctx context.Context, argv []string) (string, error) {
				if hangs {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return m.run(ctx, argv)
			}, "Ethernet 2", name)
			must.Do(t, err)
			ctx := context.WithoutCancel(t.Context())
			begin := time.Now()
			_, err = s.Read(ctx)
			took := time.Since(begin)
			must.True(t, err != nil && strings.Contains(err.Error(), "powershell.exe did not end within 30s") && took <= time.Minute, "%s: Read = %v after %s", name, err, took)
			must.Say(t, s.Write(ctx, "Disabled"), "did not end within", "%s: Write", name)
			hangs = false
			must.OK(t, must.Err(s.Read(ctx)), "%s: Read once it answers", name)
		})
	}
}
