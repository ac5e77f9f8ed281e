package native_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/persist/native"
	"linerate/internal/must"
)

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

// acts returns what a system would act on in a file: the text without comments,
// as a reader of that format sees it.
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
		return stripped(fmt.Sprintf("%v", v)), nil // Ansible's texts are files with comments themselves
	}
	return stripped(text), nil
}

// stripped is text without the lines that are comments in shells, unit files
// and configuration files.
func stripped(text string) string {
	var kept []string
	for l := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(strings.TrimLeft(l, " \t"), "#") && strings.TrimSpace(l) != "" {
			kept = append(kept, strings.TrimRight(l, "\r"))
		}
	}
	return strings.Join(kept, "\n")
}

// plist reads all the elements and texts of an XML file.
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

// readReg reads a file of regedit, strictly: every line is empty, a comment, a
// key or a value.
func readReg(content []byte) (map[string]string, error) {
	if !bytes.HasPrefix(content, []byte{0xff, 0xfe}) || len(content)%2 != 0 {
		return nil, errors.New("not UTF-16 with its mark")
	}
	text := decode(files.File{Content: content})
	lines := strings.Split(text, "\r\n")
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

// TestHostileComments: no text that a person or another program put into a
// title can change what a system does with a file, nor break its format.
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

// acted renders in and returns what a system would act on, file by file.
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
			if l = strings.TrimSuffix(l, "\r"); strings.HasSuffix(l, `\`) || strings.ContainsAny(l, "\r\x00\x1b\u0085\u2028\u2029\ufeff") {
				t.Fatalf("%s: %s has a line %q", f, file.Path, l)
			}
		}
		n := strings.Count(text, "\n"+files.BlockEnd)
		must.Need(t, !file.Block || n == 1, "%s: %s has %d ends of its block", f, file.Path, n)
		s, err := acts(file)
		must.Need(t, err == nil, "%s: %s cannot be read: %v\n%s", f, file.Path, err, text)
		all = append(all, file.Path+"\n"+s)
	}
	return all
}
