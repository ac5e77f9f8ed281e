package native_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/persist/native"
	"linerate/internal/must"
)

// settings reads KNOB=VALUE words.
func settings(words ...string) []model.Assignment {
	var all []model.Assignment
	for _, w := range words {
		id, v, _ := strings.Cut(w, "=")
		all = append(all, model.Assignment{Knob: model.KnobID(id), Value: v})
	}
	return all
}

// sample is a profile with settings for every mechanism of every system.
func sample() native.Input {
	return native.Input{
		Settings: settings(
			"tcp.recv_buffer_max=16777216", "tcp.recv_buffer_initial=262144", "tcp.send_buffer_max=16777216", "socket.buffer_max=33554432",
			"socket.recv_buffer_max=4194304", "tcp.congestion_control=bbr", "tcp.window_scaling=1", "tcp.mtu_probing=1", "tcp.ecn=1", "qdisc.default=fq",
			"mbuf.clusters=30720", "netisr.threads=-1", "link.mtu=9000", "link.frame_mtu=9000", "txqueuelen=2000", "nic.media.speed=100", "nic.media.duplex=full",
			"nic.pause.rx=1", "nic.pause.tx=0", "nic.ring.rx=4096", "nic.coalesce.rx_usecs=50", "nic.coalesce.adaptive_rx=0", "nic.offload.tso=1",
			"nic.offload.lro=0", "nic.wol=magic", "polling=1", "nic.irq_affinity=0-3;8", "route.initcwnd=20", "tcp.pmtud=1", "nic.offload.rsc=1"),
		Comments: []string{"title: two hosts", "session 20261121T130000-abcd, setting tall"},
		Before: map[string]string{
			"net.ipv4.tcp_rmem": "4096 131072 33554432", `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\EnablePMTUDiscovery`: "absent",
			`HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\EnablePMTUBHDetect`: "dword:0", "*JumboPacket": "1514", "*ReceiveBuffers": "512",
			"*SpeedDuplex": "0", "*FlowControl": "3", "*LsoV2IPv4": "1", "*RscIPv4": "1",
		},
		Interface: "eth0", MAC: "02:00:00:00:00:01", AdapterKey: "0007",
	}
}

// print formats an Output as a golden file: what a user would see.
func print(out native.Output) string {
	var b strings.Builder
	for _, f := range out.Files {
		fmt.Fprintf(&b, "==> %s %04o block=%v\n%s", f.Path, f.Mode, f.Block, decode(f))
	}
	for _, c := range out.Commands {
		fmt.Fprintf(&b, "command: %s\n", c)
	}
	for _, o := range out.Omitted {
		fmt.Fprintf(&b, "omitted: %s=%s: %s\n", o.Knob, o.Value, o.Reason)
	}
	for _, n := range out.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, f := range model.FileFormats() {
		t.Run(string(f), func(t *testing.T) {
			out := must.Get(native.Render(f, sample()))(t)
			must.Golden(t, filepath.Join("testdata", string(f)+".golden"), print(out))
			checkNothingDropped(t, f, out)
		})
	}
}

// checkNothingDropped demands that every setting is in a file, in a command, or omitted with
// a reason that the first file repeats.
func checkNothingDropped(t *testing.T, f model.FileFormat, out native.Output) {
	t.Helper()
	all := ""
	for _, file := range out.Files {
		all += decode(file)
	}
	for _, a := range sample().Settings {
		i := slices.IndexFunc(out.Omitted, func(o model.Omission) bool { return o.Knob == a.Knob })
		mark := string(a.Knob) + ": "
		switch {
		case i >= 0 && (out.Omitted[i].Reason == "" || !strings.Contains(all, "left out: "+string(a.Knob)+" "+a.Value)):
			t.Errorf("%s: the omission of %s has no reason, or no comment", f, a.Knob)
		case i < 0 && !strings.Contains(all, mark) && !slices.ContainsFunc(out.Commands, func(c string) bool {
			return strings.Contains(c, a.Value) || a.Knob == "nic.media.speed" || a.Knob == "nic.media.duplex" || a.Knob == "nic.pause.rx" || a.Knob == "nic.wol"
		}):
			t.Errorf("%s: %s is dropped without a word", f, a.Knob)
		}
	}
}

func TestFirstFileIsMarked(t *testing.T) {
	for _, f := range model.FileFormats() {
		out := must.Get(native.Render(f, sample()))(t)
		for _, file := range out.Files {
			must.Contain(t, decode(file), "Written by linerate", "%s: %s does not say who wrote it", f, file.Path)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		f    model.FileFormat
		in   native.Input
		is   error
		want string
	}{
		{"unknown knob", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.sakc=1")}, nil, "tcp.sack"},
		{"flow knob", model.FormatLinuxSysctl, native.Input{Settings: settings("window=65536")}, native.ErrInput, "test traffic"},
		{"twice", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.sack=1", "tcp.sack=0")}, native.ErrInput, "given twice"},
		{"not canonical", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.sack=on")}, native.ErrInput, `want "1"`},
		{"out of range", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.recv_buffer_max=1")}, nil, "a size from"},
		{"system's own range", model.FormatMacOS, native.Input{Settings: settings("socket.buffer_max=2304")}, nil, "18433 to 2147483647 on darwin"},
		{"type", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.ecn=9")}, nil, "value"},
		{"newline in a name", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.congestion_control=a\nb")}, nil, "letters"},
		{"option", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.congestion_control=-r")}, native.ErrInput, "option of a command"},
		{"C-02", model.FormatFreeBSD, native.Input{Settings: settings("socket.buffer_max=1048576", "tcp.recv_buffer_initial=1048576")}, knob.ErrConstraint, "C-02"},
		{"C-05", model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.recv_buffer_max=65536", "tcp.recv_buffer_initial=131072")}, knob.ErrConstraint, "C-05"},
		{"media", model.FormatSystemdNetworkd, native.Input{Interface: "e0", Settings: settings("nic.media.autoneg=1", "nic.media.speed=100")}, native.ErrInput, "contradicts"},
		{"levels", model.FormatWindowsPowerShell, native.Input{Settings: settings("tcp.autotune_level=Disabled", "tcp.recv_buffer_max=16000000")}, native.ErrInput, "contradicts"},
		{"interface", model.FormatIfupdown, native.Input{Interface: "eth0;reboot", Settings: settings("link.mtu=9000")}, native.ErrInput, "no name of an interface"},
		{"interface option", model.FormatIfupdown, native.Input{Interface: "-x", Settings: settings("link.mtu=9000")}, native.ErrInput, "no name of an interface"},
		{"path", model.FormatSystemdNetworkd, native.Input{Interface: "../../x", Settings: settings("link.mtu=9000")}, native.ErrInput, "no name of an interface"},
		{"adapter", model.FormatWindowsPowerShell, native.Input{Interface: "a\nb", Settings: settings("link.mtu=9000")}, native.ErrInput, "no name of an adapter"},
		{"mac", model.FormatNetplan, native.Input{Interface: "e0", MAC: "x", Settings: settings("link.mtu=9000")}, native.ErrInput, "address"},
		{"adapter key", model.FormatWindowsReg, native.Input{Interface: "e0", AdapterKey: `7]`, Settings: settings("link.frame_mtu=9000")}, native.ErrInput, "four digits"},
		{"before", model.FormatFreeBSD, native.Input{Before: map[string]string{"media": "a\nb"}, Settings: settings("tcp.sack=1")}, native.ErrInput, "one line"},
		{"system", model.FormatAnsible, native.Input{System: "plan9", Settings: settings("tcp.sack=1")}, native.ErrInput, "plan9"},
		{"windows by ansible", model.FormatAnsible, native.Input{System: "windows", Settings: settings("tcp.ecn=1")}, native.ErrInput, "windows-powershell"},
		{"format", "cpm", native.Input{Settings: settings("tcp.sack=1")}, native.ErrInput, "cpm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := native.Render(c.f, c.in)
			must.True(t, err != nil && strings.Contains(err.Error(), c.want) && (c.is == nil || errors.Is(err, c.is)),
				"got %v, want one with %q that is %v", err, c.want, c.is)
			must.Len(t, out.Files, 0, "files in spite of the error")
		})
	}
}

// TestAnyway: Anyway writes settings that conflict, with a warning.
func TestAnyway(t *testing.T) {
	in := native.Input{Anyway: true, Settings: settings("socket.buffer_max=4000000", "tcp.recv_buffer_max=16777216")}
	out, err := native.Render(model.FormatFreeBSD, in)
	must.True(t, err == nil && len(out.Files) == 1 && strings.Contains(decode(out.Files[0]), "note: tcp.recv_buffer_max 16777216 is above 8/9"), "%v\n%s", err, print(out))
}

// TestHostileBefore: texts of an untrusted profile do not reach a shell.
func TestHostileBefore(t *testing.T) {
	out, err := native.Render(model.FormatFreeBSD, native.Input{
		Interface: "em0", Settings: settings("nic.media.duplex=full", "nic.pause.rx=1"), Before: map[string]string{"media": "x$(reboot);reboot"},
	})
	must.True(t, err == nil && len(out.Omitted) == 2 && len(out.Files) == 0, "%v\n%s", err, print(out))
	out, err = native.Render(model.FormatLinuxSysctl, native.Input{Settings: settings("tcp.mem_limit=4096"), Before: map[string]string{"net.ipv4.tcp_mem": "1 2 x"}})
	must.True(t, err == nil && len(out.Omitted) == 1, "%v\n%s", err, print(out))
}

// TestSharedTexts: the parts of a shared text without a setting come from the text before or
// from a default that is the same on every machine; otherwise the setting is omitted.
func TestSharedTexts(t *testing.T) {
	for _, c := range []struct {
		name, want, omitted string
		set                 []model.Assignment
		before              map[string]string
	}{
		{"default", "net.ipv4.tcp_rmem = 4096 131072 8388608\n", "", settings("tcp.recv_buffer_max=8388608"), nil},
		{"before", "net.ipv4.tcp_rmem = 8192 262144 8388608\n", "", settings("tcp.recv_buffer_max=8388608"), map[string]string{"net.ipv4.tcp_rmem": "8192 262144 33554432"}},
		{"all three", "net.ipv4.tcp_rmem = 8192 16384 32768\n", "", settings("tcp.recv_buffer_min=8192", "tcp.recv_buffer_initial=16384", "tcp.recv_buffer_max=32768"), nil},
		{"in another order", "net.ipv4.tcp_rmem = 4096 262144 524288\n", "", settings("tcp.recv_buffer_initial=262144", "tcp.recv_buffer_max=524288"), map[string]string{"net.ipv4.tcp_rmem": "4096 16384 65536"}},
		{"ceiling unknown", "", "whose other parts are not known", settings("tcp.recv_buffer_initial=16384"), nil},
		{"memory", "", "whose other parts are not known", settings("tcp.mem_limit=100000"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := must.Get(native.Render(model.FormatLinuxSysctl, native.Input{Settings: c.set, Before: c.before}))(t)
			must.True(t, c.want == "" || len(out.Files) == 1 && strings.Contains(string(out.Files[0].Content), c.want), "want %s\n%s", c.want, print(out))
			must.True(t, c.omitted == "" || len(out.Omitted) == 1 && strings.Contains(out.Omitted[0].Reason, c.omitted), "want %s\n%s", c.omitted, print(out))
		})
	}
}

// decode returns the text of a file.
func decode(f files.File) string {
	b := f.Content
	if bytes.HasPrefix(b, []byte{0xff, 0xfe}) {
		units := make([]uint16, 0, len(b)/2)
		for i := 2; i+1 < len(b); i += 2 {
			units = append(units, uint16(b[i])|uint16(b[i+1])<<8)
		}
		return string(utf16.Decode(units))
	}
	return string(bytes.TrimPrefix(b, []byte{0xef, 0xbb, 0xbf}))
}

// acts returns the parts of a file that a system acts on: the text without comments, as a
// reader of that format parses it.
func acts(f files.File) (string, error) {
	text := decode(f)
	switch {
	case strings.HasSuffix(f.Path, ".plist"):
		return plist(text)
	case strings.HasSuffix(f.Path, ".reg"):
		values, err := readReg(f.Content)
		return fmt.Sprint(values), err
	case strings.HasSuffix(f.Path, ".yaml"), strings.HasSuffix(f.Path, ".yml"):
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return "", err
		}
		return stripped(fmt.Sprintf("%v", v)), nil // Ansible's texts are themselves files with comments
	}
	return stripped(text), nil
}

// stripped removes the comment lines of shells, unit files and configuration files.
func stripped(text string) string {
	var kept []string
	for l := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(strings.TrimLeft(l, " \t"), "#") && strings.TrimSpace(l) != "" {
			kept = append(kept, strings.TrimRight(l, "\r"))
		}
	}
	return strings.Join(kept, "\n")
}

// plist returns all elements and texts of an XML file.
func plist(text string) (string, error) {
	var b strings.Builder
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		} else if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case xml.StartElement:
			b.WriteString("<" + t.Name.Local + ">")
		case xml.CharData:
			b.WriteString(strings.TrimSpace(string(t)))
		}
	}
}

// readReg parses a regedit file strictly: every line is empty, a comment, a key or a value.
func readReg(content []byte) (map[string]string, error) {
	if !bytes.HasPrefix(content, []byte{0xff, 0xfe}) || len(content)%2 != 0 {
		return nil, errors.New("not UTF-16 with its mark")
	}
	lines := strings.Split(decode(files.File{Content: content}), "\r\n")
	if lines[0] != "Windows Registry Editor Version 5.00" || lines[1] != "" || lines[len(lines)-1] != "" {
		return nil, fmt.Errorf("begins or ends wrong: %q", lines)
	}
	value := regexp.MustCompile(`^"((?:[^"\\]|\\.)*)"=(-|dword:[0-9a-f]{8}|"(?:[^"\\]|\\.)*")$`)
	values := map[string]string{}
	key := ""
	for _, l := range lines[2:] {
		m := value.FindStringSubmatch(l)
		switch {
		case l == "", strings.HasPrefix(l, ";"):
		case strings.HasPrefix(l, "[HKEY_LOCAL_MACHINE\\") && strings.HasSuffix(l, "]"):
			key = strings.Trim(l, "[]")
		case m != nil && key != "":
			values[key+`\`+m[1]] = m[2]
		default:
			return nil, fmt.Errorf("not a line of a registry file: %q", l)
		}
	}
	return values, nil
}

func TestRegRoundTrip(t *testing.T) {
	out, err := native.Render(model.FormatWindowsReg, sample())
	must.Need(t, err == nil && len(out.Files) == 2, "%v\n%s", err, print(out))
	adapter := `HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Class\{4d36e972-e325-11ce-bfc1-08002be10318}\0007\`
	tcpip := `HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\`
	for i, want := range []map[string]string{
		{adapter + "*JumboPacket": `"9014"`, adapter + "*SpeedDuplex": `"4"`, adapter + "*FlowControl": `"2"`, tcpip + "EnablePMTUDiscovery": "dword:00000001", tcpip + "EnablePMTUBHDetect": "dword:00000001"},
		{adapter + "*JumboPacket": `"1514"`, adapter + "*SpeedDuplex": `"0"`, adapter + "*FlowControl": `"3"`, tcpip + "EnablePMTUDiscovery": "-", tcpip + "EnablePMTUBHDetect": "dword:00000000"},
	} {
		got := must.Get(readReg(out.Files[i].Content))(t)
		for name, data := range want {
			must.True(t, got[name] == data, "%s: %s is %s, want %s", out.Files[i].Path, name, got[name], data)
		}
	}
}

// TestHostileComments: no comment text, from a user or another program, changes what a system
// does with a file or breaks its format.
func TestHostileComments(t *testing.T) {
	seeds := []string{
		"x\nnet.ipv4.ip_forward = 1", "x\r\n[HKEY_LOCAL_MACHINE\\SYSTEM]\r\n\"a\"=\"b\"", "--> <string>/bin/sh</string> <!--", "{{ lookup('pipe', 'reboot') }}", "{% raw %}",
		"`reboot` $(reboot) ${x}", "\"; reboot; \"", "x\\", "#>\nreboot\n<#", "# END linerate", "\u2028reboot", "\u0085reboot", "]]>", "%n%s", "-->-", "--", "{{{", "\x00\x1b]0;x\a", "\xff\xfe", "'@\nreboot",
		"- name: x", "!unsafe", "\ufeff", "# SIG # Begin signature block",
	}
	want := map[model.FileFormat][]string{}
	for _, f := range model.FileFormats() {
		in := sample()
		in.Comments = nil
		want[f] = acted(t, f, in)
	}
	text := rapid.OneOf(rapid.SampledFrom(seeds), rapid.String(), rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(append(seeds, "{", "%", "#", "-", ">", "\\", "\n", "\"", "'")), 0, 6).Draw(t, "parts"), "")
	}))
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(model.FileFormats()).Draw(t, "format")
		in := sample()
		in.Comments = rapid.SliceOfN(text, 1, 4).Draw(t, "comments")
		if got := acted(t, f, in); strings.Join(got, "\x00") != strings.Join(want[f], "\x00") {
			t.Fatalf("%s: comments change what the files do:\n%s\nwant\n%s", f, strings.Join(got, "\n"), strings.Join(want[f], "\n"))
		}
	})
}

// acted renders in and returns the parts that a system acts on, file by file.
func acted(t interface {
	must.TB
	Fatalf(string, ...any)
}, f model.FileFormat, in native.Input) []string {
	t.Helper()
	out, err := native.Render(f, in)
	must.Dof(t, err, "%s", f)
	all := append([]string{}, out.Commands...)
	for _, file := range out.Files {
		text := decode(file)
		for _, bad := range []string{"{{", "{%", "{#"} {
			must.Need(t, !strings.Contains(text, bad), "%s: %s has %s, which a template engine acts on", f, file.Path, bad)
		}
		for l := range strings.SplitSeq(text, "\n") {
			l = strings.TrimSuffix(l, "\r")
			must.Need(t, !strings.HasSuffix(l, `\`) && !strings.ContainsAny(l, "\r\x00\x1b\u0085\u2028\u2029\ufeff"), "%s: %s has a line %q", f, file.Path, l)
		}
		n := strings.Count(text, "\n"+files.BlockEnd)
		must.Need(t, !file.Block || n == 1, "%s: %s has %d ends of its block", f, file.Path, n)
		s, err := acts(file)
		must.Need(t, err == nil, "%s: %s cannot be read: %v\n%s", f, file.Path, err, text)
		all = append(all, file.Path+"\n"+s)
	}
	return all
}
