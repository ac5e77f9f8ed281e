package knob

import (
	"strings"
	"testing"

	"linerate/internal/must"
)

func TestCite(t *testing.T) {
	for in, want := range map[string]string{
		"[K]":                                    "not confirmed on a real machine yet",
		"[B13 kern_mbuf.c]":                      "FreeBSD 13 source (kern_mbuf.c)",
		"[B13, B14 uipc_sockbuf.c; tcp_input.c]": "FreeBSD 13 source and FreeBSD 15-CURRENT source (uipc_sockbuf.c; tcp_input.c)",
		"[L6.1 net/core/dev.c] [E18]":            "Linux 6.1 source (net/core/dev.c); an experiment on Linux 6.18",
		"RFC 9293 section 3.4.1 [X tcp_timer.c]; the ends are linerate's": "RFC 9293 section 3.4.1; macOS source, xnu-11417 (tcp_timer.c); the ends are linerate's",
		"no tag": "no tag",
	} {
		must.Equal(t, Cite(in), want, "%q became", in)
	}
	must.Equal(t, Cite("[Q7 x]"), "[Q7 x]", "an unknown tag became")
}

// Every source in the catalogue is one that people can follow.
func TestEverySourceCanBeCited(t *testing.T) {
	var all []string
	for _, k := range Catalogue() {
		all = append(all, k.Source)
	}
	for _, d := range DeadNames() {
		all = append(all, d.Source)
	}
	for _, c := range Constraints() {
		all = append(all, c.Source)
	}
	must.Need(t, len(all) >= 100, "only %d sources", len(all))
	for _, s := range all {
		words := Cite(s)
		must.True(t, !strings.ContainsAny(words, "[]\x00") && !strings.Contains(words, ";;"), "%q became %q", s, words)
	}
}
