package main

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

func TestParse(t *testing.T) {
	o, chosen, err := parse([]string{"-rounds", "5", "-duration", "3s", "-o", "x.md", "udp", "tcp"})
	must.Do(t, err)
	got := strings.Join(names(chosen), " ")
	must.True(t, got == "tcp udp" && o.bench.Rounds == 5 && o.bench.Duration == 3*time.Second && o.output == "x.md", "got %q %+v", got, o)
	_, chosen, err = parse(nil)
	must.True(t, err == nil && len(chosen) == 6, "all are %v %v", names(chosen), err)
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"nosuch"}, {"-quick", "-o", "x.md"}, {"-rounds", "-1"}, {"-duration", "1500ms"},
	} {
		_, _, err := parse(args)
		must.True(t, err != nil, "%q is taken", args)
	}
}
