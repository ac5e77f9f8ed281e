package plain

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "",
		"naïve 10 µs → 東京 👍":                "naïve 10 µs → 東京 👍",
		"a\tb\nc\r\nd":                      "a\tb\nc\r\nd",
		"\x1b[2J\x1b]0;t\x07":               "?[2J?]0;t?",
		"a\rb\x00\x08\x7f":                  "a?b???",
		"\u009b31m\x9b31m\xc3":              "?31m?31m?",
		"\u202egpj.exe\u2066\u061c\u200e":   "?gpj.exe???",
		"in\u200bvis\ufeffible\u2060\u00ad": "in?vis?ible??",
		"tag\U000e0041 line\u2028par\u2029": "tag? line?par?",
	} {
		must.Equal(t, Text(in), want, "%q", in)
	}
	must.Equal(t, Line("ok\nlinerate: everything is fine\r\n"), "ok linerate: everything is fine ")
}

func TestBrief(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " a\tb\r\nc ": "a b  c", "\x1b[2J\u202e\x9b\ue000": "?[2J???", "0123456789": "0123456789", "0123456789a": "0123456...", "µµµµµµ": "µµµ...", "a\u00a0b": "a b",
	} {
		got := Brief(in, 10)
		must.True(t, got == want && Printable(got), "%q became %q, want %q", in, got, want)
	}
	must.True(t, !Printable("a\nb") && !Printable("\xff"), "what cannot be seen is printable")
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[31m\u202e\u009b\x9b\r\n\x00")
	f.Fuzz(func(t *testing.T, s string) {
		text := Text(s)
		must.Need(t, utf8.ValidString(text) && Clean([]byte(text)) && !strings.ContainsFunc(strings.ReplaceAll(text, "\r\n", "\n"), Harmful), "%q", text)
		must.Need(t, Text(text) == text && !strings.ContainsAny(Line(s), "\r\n"), "%q, %q", Text(text), Line(s))
		doc := must.Get(json.MarshalIndent(map[string]string{"k": s, s: "v"}, "", "  "))(t)
		shown := JSON(doc)
		var a, b map[string]string
		must.Need(t, json.Unmarshal(doc, &a) == nil && json.Unmarshal(shown, &b) == nil && reflect.DeepEqual(a, b) && Clean(bytes.TrimSpace(shown)),
			"%q became %q", doc, shown)
	})
}

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{
		"root@nas": "root@nas", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "linerate://nas:5299/?pin=x": "'linerate://nas:5299/?pin=x'", "x;y": "'x;y'", "a\nb": "'a\nb'",
	} {
		must.Equal(t, ShellWord(s), want, "%q", s)
	}
}

// TestShellLine makes a real shell read the line back.
func TestShellLine(t *testing.T) {
	must.SkipIf(t, runtime.GOOS == "windows", "it has no POSIX shell")
	words := []string{"linerate", "run", "a b", "it's", "$HOME", "near.x=1,2", "~", "#1", "", "a;b", "far.tcp.recv_buffer_max=64KiB", "back\\slash", "^", "-n"}
	out := must.Get(exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+ShellLine(words)).Output())(t)
	want := ""
	for _, w := range words {
		want += w + "\n"
	}
	must.Equal(t, string(out), want)
}

type word string

func TestCount(t *testing.T) {
	must.Equal(t, Count(1, "block")+", "+Count(int64(2), "block")+", "+Count(0, "pass", "passes"), "1 block, 2 blocks, 0 passes")
	must.Equal(t, Join([]word{"a", "b"}, " and "), "a and b")
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"mtu", "mtu", 0}, {"", "mtu", 3}, {"mtu", "", 3}, {"mut", "mtu", 2},
		{"kitten", "sitting", 3}, {"link.mtu", "link.mtus", 1},
		{strings.Repeat("x", 100), "mtu", 100},
	} {
		must.Equal(t, Distance(c.a, c.b), c.want, "Distance(%q, %q)", c.a, c.b)
	}
}

func TestDistanceIsAMetric(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 4, 8, 8)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		must.Equal(t, Distance(a, b), Distance(b, a), "not symmetric: %q, %q", a, b)
		must.Equal(t, Distance(a, b) == 0, a == b, "zero for different words: %q, %q", a, b)
		must.True(t, Distance(a, c) <= Distance(a, b)+Distance(b, c), "a detour is shorter: %q, %q, %q", a, b, c)
	})
}

func TestNearest(t *testing.T) {
	commands := []string{"set", "test", "list", "lab", "limits", "facts", "tcp.sack", "udpflow", "bidir"}
	for unknown, want := range map[string]string{
		"tset": "test", "lst": "list", "LIST": "list", "facs": "facts", "sack": "tcp.sack", "udpflw": "udpflow", "bidirectional": "bidir",
		"xyzzy": "", "": "", "iperf3": "", "lim": "limits", "nonsense": "",
	} {
		must.Equal(t, Nearest(unknown, commands), want, "%q", unknown)
	}
}
