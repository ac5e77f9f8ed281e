package manager

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/files/tree"
	"linerate/internal/host/knob/origin"
)

// tunedProfile is the active profile of TuneD, tuned.conf(5) and
// tuned-profiles(7), with all that it includes.
type tunedProfile struct {
	units       []*tunedUnit
	variables   map[string]string
	reapplies   bool // the administrator's sysctl.d goes over it
	setsSysctls bool
}

// tunedUnit is a section, merged from all profiles that have it.
type tunedUnit struct {
	name    string
	options map[string]model.FileLine
}

// kind is the plugin of a unit.
func (u tunedUnit) kind() string {
	if t := u.options["type"].Text; t != "" {
		return t
	}
	return u.name
}

// maxProfiles bounds the profiles that one includes.
const maxProfiles = 64

// tunedProfile reads /etc/tuned/active_profile and the profiles that it names.
func (s *search) tunedProfile() tunedProfile {
	p := tunedProfile{variables: make(map[string]string), reapplies: true} // its default
	if l, ok := s.tree.Assignments("etc/tuned/tuned-main.conf")["reapply_sysctl"]; ok {
		p.reapplies = truth(l.Text)
	}
	read := make(map[string]bool)
	for name := range strings.FieldsSeq(s.tree.Word("etc/tuned/active_profile")) {
		s.include(&p, name, read)
	}
	for _, u := range p.units {
		p.setsSysctls = p.setsSysctls || u.kind() == "sysctl"
	}
	return p
}

// include merges a profile into p, after those that it includes itself. A
// profile may include the one of its own name in a weaker folder.
func (s *search) include(p *tunedProfile, name string, read map[string]bool) {
	name = path.Base(strings.TrimPrefix(name, "-"))
	file := ""
	for _, dir := range []string{"etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"} {
		if f := path.Join(dir, name, "tuned.conf"); !read[f] && s.tree.Exists(f) {
			file = f
			break
		}
	}
	if file == "" || len(read) >= maxProfiles {
		return
	}
	read[file] = true
	all := s.tunedFile(file)
	for _, e := range all { // first, since names of profiles to include hold variables too
		if e.Section == "variables" {
			p.variables[e.Key] = e.Text
		}
	}
	for _, e := range all {
		if e.Section == "main" && e.Key == "include" {
			for _, one := range strings.FieldsFunc(p.expand(e.Text), func(r rune) bool { return r == ',' || r == ';' || r == ' ' }) {
				s.include(p, one, read)
			}
		}
	}
	for _, e := range all {
		if e.Section == "variables" { // the including profile wins
			p.variables[e.Key] = e.Text
		} else if e.Section != "main" {
			p.merge(e, file)
		}
	}
}

// merge adds an option to the unit of its section. drop= and replace= take away
// what included profiles said.
func (p *tunedProfile) merge(e tree.Entry, file string) {
	i := slices.IndexFunc(p.units, func(u *tunedUnit) bool { return u.name == e.Section })
	if i < 0 {
		p.units = append(p.units, &tunedUnit{e.Section, make(map[string]model.FileLine)})
		i = len(p.units) - 1
	}
	u := p.units[i]
	included := func(l model.FileLine) bool { return l.File != "/"+file }
	switch e.Key {
	case "replace":
		for key, l := range u.options {
			if truth(e.Text) && included(l) {
				delete(u.options, key)
			}
		}
	case "drop":
		for key := range strings.FieldsFuncSeq(e.Text, func(r rune) bool { return r == ',' || r == ' ' }) {
			if l, ok := u.options[key]; ok && included(l) {
				delete(u.options, key)
			}
		}
	default:
		u.options[e.Key] = e.FileLine
	}
}

// tunedFile reads a profile: sections with KEY=VALUE, and comments that begin
// with a number sign after a blank.
func (s *search) tunedFile(name string) []tree.Entry {
	var all []tree.Entry
	section := ""
	for _, l := range s.tree.Lines(name, "#;") {
		text, _, _ := strings.Cut(l.Text, " #")
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, "[") {
			section = strings.Trim(text, "[]")
			continue
		}
		if key, value, ok := strings.Cut(text, "="); ok {
			l.Text = strings.Trim(strings.TrimSpace(value), `"'`)
			all = append(all, tree.Entry{Section: section, Key: strings.TrimSpace(key), FileLine: l})
		}
	}
	return all
}

// maxExpanded bounds texts with variables, in bytes.
const maxExpanded = 1 << 12

// expand puts variables in. What functions make stays: it is not known here.
func (p *tunedProfile) expand(text string) string {
	for range maxProfiles { // variables may name variables
		before := text
		for name, value := range p.variables {
			if len(text) < maxExpanded && len(value) < maxExpanded {
				text = strings.ReplaceAll(text, "${"+name+"}", value)
			}
		}
		if text == before {
			break
		}
	}
	return text
}

// tuned adds what the active profile of TuneD sets.
func (s *search) tuned(p tunedProfile) {
	for _, u := range p.units {
		if l, ok := u.options["enabled"]; ok && !truth(l.Text) {
			continue
		}
		active := s.runs("tuned")
		if u.options["cpuinfo_regex"].Text+u.options["uname_regex"].Text != "" && active.Or(true) {
			active = fact.Unknown[bool]("the profile limits it to some processors")
		}
		for _, key := range slices.Sorted(maps.Keys(u.options)) {
			s.tunedOption(p, u, key, u.options[key], active)
		}
	}
}

// tunedOption adds what one option of a unit sets.
func (s *search) tunedOption(p tunedProfile, u *tunedUnit, key string, l model.FileLine, active fact.Of[bool]) {
	text := p.expand(l.Text)
	c := model.Claim{Manager: model.ManagerTuneD, When: "whenever it starts, or its profile is switched", File: l.File, Line: l.Number, Active: active}
	for sign, than := range map[string]string{">": "more", "<": "less"} {
		if rest, ok := strings.CutPrefix(text, sign); ok {
			text, c.When = rest, c.When+", where that is "+than
		}
	}
	set := func(id model.KnobID, to string) {
		if c.Knob, c.Sets = id, to; strings.Contains(to, "${") {
			c.Sets = ""
		}
		s.add(turnProfile, c)
	}
	switch u.kind() {
	case "sysctl":
		t := turnProfile
		if p.reapplies {
			t = turnBeforeAdmin
		}
		if c.Sets = text; strings.Contains(text, "${") {
			c.Sets = ""
		}
		s.addSysctl(t, origin.SysctlName(key), c)
	case "net":
		if !s.tunedDevice(p.expand(u.options["devices"].Text)) || u.options["devices_udev_regex"].Text != "" {
			return
		}
		switch key {
		case "mtu":
			set("link.mtu", text)
		case "txqueuelen":
			set("txqueuelen", text)
		case "coalesce", "pause", "ring", "channels", "features":
			for _, one := range origin.EthtoolWords(key, strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,:;\t", r) })) {
				set(one.Knob, one.Text)
			}
		}
	case "cpu":
		switch key {
		case "governor": // "conservative|powersave": the first that the processor has
			first, _, _ := strings.Cut(text, "|")
			set("cpu.governor", first)
		case "force_latency":
			if _, err := strconv.Atoi(text); err != nil {
				text = "" // a state by name, or a rule
			}
			set("cpu.cstate_latency", text)
		}
	case "sysfs":
		s.sysfs(key, func(id model.KnobID) { set(id, text) })
	case "scheduler", "irq":
		if key == "isolated_cores" || key == "default_irq_smp_affinity" || key == "affinity" {
			set("nic.irq_affinity", "")
		}
	}
}

// tunedDevice judges devices= of a unit: patterns of shells with commas, "!" for
// those that are left out; none is every device.
func (s *search) tunedDevice(list string) bool {
	if list == "" {
		return true
	}
	in, positive := false, false
	for one := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' || r == ';' }) {
		pattern, out := strings.CutPrefix(one, "!")
		ok, err := path.Match(pattern, s.link)
		positive = positive || !out
		if err != nil || !ok {
			continue
		}
		if out {
			return false
		}
		in = true
	}
	return in || !positive
}

// sysfs calls set for the knobs of a file of sysfs, which may be a pattern.
func (s *search) sysfs(file string, set func(model.KnobID)) {
	for name, id := range map[string]model.KnobID{
		"/sys/class/net/" + s.link + "/gro_flush_timeout":          "rx.gro_flush_timeout",
		"/sys/class/net/" + s.link + "/napi_defer_hard_irqs":       "rx.napi_defer_hard_irqs",
		"/sys/class/net/" + s.link + "/mtu":                        "link.mtu",
		"/sys/class/net/" + s.link + "/tx_queue_len":               "txqueuelen",
		"/sys/class/net/" + s.link + "/queues/rx-0/rps_cpus":       "rps",
		"/sys/class/net/" + s.link + "/queues/rx-0/rps_flow_cnt":   "rfs.flows",
		"/sys/class/net/" + s.link + "/queues/tx-0/xps_cpus":       "xps",
		"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":    "cpu.governor",
		"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "cpu.governor",
	} {
		if ok, err := path.Match(file, name); ok && err == nil {
			set(id)
		}
	}
}
