package config

import (
	"fmt"
	"strings"
	"testing"

	"linerate/internal/confined"
	"linerate/internal/must"
)

// hostilePlan is a plan file whose factors have as many combinations as levels to the
// power of factors.
func hostilePlan(factors, levels int) string {
	var b strings.Builder
	b.WriteString("far: nas\nfactors:\n")
	for n := range factors {
		fmt.Fprintf(&b, "- {knob: %s.tcp.%s_buffer_max, levels: [", []string{"near", "far"}[n%2], []string{"recv", "send"}[n/2%2])
		for i := range levels {
			fmt.Fprintf(&b, "%dK,", 64+i)
		}
		b.WriteString("]}\n")
	}
	return b.String()
}

// TestHostileCombinations: a small plan file with billions of combinations, and one whose
// number does not fit a machine word, are refused with the number before any combination
// is made.
func TestHostileCombinations(t *testing.T) {
	confined.Run(t, 256<<20, 20, func(t *testing.T) {
		for _, c := range []struct {
			factors, levels int
			says            string
		}{
			{13, 5, "the levels make 1220703125 settings, and a plan may have 64"},
			{4, 64, "the levels make 16777216 settings, and a plan may have 64"},
			{70, 5, "the levels make more than 9223372036854775807 settings, and a plan may have 64"},
		} {
			text := hostilePlan(c.factors, c.levels)
			_, err := Parse("plan.yaml", []byte(text), knobs{}, kinds())
			must.Say(t, err, c.says, "%d factors of %d levels in %d bytes", c.factors, c.levels, len(text))
		}
		// The same from flags, where a caller puts a File together.
		var f File
		for range 13 {
			factor := must.Get(ParseFactor("far.tcp.recv_buffer_max=64K,65K,66K,67K,68K", knobs{}))(t)
			f.Factors = append(f.Factors, factor)
		}
		f.Baseline = "far.tcp.recv_buffer_max=64K"
		must.Say(t, f.Validate(), "1220703125 settings", "flags")
		must.OK(t, f.Hold("far.tcp.recv_buffer_max"))
		o := f.Complete()
		must.True(t, len(o.Settings) <= MaxSettings, "%d settings", len(o.Settings))
	})
}
