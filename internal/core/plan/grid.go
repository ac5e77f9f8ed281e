package plan

import (
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/model"
)

// Factor is one of several settings of which an experiment tries every combination
// of levels.
type Factor struct {
	Host   model.Host   `json:"host,omitempty"` // "" is of the flow, or of both hosts
	Knob   model.KnobID `json:"knob"`
	Levels []string     `json:"levels"` // canonical values; the first is that of Code(n, 0)
}

// Code is the short name of a level of a factor, both counted from 0: "B2" is the
// second level of the second factor. A combination has the codes of its levels, as
// "A1B2".
func Code(factor, level int) string { return Letter(factor) + fmt.Sprint(level+1) }

// Letter is the short name of a factor, counted from 0: "A" to "Z", "AA".
func Letter(factor int) string {
	if factor > 25 {
		return Letter(factor/26-1) + Letter(factor%26)
	}
	return string(rune('A' + factor))
}

// Grid returns the factors whose combinations the settings are that have codes for
// names, and those names, the last factor varying fastest. Nil where they are no such
// grid, or not all of it.
func Grid(settings []model.Setting) (factors []Factor, cells []string) {
	if factors, cells = gridOf(settings, true); factors == nil {
		return gridOf(settings, false)
	}
	return factors, cells
}

// gridOf is Grid; joined says that a knob of both hosts is one factor.
func gridOf(settings []model.Setting, joined bool) (factors []Factor, cells []string) {
	for _, s := range settings {
		if strings.HasSuffix(s.Name, TwinSuffix) || len(s.Assignments) == 0 {
			continue
		}
		of := single(s, joined)
		if factors == nil {
			factors = of
		}
		var name strings.Builder
		for n, f := range of {
			if n >= len(factors) || f.Knob != factors[n].Knob || f.Host != factors[n].Host {
				return nil, nil
			}
			at := slices.Index(factors[n].Levels, f.Levels[0])
			if at < 0 {
				at = len(factors[n].Levels)
				factors[n].Levels = append(factors[n].Levels, f.Levels[0])
			}
			name.WriteString(Code(n, at))
		}
		if name.String() != s.Name {
			return nil, nil
		}
		cells = append(cells, name.String())
	}
	all := 1
	for _, f := range factors {
		if all *= len(f.Levels); all > len(cells) {
			return nil, nil // also before the product outgrows a word
		}
	}
	if len(factors) < 2 || all != len(cells) {
		return nil, nil
	}
	return factors, cells
}

// single returns the assignments of s as factors of one level, where joined those of
// one knob to both hosts as one.
func single(s model.Setting, joined bool) []Factor {
	var out []Factor
	for _, a := range s.Assignments {
		if last := len(out) - 1; joined && last >= 0 && a.Host == model.Far && out[last].Host == model.Near && out[last].Knob == a.Knob && out[last].Levels[0] == a.Value {
			out[last].Host = ""
			continue
		}
		out = append(out, Factor{Host: a.Host, Knob: a.Knob, Levels: []string{a.Value}})
	}
	return out
}
