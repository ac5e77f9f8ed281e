package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"linerate/internal/must"
)

// TestRecheckFitsTheWidth: no line of a recheck is wider than the terminal, and no word
// of it is lost or broken.
func TestRecheckFitsTheWidth(t *testing.T) {
	for _, text := range []string{
		"tcp.recv_buffer_max=4 MiB on nas.example.org: unproven since kernel 6.1.0-2-amd64 -> 6.1.0-3-amd64, MTU 9000 -> 1500 at the far end",
		"  proven on 2026-11-02 in session 20261102T101530-x7k2, against 64 KiB; nothing that is known has changed since",
		"nothing is kept",
	} {
		for _, width := range []int{40, 60, 80} {
			got := wrapped(text, width)
			for _, l := range got {
				n := utf8.RuneCountInString(l)
				must.True(t, n <= width, "%d columns in %d: %q", n, width, l)
			}
			must.Equal(t, strings.Join(strings.Fields(strings.Join(got, " ")), " "), strings.Join(strings.Fields(text), " "), "width %d: %q", width, got)
			indent := len(text) - len(strings.TrimLeft(text, " "))
			must.True(t, strings.HasPrefix(got[0], strings.Repeat(" ", indent)), "the indent is lost: %q", got[0])
		}
	}
}
