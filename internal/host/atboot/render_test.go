package atboot

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/must"
)

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	must.Golden(t, filepath.Join("testdata", name), text)
}

// odd is a state directory with every character that a name may have.
const odd = "/var/lib/100% of {ours} & <yours>; #1/ünter"

func TestTexts(t *testing.T) {
	must.SkipIf(t, filepath.Separator != '/', "the paths in these texts are of other systems")
	for suffix, state := range map[string]string{"": "/var/lib/linerate", "_odd": odd} {
		k := Keeper{State: state}
		golden(t, "linerate-undo"+suffix+".service", unitText(k))
		golden(t, "cron"+suffix, cronText(k))
		golden(t, "linerate_undo"+suffix, rcText(k, "linerate_undo"))
		golden(t, "linerate-undo"+suffix+".plist", plistText(k))
		golden(t, "task"+suffix+".xml", taskText(k, "TOKEN"))
	}
}

// TestPlain refuses names that are special to a reader of the job.
func TestPlain(t *testing.T) {
	must.SkipIf(t, filepath.Separator != '/', "the paths are of other systems")
	for _, dir := range []string{"relative", "", "/a'b", `/a"b`, "/a`b", "/a$b", `/a\b`, "/a\nb", "/a\x7f", "/a ", "/a\tb"} {
		must.Fail(t, plain(dir), "%q was taken", dir)
	}
	must.OK(t, plain(odd))
}

// words is a program that prints its arguments, one a line.
func words(t *testing.T, path string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n"), 0o700))
}

// needSh skips the test if no sh can run the rendered text.
func needSh(t *testing.T) {
	t.Helper()
	must.SkipIf(t, must.Err(exec.LookPath("sh")) != nil || filepath.Separator != '/', "no sh here")
}

// TestShellReadsTheScripts has sh check the syntax of FreeBSD's script, and run the lines of
// the others: every argument arrives as intended.
func TestShellReadsTheScripts(t *testing.T) {
	needSh(t)
	k := Keeper{State: filepath.Join(t.TempDir(), odd)}
	words(t, k.program())
	want := "undo\n--at-boot\n--state\n" + k.State + "\n"
	run := func(what, script string, args ...string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "script")
		must.Do(t, os.WriteFile(path, []byte(script), 0o700))
		out, err := exec.CommandContext(t.Context(), "sh", append(args, path)...).CombinedOutput()
		if len(args) > 0 {
			want = ""
		}
		must.True(t, err == nil && string(out) == want, "%s: %v\n%s", what, err, out)
	}
	run("line of sh", k.shellLine())
	run("systemd", systemdLine(t, unitText(k)))
	run("cron", cronLine(t, cronText(k)))
	rc := rcText(k, "linerate_undo")
	run("rc.d", "rc_d() {\n"+rcBody(t, rc)+"\n}\nrc_d")
	run("rc.d, syntax", rc, "-n")
}

// systemdLine returns ExecStart as a line of sh: for plain names the two differ only in $$
// and %%.
func systemdLine(t *testing.T, unit string) string {
	t.Helper()
	_, line, ok := strings.Cut(unit, "\nExecStart=")
	must.Need(t, ok, "no ExecStart:\n%s", unit)
	line, _, _ = strings.Cut(line, "\n")
	return strings.NewReplacer("$$", "$", "%%", "%").Replace(line)
}

// cronLine returns the command of a crontab(5) as cron passes it to sh.
func cronLine(t *testing.T, tab string) string {
	t.Helper()
	_, line, ok := strings.Cut(tab, "\n@reboot root ")
	must.Need(t, ok && !strings.Contains(strings.ReplaceAll(line, `\%`, ""), "%"), "no command, or one that ends at a percent sign:\n%s", tab)
	return strings.ReplaceAll(line, `\%`, "%")
}

// rcBody returns what FreeBSD's script runs.
func rcBody(t *testing.T, script string) string {
	t.Helper()
	_, body, _ := strings.Cut(script, "_start()\n{\n")
	body, _, ok := strings.Cut(body, "\n}\n")
	must.Need(t, ok, "no function:\n%s", script)
	return body
}

// element is any XML.
type element struct {
	XMLName  xml.Name
	Text     string    `xml:",chardata"`
	Children []element `xml:",any"`
}

func parseXML(t *testing.T, r io.Reader) element {
	t.Helper()
	d := xml.NewDecoder(r)
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // decoded already
	var e element
	must.Do(t, d.Decode(&e))
	return e
}

// find returns the texts of the elements at a path.
func (e element) find(path ...string) []string {
	if len(path) == 0 {
		return []string{strings.TrimSpace(e.Text)}
	}
	var all []string
	for _, c := range e.Children {
		if c.XMLName.Local == path[0] {
			all = append(all, c.find(path[1:]...)...)
		}
	}
	return all
}

func TestPropertyList(t *testing.T) {
	must.SkipIf(t, filepath.Separator != '/', "the paths are of another system")
	k := Keeper{State: odd}
	e := parseXML(t, strings.NewReader(plistText(k)))
	must.NoDiff(t, cmp.Diff([]string{k.program(), "undo", "--at-boot", "--state", odd}, e.find("dict", "array", "string")))
	keys := e.find("dict", "key")
	must.True(t, len(keys) == 5 && keys[1] == "RunAtLoad" && len(e.find("dict", "true")) == 1, "%q", keys)
	plutil, err := exec.LookPath("plutil")
	if err != nil {
		return // the parser must do
	}
	path := filepath.Join(t.TempDir(), "p.plist")
	must.Do(t, os.WriteFile(path, []byte(plistText(k)), 0o600))
	out, err := exec.CommandContext(t.Context(), plutil, "-lint", path).CombinedOutput()
	must.True(t, err == nil, "plutil: %v\n%s", err, out)
}

// TestTask decodes the definition as schtasks gets it: in UTF-16.
func TestTask(t *testing.T) {
	b := utf16Text(taskText(Keeper{State: `C:\Users\Jörg & Söhne\.local\state\linerate`}, "TOKEN"))
	must.Need(t, bytes.HasPrefix(b, []byte{0xff, 0xfe}) && len(b)%2 == 0, "% x", b[:4])
	var units []uint16
	for i := 2; i < len(b); i += 2 {
		units = append(units, binary.LittleEndian.Uint16(b[i:]))
	}
	e := parseXML(t, strings.NewReader(string(utf16.Decode(units))))
	for path, want := range map[string]string{
		"Principals/Principal/UserId":         "S-1-5-18",
		"Triggers/BootTrigger/Enabled":        "true",
		"Actions/Exec/Arguments":              `undo --at-boot --state "C:\Users\Jörg & Söhne\.local\state\linerate"`,
		"Settings/StopIfGoingOnBatteries":     "false",
		"Settings/DisallowStartIfOnBatteries": "false",
	} {
		got := e.find(strings.Split(path, "/")...)
		must.True(t, len(got) == 1 && got[0] == want, "%s: %q, want %q", path, got, want)
	}
	must.Equal(t, e.XMLName.Space, "http://schemas.microsoft.com/windows/2004/02/mit/task", "namespace")
}

// TestWindowsWord: the rules of CommandLineToArgvW invert it.
func TestWindowsWord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.StringMatching(`[a-z \\:.]{0,12}`).Draw(rt, "name")
		word := windowsWord(s)
		var got strings.Builder
		body := word[1:]
		for len(body) > 0 {
			slashes := len(body) - len(strings.TrimLeft(body, `\`))
			body = body[slashes:]
			if !strings.HasPrefix(body, `"`) {
				got.WriteString(strings.Repeat(`\`, slashes))
				if len(body) > 0 {
					got.WriteByte(body[0])
					body = body[1:]
				}
				continue
			}
			got.WriteString(strings.Repeat(`\`, slashes/2))
			if slashes%2 == 0 {
				break
			}
			got.WriteByte('"')
			body = body[1:]
		}
		must.Need(rt, got.String() == s && body == `"`, "%q became %s, which reads as %q", s, word, got.String())
	})
}

// FuzzRecord: no text decoded as a record ever removes anything that linerate does not make.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"name":"x","pieces":[{"path":"/etc/systemd/system/linerate-undo.service","sha256":"00"}],"made":["/etc/systemd"]}`))
	f.Add([]byte(`{"pieces":[{"task":{"name":"linerate-undo","token":"x"}}]}`))
	f.Add([]byte(`{"pieces":[{"path":"/etc/passwd","sha256":"00"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil {
			must.Is(t, err, os.ErrInvalid, "does not wrap fs.ErrInvalid")
			return
		}
		for _, p := range r.Pieces {
			name := filepath.Base(p.Path)
			if p.Task != nil {
				name = p.Task.Name
			}
			must.True(t, strings.HasPrefix(name, "linerate"), "%q would be removed", name)
		}
	})
}
