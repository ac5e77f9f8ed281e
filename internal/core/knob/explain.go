package knob

import (
	"slices"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/regex"
)

// Explanation is what linerate knows about a name: its own, a system's, or an old guide's.
type Explanation struct {
	Name string // as it was parsed
	Knob *Knob  // the knob with this id; nil if Name is native
	Uses []Use  // the native settings of this name, by system
	Dead []Dead // the dead settings with this name
	// Outside lists existing settings with this name that linerate does not set.
	Outside []Outside
	Sets    []model.Assignment // what a line of a guide sets, in linerate's words
	Refused []string           // why a value of the line cannot be set
	Unknown []string           // words of the line that linerate does not know
}

// Use is a native setting of a knob.
type Use struct {
	System string
	Knob   Knob
	Native Native
}

// Parts of guide lines around a setting: the prompt and sudo before a command, a shell that
// runs it, a line that echo appends to a system file, and a value that it writes into a kernel
// file.
var (
	inShell = regex.New(`^\s*(?:ba)?sh +-c +["'](.*)["']\s*$`)
	kept    = regex.New(`^\s*echo +["']?(.+?)["']? *(?:>>?|\| *(?:sudo +)?tee(?: +-a)?) *(?:/etc|/boot)/\S+\s*$`)
	asRoot  = regex.New(`^\s*(?:[$#] +)?sudo +(?:-\w+ +)*|^\s*\$ +`)
	written = regex.New(`^\s*echo +(.+?) *(?:>|\| *(?:sudo +)?tee) *(/(?:proc|sys)/\S+)\s*$`)
)

// Explain identifies name: a knob's id, a native name of any system, or a name from old guides.
// A native name may be whole or its last part ("tcp_rmem"), with slashes or dots, with a value
// ("net.ipv4.tcp_sack=0"), or after a command ("sysctl -w ...", also with sudo). A line of a
// guide may also be one of guideCommands, or an echo into a kernel file. Explain returns false
// for an unknown name; Suggest may then find a similar one.
func (x *Index) Explain(name string) (Explanation, bool) {
	name = kept.ReplaceAllString(inShell.ReplaceAllString(asRoot.ReplaceAllString(name, ""), "$1"), "$1")
	line := guide(name)
	if m := written.FindStringSubmatch(name); m != nil {
		value := strings.Trim(m[1], `"'`)
		if name = m[2] + "=" + value; !strings.HasPrefix(name, "/proc/sys/") {
			line = fileLine(m[2], value)
		}
	}
	if len(line.sets) > 0 {
		return x.explainLine(strings.TrimSpace(name), line)
	}
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
	e.others(text, "")
	if _, value, ok := strings.Cut(name, "="); ok {
		for _, u := range e.Uses {
			e.set(u, strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
	return e, e.Knob != nil || len(e.Uses)+len(e.Dead)+len(e.Outside) > 0
}

// explainLine returns what the command of a guide sets.
func (x *Index) explainLine(text string, line guideLine) (Explanation, bool) {
	e := Explanation{Name: text}
	for _, s := range line.sets {
		known := len(e.Dead) + len(e.Outside) + len(e.Uses)
		for _, k := range x.All() {
			n, ok := k.Native[line.system]
			if !ok || s.id != k.ID && (s.id != "" || s.native == "" || !slices.ContainsFunc(append([]string{n.Name}, n.Also...), func(name string) bool { return plainName(name) == plainName(s.native) })) {
				continue
			}
			e.Uses = append(e.Uses, Use{line.system, k, n})
			e.set(e.Uses[len(e.Uses)-1], s.value)
		}
		if s.native != "" && len(e.Uses) == known {
			e.others(plainName(s.native), line.system)
		}
		if len(e.Dead)+len(e.Outside)+len(e.Uses) == known {
			e.Unknown = append(e.Unknown, s.word)
		}
	}
	return e, len(e.Uses)+len(e.Dead)+len(e.Outside) > 0
}

// others adds the settings with a name that linerate does not set, on system or, if system is
// empty, on any.
func (e *Explanation) others(text, system string) {
	named := func(names []string, on string) bool {
		return (system == "" || system == on) && slices.ContainsFunc(names, func(n string) bool { return sameName(n, text) })
	}
	for _, d := range DeadNames() {
		if named(d.Names, d.System) {
			e.Dead = append(e.Dead, d)
		}
	}
	for _, o := range OutsideNames() {
		if named(o.Names, o.System) {
			e.Outside = append(e.Outside, o)
		}
	}
}

// set adds the value from a line to u, unless u cannot hold it.
func (e *Explanation) set(u Use, value string) {
	if value == "" || u.Native.Encoding == Level { // the setting is a level; the size follows from it
		return
	}
	canonical, err := u.Knob.Decode(u.System, value)
	switch {
	case err == nil:
		value = canonical
	case u.Native.Encoding == Initial || u.Native.Encoding == Ceiling: // a line with fewer than three numbers leaves the others unchanged
		return
	}
	for _, c := range u.Knob.Choices { // Windows accepts its words in any case
		if strings.EqualFold(c.Value, value) {
			value = c.Value
		}
	}
	canonical, err = u.Knob.Parse(value)
	switch {
	case slices.ContainsFunc(e.Sets, func(a model.Assignment) bool { return a.Knob == u.Knob.ID }):
	case err != nil:
		e.Refused = lists.Once(e.Refused, err.Error())
	default:
		e.Sets = append(e.Sets, model.Assignment{Knob: u.Knob.ID, Value: canonical})
	}
}

// tidyName removes a leading command and a trailing value from a name.
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

// sameName reports whether text names native: in full, or by its last part or parts if text is
// long enough to be unambiguous. A final * of native matches any ending; {if}, {dev} and the
// like match one part or more.
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

// Replaced returns the knobs that replace a dead name, and those that do the work of settings
// that linerate does not set.
func (e Explanation) Replaced() []model.KnobID {
	var list []model.KnobID
	add := func(all []model.KnobID) {
		list = lists.Once(list, all...)
	}
	for _, d := range e.Dead {
		add(d.Instead)
	}
	for _, o := range e.Outside {
		add(o.Instead)
	}
	return list
}
