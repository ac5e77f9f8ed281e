package native

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/host/files"
)

// adapterClass is the registry key of network adapters; each has a numbered subkey.
const adapterClass = `HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Class\{4d36e972-e325-11ce-bfc1-08002be10318}\`

// regHeader is the first line of a regedit file since Windows 2000; the text is UTF-16,
// little endian, with a byte order mark.
const regHeader = "Windows Registry Editor Version 5.00"

// regValue is one value of the registry.
type regValue struct {
	entries []*entry
	key     string
	name    string
	data    string // as written in the file: "9014" with its quotes, dword:00000001
	before  string // the value before any change; "-" deletes; "" is unknown
}

// registry renders a file for regedit to import, and one that restores the previous values,
// if known.
func (r *rendering) registry() {
	var values []regValue
	for _, t := range r.texts(r.take(knob.WinReg)) {
		i := strings.LastIndexByte(t.name, '\\')
		before, known := r.in.Before[t.name]
		values = append(values, regValue{t.entries, regKey(t.name[:i]), t.name[i+1:], dword(t.raw), regBefore(before, known)})
	}
	var keywords []*entry
	for _, e := range r.take(knob.WinTCP) {
		switch {
		case !strings.HasPrefix(e.native.Name, "*"):
			r.omit(e, "%s is set by a cmdlet, not by a documented value of the registry: use windows-powershell", e.name)
		case r.in.AdapterKey == "":
			r.omit(e, "%s is a value below the adapter's own key: name its number, or use windows-powershell", e.name)
		default:
			keywords = append(keywords, e)
		}
	}
	for _, t := range r.texts(keywords) {
		v := regValue{entries: t.entries, key: adapterClass + r.in.AdapterKey, name: t.name, data: regString(t.raw)}
		if before, ok := r.in.Before[t.name]; ok {
			v.before = regString(before)
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return
	}
	r.regFile("linerate.reg", values, false)
	if slices.ContainsFunc(values, func(v regValue) bool { return v.before == "" }) {
		r.note("what the values were before is not known, so there is no file that goes back: save the keys first (reg export)")
	} else {
		r.regFile("linerate-undo.reg", values, true)
	}
	r.out.Commands = append(r.out.Commands, "reg import linerate.reg")
	r.note("the registry alone restarts no adapter: restart the computer, or the adapter (Restart-NetAdapter)")
}

// regFile renders the values, or with back the previous ones.
func (r *rendering) regFile(name string, values []regValue, back bool) {
	p := r.page(name)
	p.eol, p.encode = "\r\n", files.UTF16
	p.remark = func(s string) string { return "; " + s }
	p.line(regHeader)
	p.blank()
	p.comments(r.head()...)
	if back {
		p.comments("This one goes back to what was there before.")
	}
	key := ""
	for _, v := range values {
		if v.key != key {
			key = v.key
			p.blank()
			p.line("[%s]", key)
		}
		data := v.data
		if back {
			data = v.before
		}
		p.entry(v.entries...)
		p.line("%s=%s", regString(v.name), data)
	}
}

// regKey writes a root in full.
func regKey(s string) string {
	if rest, ok := strings.CutPrefix(s, `HKLM\`); ok {
		return `HKEY_LOCAL_MACHINE\` + rest
	}
	return s
}

// dword converts the native text dword:16 to the file's form: eight hexadecimal digits.
func dword(raw string) string {
	n, _ := strconv.ParseUint(strings.TrimPrefix(raw, "dword:"), 10, 32) // the catalogue's own encoding
	return fmt.Sprintf("dword:%08x", n)
}

func regBefore(raw string, known bool) string {
	switch {
	case !known:
		return ""
	case raw == "absent":
		return "-"
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(raw, "dword:"), 10, 32)
	if err != nil {
		return "" // of another type, or not from a registry
	}
	return fmt.Sprintf("dword:%08x", n)
}

func regString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// powershell renders a script; settings made by cmdlets are permanent.
func (r *rendering) powershell() {
	regs, cmdlets := r.texts(r.take(knob.WinReg)), r.texts(r.take(knob.WinTCP))
	if len(regs)+len(cmdlets) == 0 {
		return
	}
	p := r.page("linerate.ps1")
	p.eol = "\r\n"
	p.encode = func(s string) []byte { return append([]byte{0xef, 0xbb, 0xbf}, s...) } // Windows PowerShell 5.1 takes other files for ANSI
	p.line("#Requires -RunAsAdministrator")
	p.comments(r.head()...)
	p.line("$ErrorActionPreference = 'Stop'")
	for _, t := range regs {
		i := strings.LastIndexByte(t.name, '\\')
		p.blank()
		p.entry(t.entries...)
		p.line("Set-ItemProperty -Path %s -Name %s -Type DWord -Value %s", psQuote("Registry::"+regKey(t.name[:i])), psQuote(t.name[i+1:]), strings.TrimPrefix(t.raw, "dword:"))
	}
	restart := false
	for _, t := range framesFirst(cmdlets) {
		p.blank()
		p.entry(t.entries...)
		p.line("%s", r.cmdlet(t))
		restart = restart || strings.HasPrefix(t.name, "*")
	}
	if restart {
		r.note("setting a keyword restarts the adapter: a connection over it stalls for some seconds")
	}
	r.out.Commands = append(r.out.Commands, `powershell -ExecutionPolicy Bypass -File linerate.ps1`)
}

// framesFirst puts the driver's frame before the IP packet that needs it (W-01).
func framesFirst(all []text) []text {
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(all), func(t text) bool { return t.name != "*JumboPacket" }),
		slices.DeleteFunc(slices.Clone(all), func(t text) bool { return t.name == "*JumboPacket" }))
}

// cmdlet returns the command that sets t permanently. It always has a selector: a cmdlet
// without one changes every interface.
func (r *rendering) cmdlet(t text) string {
	link := psQuote(r.in.Interface)
	switch t.name {
	case "CongestionProvider":
		return "netsh.exe interface tcp set supplemental template=internet congestionprovider=" + strings.ToLower(t.raw)
	case "ReceiveSideScaling", "ReceiveSegmentCoalescing", "TaskOffload", "PacketCoalescingFilter":
		return "Set-NetOffloadGlobalSetting -" + t.name + " " + psQuote(t.raw)
	case "NlMtuBytes", "EcnMarking":
		return "Set-NetIPInterface -InterfaceAlias " + link + " -AddressFamily IPv4 -" + t.name + " " + psQuote(t.raw)
	}
	if strings.HasPrefix(t.name, "*") {
		return "Set-NetAdapterAdvancedProperty -Name " + link + " -RegistryKeyword " + psQuote(t.name) + " -RegistryValue " + psQuote(t.raw)
	}
	return "Set-NetTCPSetting -SettingName Internet -" + t.name + " " + psQuote(t.raw)
}

// psQuote returns a single-quoted PowerShell string; PowerShell also accepts typographic
// quotes (language specification, section 2.3.5.2).
func psQuote(s string) string {
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune("'\u2018\u2019\u201a\u201b", c) {
			b.WriteRune(c)
		}
		b.WriteRune(c)
	}
	return "'" + b.String() + "'"
}
