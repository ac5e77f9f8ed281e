//go:build truth && linux

package main

import (
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestTruthOfStories runs every command of the stories: it ends as the page says, and
// prints the lines that the page shows, with other numbers.
func TestTruthOfStories(t *testing.T) {
	needLab(t)
	for page, story := range stories(t) {
		t.Run(page, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				db := filepath.Join(try.TempDir(), "r.db")
				for _, c := range story {
					r := run(try, command(try, append(shellFields(c.command)[1:], "--db", db)...))
					if r.code != c.code {
						try.Errorf("%s: exit code %d, want %d\n%s%s", c.command, r.code, c.code, r.out, r.err)
					}
					got := shape(r.out + "\n" + r.err)
					for _, want := range c.lines {
						must.Contain(try, got, shape(want), "%s does not say %q: %s%s", c.command, want, r.out, r.err)
					}
				}
				if page == "slow-gigabit.md" {
					windowHelps(try, db)
				}
			})
		})
	}
}

// shellFields are the words of a command, of which some stand in quotes.
func shellFields(command string) (out []string) {
	for _, w := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(command, -1) {
		out = append(out, strings.Trim(w, `"`))
	}
	return out
}

// windowHelps demands of the experiment of a story, its last session, what its page claims:
// the larger MTU alone brings little, the larger window at least doubles the goodput.
func windowHelps(try *truth.Try, db string) {
	experiment, _ := search(try, db)
	times := map[string]float64{}
	for _, v := range experiment.Verdicts {
		if v.Metric != model.Goodput {
			continue
		}
		times[v.Setting] = math.Exp(v.Estimate)
		if v.Outcome != model.Better && strings.HasSuffix(v.Setting, "recv_buffer_max=1MiB") {
			try.Errorf("%s is %s", v.Setting, v.Outcome)
		}
	}
	const unit = "times the goodput of 1500 B and the small window"
	try.Claim("the larger MTU alone", times["mtu=9000 recv_buffer_max=64KiB"], 0.1, 1.5, unit)
	try.Claim("the larger window", times["mtu=1500 recv_buffer_max=1MiB"], 2, math.Inf(1), unit)
	try.Claim("both", times["mtu=9000 recv_buffer_max=1MiB"], 2, math.Inf(1), unit)
}
