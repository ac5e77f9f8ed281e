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
		{"a\\\n\\\nb", []string{"a b"}},
		{"a\\", []string{"a"}},
		{"\\\na", []string{"a"}},
		{"\\", nil},
		{"\\\n\\", nil},
		{"\\\n\\\n\\\n", nil},
	} {
		files := Tree{fstest.MapFS{"f": &fstest.MapFile{Data: []byte(c.text)}}}
		var got []string
		for _, l := range files.Joined("f", "#") {
			got = append(got, l.Text)
		}
		for i, text := range got {
			got[i] = strings.Join(strings.Fields(text), " ") // blanks inside do not count
			must.True(t, text != "" && text == strings.TrimSpace(text), "%q: line %q", c.text, text)
		}
		must.True(t, slices.Equal(got, c.want), "%q: got %q, want %q", c.text, got, c.want)
	}
}
