package tree

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestJoined holds what readers count on: no line is empty or has blanks around
// it, whatever backslashes end it.
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
			if text == "" || text != strings.TrimSpace(text) {
				t.Errorf("%q: line %q", c.text, text)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}
