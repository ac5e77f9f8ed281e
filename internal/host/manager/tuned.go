package manager

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/tuned"
)

// tuned adds what the active profile of TuneD sets.
func (s *search) tuned(p tuned.Profile) {
	for _, u := range p.Units {
		if u.Disabled() {
			continue
		}
		active := s.runs("tuned")
		if u.Options["cpuinfo_regex"].Text+u.Options["uname_regex"].Text != "" && active.Or(true) {
			active = fact.Unknown[bool]("the profile limits it to some processors")
		}
		for _, key := range slices.Sorted(maps.Keys(u.Options)) {
			s.tunedOption(p, u, key, u.Options[key], active)
		}
	}
}

// tunedOption adds what one option of a unit sets.
func (s *search) tunedOption(p tuned.Profile, u *tuned.Unit, key string, l model.FileLine, active fact.Of[bool]) {
	text := p.Expand(l.Text)
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
	switch u.Kind() {
	case "sysctl":
		t := turnProfile
		if p.Reapplies {
			t = turnBeforeAdmin
		}
		if c.Sets = text; strings.Contains(text, "${") {
			c.Sets = ""
		}
		s.addSysctl(t, key, c)
	case "net":
		if !s.tunedDevice(p.Expand(u.Options["devices"].Text)) || u.Options["devices_udev_regex"].Text != "" {
			return
		}
		switch key {
		case "mtu":
			set("link.mtu", text)
		case "txqueuelen":
			set("txqueuelen", text)
		case "coalesce", "pause", "ring", "channels", "features":
			for _, one := range command.EthtoolWords(key, strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,:;\t", r) })) {
				set(one.Knob, one.Text)
			}
		}
	case "cpu":
		switch key {
		case "governor": // "conservative|powersave": the first one available
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

// tunedDevice evaluates devices= of a unit: shell patterns with commas, "!" to exclude; empty
// means every device.
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

// sysfs calls set for the knobs of a sysfs file, which may be a pattern.
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
