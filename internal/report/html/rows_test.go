package html

import (
	"testing"

	"linerate/internal/must"
	"linerate/internal/report"
)

// A verdict is said once: its note holds what the words for people leave out.
func TestNotesAddSomething(t *testing.T) {
	for _, c := range []struct{ said, note, want string }{
		{"921.4 Mbit/s, not decided: about 14 blocks more (17 min 30 s)", "about 14 blocks more (17 min 30 s); p 0.41", "p 0.41"},
		{"66 % slower, at least 29 %; 6 blocks, decided", "p 0.007", "p 0.007"},
		{"not decided: needs at least 6 blocks", "needs at least 6 blocks", ""},
		{"not decided after 7 blocks", "", ""},
	} {
		must.Equal(t, noted(report.Row{Said: c.said, Note: c.note}), c.want, "%q beside %q", c.note, c.said)
	}
}
