package tree

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/must"
)

// TestJoined: no line is empty or has surrounding blanks, whatever backslashes end it.
func TestJoined(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"a \\\n  b\nc", []string{"a b", "c"}},
		{"a \\\n# remark\n  b\nc", []string{"a b", "c"}},
		{"a \\\n\nb", []string{"a", "b"}},
		{"a\\ \nb", []string{"a\\", "b"}},
		{"a\\\\\nb", []string{"a\\\\", "b"}},
		{"a\\\n\\\nb", []string{"a b"}},
		{"a\\", []string{"a"}},
		{"\\\na", []string{"a"}},
		{"\\", nil},
		{"\\\n\\", nil},
		{"\\\n\\\n\\\n", nil},
	} {
		files := Tree{fstest.MapFS{"f": &fstest.MapFile{Data: []byte(c.text)}}}
		var got []string
		for _, l := range files.Joined("f", "#", Systemd) {
			got = append(got, l.Text)
		}
		for i, text := range got {
			got[i] = strings.Join(strings.Fields(text), " ") // blanks inside do not count
			must.True(t, text != "" && text == strings.TrimSpace(text), "%q: line %q", c.text, text)
		}
		must.True(t, slices.Equal(got, c.want), "%q: got %q, want %q", c.text, got, c.want)
	}
	files := Tree{fstest.MapFS{"f": &fstest.MapFile{Data: []byte("# no \\\nup echo \\\n# remark\nmtu 1 \\\\\n  2\n")}}}
	var got []string
	for _, l := range files.Joined("f", "#", Interfaces) {
		got = append(got, l.Text)
	}
	must.Same(t, got, []string{"up echo # remark", "mtu 1 \\ 2"})
}

// TestKeyfile: GLib refuses a file with a line that is neither a heading, an assignment nor
// a comment, and joins no lines.
func TestKeyfile(t *testing.T) {
	for text, want := range map[string]bool{"[a]\nb=c\\\n# remark\nd=e\n": true, "[a]\n;remark\nd=e\n": false, "[a]\nd=e\njunk\n": false, "[a] # remark\nd=e\n": false} {
		all, ok := Tree{fstest.MapFS{"f": &fstest.MapFile{Data: []byte(text)}}}.Keyfile("f")
		must.True(t, ok == want && (!ok || all.Text("a", "d") == "e"), "%q: %v, %v", text, ok, all)
	}
}
