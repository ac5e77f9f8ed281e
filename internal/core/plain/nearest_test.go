package plain

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

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
