package knob

import (
	"slices"
	"strings"

	"linerate/internal/core/model"
)

// Explanation is what linerate knows about one name: of its own, of a system,
// or of an old guide.
type Explanation struct {
	Name string // as it was understood
	Knob *Knob  // the knob of this id; nil when Name is native
	Uses []Use  // the native settings of this name, by system
	Dead []Dead // the settings of this name that are no more
}

// Use is a native setting that a knob stands for.
type Use struct {
	System string
	Knob   Knob
	Native Native
}

// Explain says what name is: a knob's id, a native name of any system, or a
// name of old guides. A native name may be whole or its last part ("tcp_rmem"),
// with slashes or dots, with a value behind it ("net.ipv4.tcp_sack=0"), or with
// a command in front ("sysctl -w ..."). It is false when nothing is known; then
// Suggest may know what was meant.
func (x *Index) Explain(name string) (Explanation, bool) {
	e := Explanation{Name: tidyName(name)}
	text := plainName(e.Name)
	if text == "" {
		return e, false
	}
	for _, k := range x.All() {
		if plainName(string(k.ID)) == text {
			e.Knob = &k
		}
		for _, system := range Systems() {
			if n, ok := k.Native[system]; ok && namesNative(n, text) {
				e.Uses = append(e.Uses, Use{system, k, n})
			}
		}
	}
	for _, d := range DeadNames() {
		if slices.ContainsFunc(d.Names, func(n string) bool { return sameName(n, text) }) {
			e.Dead = append(e.Dead, d)
		}
	}
	return e, e.Knob != nil || len(e.Uses) > 0 || len(e.Dead) > 0
}

// tidyName takes a command in front and a value behind off a name.
func tidyName(name string) string {
	name, _, _ = strings.Cut(strings.TrimSpace(name), "=")
	for _, command := range []string{"sysctl -w ", "sysctl ", "options ", "/proc/sys/"} {
		name = strings.TrimPrefix(name, command)
	}
	return strings.Trim(strings.TrimSpace(name), `"'`)
}

func namesNative(n Native, text string) bool {
	return slices.ContainsFunc(append([]string{n.Name}, n.Also...), func(s string) bool { return sameName(s, text) })
}

// sameName reports whether native is what text says: all of it, or its last
// part or parts, where text is long enough to mean one thing. A final * of
// native stands for any ending; {if}, {dev} and the like for one part or more.
func sameName(native, text string) bool {
	native = plainName(native)
	if star, ok := strings.CutSuffix(native, "*"); ok {
		last := star[strings.LastIndex(star, ".")+1:]
		return strings.HasPrefix(text, star) || last != "" && strings.HasPrefix(text, last)
	}
	if native == text || strings.TrimPrefix(native, "*") == text {
		return true
	}
	if before, after, ok := strings.Cut(native, "{"); ok {
		_, after, _ = strings.Cut(after, "}")
		return strings.HasPrefix(text, before) && strings.HasSuffix(text, after) && len(text) > len(before)+len(after)
	}
	return len(text) >= 7 && (strings.HasSuffix(native, "."+text) || strings.HasSuffix(native, `\`+text))
}

// Replaced returns the knobs that stand where a dead name stood.
func (e Explanation) Replaced() []model.KnobID {
	var list []model.KnobID
	for _, d := range e.Dead {
		for _, id := range d.Instead {
			if !slices.Contains(list, id) {
				list = append(list, id)
			}
		}
	}
	return list
}
