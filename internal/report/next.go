package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// A suggested experiment has few levels, each four times the one before: the
// plateau is found in a quarter of an hour, and a finer search can follow.
const (
	tryLevels = 4
	tryStep   = 4
)

// tries are the commands that would test what the findings suspect.
func (b *builder) tries() []Step {
	if b.s.Kind != model.KindTest {
		return nil
	}
	var steps []Step
	for _, f := range b.s.Findings {
		if s, ok := b.try(f); ok && !slices.Contains(steps, s) {
			steps = append(steps, s)
		}
	}
	return steps
}

// try returns the experiment over the buffer that a finding blames, where this
// controller may change that host.
func (b *builder) try(f model.Finding) (Step, bool) {
	if len(f.Knobs) == 0 || f.Knobs[0] != "tcp.recv_buffer_max" && f.Knobs[0] != "tcp.send_buffer_max" {
		return Step{}, false
	}
	changeable := strings.HasPrefix(b.s.Far, "lab:") || strings.HasPrefix(b.s.Far, "exec:")
	if f.Host == model.Far && !changeable {
		return Step{}, false // a linerate serve measures only
	}
	levels := b.levels(f)
	if len(levels) == 0 {
		return Step{}, false
	}
	words := []string{"linerate run", quote(b.s.Far)}
	if b.s.Near != "" && b.s.Near != b.s.Far && strings.HasPrefix(b.s.Near, "exec:") {
		words = append(words, "--from "+quote(b.s.Near))
	}
	if f.Direction == model.From {
		words = append(words, "--direction from")
	}
	words = append(words, fmt.Sprintf("--factor %s.%s=%s", f.Host, f.Knobs[0], strings.Join(levels, ",")))
	return Step{"try it", strings.Join(words, " ")}, true
}

// levels returns sizes from above the current one to what the path could use: a
// kernel keeps about half of a buffer for its own bookkeeping, so twice the
// bandwidth-delay product and a step to spare.
func (b *builder) levels(f model.Finding) []string {
	ceiling, ok1 := b.ceiling().Get()
	rtt, ok2 := limits.LeastRTT(b.s).Get()
	text, ok3 := b.facts(f.Host).Knobs[f.Knobs[0]].Get()
	current, err := strconv.ParseInt(text, 10, 64)
	if !ok1 || !ok2 || !ok3 || err != nil || current <= 0 {
		return nil
	}
	enough := 2 * limits.WindowFor(ceiling, rtt)
	size := units.Bytes(1)
	for size <= units.Bytes(current) {
		size *= 2
	}
	var levels []string
	for size *= tryStep / 2; len(levels) < tryLevels; size *= tryStep {
		levels = append(levels, strings.ReplaceAll(size.String(), " ", ""))
		if size >= enough {
			break
		}
	}
	return levels
}

// quote makes one word of s for a POSIX shell.
func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
