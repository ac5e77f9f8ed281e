package knob

import (
	"slices"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/regex"
)

// Explanation is what linerate knows about one name: of its own, of a system,
// or of an old guide.
type Explanation struct {
	Name string // as it was understood
	Knob *Knob  // the knob of this id; nil when Name is native
	Uses []Use  // the native settings of this name, by system
	Dead []Dead // the settings of this name that are no more
	// Outside are settings of this name that exist and that linerate does not set.
	Outside []Outside
	Sets    []model.Assignment // what a line of a guide sets, in linerate's words
	Unknown []string           // words of the line that linerate does not know
}

// Use is a native setting that a knob stands for.
type Use struct {
	System string
	Knob   Knob
	Native Native
}

// What guides have around a setting: the prompt and sudo in front of a command, a shell that
// runs it, a line that echo adds to a file of the system, and a value that it writes into a
// file of the kernel.
var (
	inShell = regex.New(`^\s*(?:ba)?sh +-c +["'](.*)["']\s*$`)
	kept    = regex.New(`^\s*echo +["']?(.+?)["']? *(?:>>?|\| *(?:sudo +)?tee(?: +-a)?) *(?:/etc|/boot)/\S+\s*$`)
	asRoot  = regex.New(`^\s*(?:[$#] +)?sudo +(?:-\w+ +)*|^\s*\$ +`)
	written = regex.New(`^\s*echo +(.+?) *(?:>|\| *(?:sudo +)?tee) *(/(?:proc|sys)/\S+)\s*$`)
)

// Explain says what name is: a knob's id, a native name of any system, or a
// name of old guides. A native name may be whole or its last part ("tcp_rmem"),
// with slashes or dots, with a value behind it ("net.ipv4.tcp_sack=0"), or with
// a command in front ("sysctl -w ...", also behind sudo). A line of a guide may also be one of
// guideCommands, or an echo into a file of the kernel. It is false when nothing is known; then
// Suggest may know what was meant.
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

// explainLine says what the command of a guide sets.
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

// others adds the settings of a name that linerate does not set, on system or, if that
// is empty, on any.
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

// set adds the value that a line gives to u, unless u cannot hold it.
func (e *Explanation) set(u Use, value string) {
	if value == "" || u.Native.Encoding == Level { // a level is the setting, the size what follows from it
		return
	}
	canonical, err := u.Knob.Decode(u.System, value)
	switch {
	case err == nil:
		value = canonical
	case u.Native.Encoding == Initial || u.Native.Encoding == Ceiling: // a line of fewer than three numbers leaves the others
		return
	}
	for _, c := range u.Knob.Choices { // Windows takes its words in any case
		if strings.EqualFold(c.Value, value) {
			value = c.Value
		}
	}
	if canonical, err := u.Knob.Parse(value); err == nil {
		a := model.Assignment{Knob: u.Knob.ID, Value: canonical}
		if !slices.ContainsFunc(e.Sets, func(b model.Assignment) bool { return a.Knob == b.Knob }) {
			e.Sets = append(e.Sets, a)
		}
	}
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

// Replaced returns the knobs that stand where a dead name stood, and those that do the
// work of settings which linerate does not set.
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
