package wintcp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// template is the TCP template whose parameters are set: that of connections for which no
// other is chosen.
const template = "Internet"

// source is how to read and write a setting.
type source struct {
	name  string
	group group
	fact  bool
	words []string // the valid ones, if the documentation lists them
	step  int64    // of numbers, if the documentation names one
}

// group is a cmdlet.
type group int

const (
	ofTCP        group = iota // Get-NetTCPSetting
	ofCongestion              // read as ofTCP, written by netsh
	ofOffload                 // Get-NetOffloadGlobalSetting
	ofIP                      // Get-NetIPInterface
	ofKeyword                 // Get-NetAdapterAdvancedProperty
	ofAdapter                 // Get-NetAdapter
	ofHardware                // Get-NetAdapterHardwareInfo
)

func (s source) ofAdapter() bool { return s.group >= ofIP }

// sourceOf returns the parameters of the cmdlets by name ([W Set-NetTCPSetting,
// Set-NetOffloadGlobalSetting, Set-NetIPInterface]). Every name with a star is a standard
// keyword of an adapter.
func sourceOf(name string) (source, bool) {
	onOff := []string{"Enabled", "Disabled"}
	switch name {
	case "AutoTuningLevelLocal":
		return source{name, ofTCP, false, []string{"Disabled", "HighlyRestricted", "Restricted", "Normal", "Experimental"}, 0}, true
	case "ScalingHeuristics", "EcnCapability", "Timestamps", "MemoryPressureProtection", "NonSackRttResiliency", "ForceWS":
		return source{name, ofTCP, false, onOff, 0}, true
	case "CwndRestart":
		return source{name, ofTCP, false, []string{"True", "False"}, 0}, true
	case "MinRtoMs", "InitialRtoMs", "DelayedAckTimeoutMs":
		return source{name, ofTCP, false, nil, 10}, true
	case "InitialCongestionWindowMss":
		return source{name, ofTCP, false, nil, 2}, true
	case "DelayedAckFrequency", "MaxSynRetransmissions":
		return source{name, ofTCP, false, nil, 1}, true
	case "CongestionProvider":
		return source{name, ofCongestion, false, nil, 0}, true
	case "ReceiveSideScaling", "ReceiveSegmentCoalescing", "TaskOffload", "PacketCoalescingFilter":
		return source{name, ofOffload, false, onOff, 0}, true
	case "NlMtuBytes":
		return source{name, ofIP, false, nil, 1}, true
	case "EcnMarking":
		return source{name, ofIP, false, []string{"Disabled", "UseEct0", "UseEct1", "AppDecide"}, 0}, true
	case "MediaConnectionState":
		return source{name, ofAdapter, true, nil, 0}, true
	case "NumaNode":
		return source{name, ofHardware, true, nil, 0}, true
	}
	keyword, ok := strings.CutPrefix(name, "*")
	return source{name: name, group: ofKeyword}, ok && keyword != "" && strings.Trim(keyword, wordBytes) == ""
}

// allows checks raw against the documented values.
func (s source) allows(raw string) error {
	if len(s.words) > 0 {
		if slices.Contains(s.words, raw) {
			return nil
		}
		return fmt.Errorf("%s %q: want %s", s.name, raw, strings.Join(s.words, ", "))
	}
	if s.step > 0 {
		if n, err := strconv.ParseUint(raw, 10, 32); err != nil || n%uint64(s.step) != 0 {
			return fmt.Errorf("%s %q: want a number in steps of %d", s.name, raw, s.step)
		}
	}
	return nil
}

// quote returns a text as a single-quoted PowerShell string.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// powershell returns the command that runs a script. It ends at the first error, prints it
// with its language-neutral id, and fails; it prints lists in full and does not break lines.
func powershell(script string) []string {
	const frame = "$ErrorActionPreference='Stop'; $FormatEnumerationLimit=-1; " +
		"try { %s } catch { [Console]::Error.WriteLine($_.FullyQualifiedErrorId + ' ' + $_.Exception.Message); exit 1 }"
	return []string{"powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", fmt.Sprintf(frame, script)}
}

// get returns the command that reads the setting.
func (s source) get(adapter string) []string {
	list := " | Format-List -Property * | Out-String -Width 4096"
	name := quote(adapter)
	switch s.group {
	case ofTCP, ofCongestion: // the default view: its labels are those of the documentation
		return powershell("Get-NetTCPSetting -SettingName " + template + " | Format-List | Out-String -Width 4096")
	case ofOffload:
		return powershell("Get-NetOffloadGlobalSetting | Format-List | Out-String -Width 4096")
	case ofIP:
		return powershell("Get-NetIPInterface -InterfaceAlias " + name + " -AddressFamily IPv4" + list)
	case ofAdapter:
		return powershell("Get-NetAdapter -Name " + name + list)
	case ofHardware:
		return powershell("Get-NetAdapterHardwareInfo -Name " + name + list)
	default: // all keywords at once: starting a command costs more than reading them
		return powershell("Get-NetAdapterAdvancedProperty -Name " + name + " -AllProperties" + list)
	}
}

// set returns the command that writes the setting. It always has a selector: a cmdlet without
// one changes every interface.
func (s source) set(adapter, value string) []string {
	name := quote(adapter)
	switch s.group {
	case ofTCP:
		return powershell("Set-NetTCPSetting -SettingName " + template + " -" + s.name + " " + value)
	case ofCongestion:
		return []string{"netsh.exe", "interface", "tcp", "set", "supplemental", "template=" + strings.ToLower(template), "congestionprovider=" + strings.ToLower(value)}
	case ofOffload:
		return powershell("Set-NetOffloadGlobalSetting -" + s.name + " " + value)
	case ofIP:
		return powershell("Set-NetIPInterface -InterfaceAlias " + name + " -AddressFamily IPv4 -" + s.name + " " + value + " -PolicyStore ActiveStore")
	default:
		return powershell("Set-NetAdapterAdvancedProperty -Name " + name + " -RegistryKeyword " + quote(s.name) + " -RegistryValue " + value)
	}
}
