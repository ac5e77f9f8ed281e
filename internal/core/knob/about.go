package knob

import (
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
)

// Range describes the values that the knob takes on system: "4 KiB to 2 GiB".
func (k Knob) Range(system string) string {
	low, high := k.Bounds(system)
	k.Min, k.Max = low, high
	s := k.want()
	s, _, _ = strings.Cut(s, ", such as ")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "a size from "), "a rate from ")
	if k.Zero != "" && !strings.HasSuffix(s, ", or "+k.Zero) {
		s += ", or " + k.Zero
	}
	return s
}

// Risky reports whether a bad value can cut or stall the link or its path, so that connectivity
// has to be checked before and after a change: MTU, link mode, offloads, and everything else
// that makes a driver reset its link.
func (k Knob) Risky() bool {
	return k.Risk >= RiskConnection || k.Scope == ScopeLink && (k.Effect == EffectBounce || k.Effect == EffectReinit)
}

// Words describes what a bad value can do.
func (r Risk) Words() string {
	switch r {
	case RiskNone:
		return "harmless"
	case RiskWaste:
		return "may waste memory or processor time"
	case RiskSlow:
		return "may lower throughput or add latency"
	case RiskConnection:
		return "may cut the connection that carries the command"
	default:
		return "may make the host unreachable for every new connection"
	}
}

// Words says when a new value takes effect, as the end of a sentence.
func (e Effect) Words() string {
	return map[Effect]string{
		EffectNow: "at once", EffectNew: "on new connections", EffectBounce: "at once, and the link may pause for seconds",
		EffectReinit: "when the interface went down and up", EffectBoot: "after a restart",
	}[e]
}

// DefaultOn returns system's default, as far as the catalogue knows it; kernel is the version
// that it reports ("6.18.2"), "" if unknown. If the default depends on an unknown version, all
// possible defaults are listed.
func (k Knob) DefaultOn(system, kernel string) string {
	var exact, plain, general []string
	for _, d := range k.Defaults {
		name, versions, _ := strings.Cut(strings.TrimSuffix(d.System, ","), " ")
		name = strings.TrimSuffix(name, ",")
		switch {
		case name == "all" || name == "ethernet" && k.Scope == ScopeLink:
			general = append(general, d.Value)
		case name != system:
		case versions == "":
			plain = append(plain, d.Value)
		default:
			fits, known := inVersions(versions, kernel)
			switch {
			case fits:
				exact = append(exact, d.Value)
			case !known:
				plain = append(plain, d.Value+" ("+versions+")")
			}
		}
	}
	for _, list := range [][]string{exact, plain, general} {
		if len(list) > 0 {
			return strings.Join(list, ", or ")
		}
	}
	return ""
}

// inVersions reports whether a kernel is among versions: "since 6.18", "to 6.17", "before 5.4",
// "12 to 15", "6.18". known is false if that cannot be decided.
func inVersions(versions, kernel string) (fits, known bool) {
	have, ok := version(kernel)
	words := strings.Fields(versions)
	if !ok || len(words) == 0 {
		return false, false
	}
	limit, ok := version(words[len(words)-1])
	if !ok {
		return false, false
	}
	// "to 6.17" includes all of 6.17, and "to 15" all of 15.
	upTo := func(l [2]int) bool {
		if l[1] < 0 {
			return have[0] <= l[0]
		}
		return have[0] < l[0] || have[0] == l[0] && have[1] <= l[1]
	}
	below := func(l [2]int) bool { return have[0] < l[0] || have[0] == l[0] && have[1] < l[1] }
	switch {
	case len(words) == 1:
		return upTo(limit) && !below(limit), true
	case len(words) == 2 && words[0] == "since":
		return !below(limit), true
	case len(words) == 2 && words[0] == "to":
		return upTo(limit), true
	case len(words) == 2 && words[0] == "before":
		return below(limit), true
	case len(words) == 3 && words[1] == "to":
		first, ok := version(words[0])
		return ok && !below(first) && upTo(limit), ok
	}
	return false, false
}

// version parses the first two numbers of a version; the second is -1 if absent.
func version(s string) (v [2]int, ok bool) {
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end >= 0 {
		s = s[:end]
	}
	first, rest, more := strings.Cut(s, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return v, false
	}
	v = [2]int{n, -1}
	if more {
		second, _, _ := strings.Cut(rest, ".")
		if v[1], err = strconv.Atoi(second); err != nil {
			return v, false
		}
	}
	return v, true
}

// Needs lists what a change of the knob requires on system, nil if it requires nothing.
func (k Knob) Needs(system string) []string {
	n, ok := k.Native[system]
	if !ok || k.ReadOnly || n.ReadOnly || k.Scope == ScopeFlow {
		return nil
	}
	need := []string{"root on that host"}
	if system == "windows" {
		need[0] = "an administrator on that host"
	}
	if k.NeedsBoth {
		need = append(need, "both ends, and all between them, agree")
	}
	if k.Stage == StageInitial {
		need = append(need, "a ceiling above it")
	}
	switch k.EffectOn(system) {
	case EffectNew:
		need = append(need, "new connections")
	case EffectBounce:
		need = append(need, "a pause of the link, 1 to 10 s with most cards")
	case EffectReinit:
		need = append(need, "the interface to go down and up")
	case EffectBoot:
		need = append(need, "a restart of the machine")
	case EffectNow:
	}
	return need
}

// Permanent returns how to make the setting permanent on system by hand, with VALUE for the
// native text: "/etc/sysctl.d/zz-linerate.conf: NAME = VALUE". It is "" if the system cannot
// keep it (knobs.md section 1.4).
func (n Native) Permanent(system string) string {
	if n.Keep != "" {
		return n.Keep
	}
	switch {
	case n.ReadOnly:
		return ""
	case n.Mechanism == Sysctl && system == "linux":
		text := "VALUE"
		switch n.Encoding {
		case Least:
			text = "VALUE INITIAL MAX"
		case Initial:
			text = "MIN VALUE MAX"
		case Ceiling:
			text = "MIN INITIAL VALUE"
		default: // one number
		}
		return "/etc/sysctl.d/zz-linerate.conf: " + n.Name + " = " + text
	case n.Mechanism == Sysctl && system == "freebsd" && n.Effect == EffectBoot:
		return "/boot/loader.conf: " + n.Name + "=\"VALUE\""
	case n.Mechanism == Sysctl && system == "freebsd":
		return "/etc/sysctl.conf: " + n.Name + "=VALUE"
	case n.Mechanism == Sysctl && system == "darwin":
		return "/Library/LaunchDaemons/linerate.plist: /usr/sbin/sysctl " + n.Name + "=VALUE"
	case n.Mechanism == Ethtool:
		group, attribute, _ := strings.Cut(n.Name, ".")
		return "a .link file, NetworkManager's ethtool." + group + "-" + attribute + " or an ifupdown hook, by the owner of the interface"
	case n.Mechanism == IRQ:
		return "a oneshot unit or udev rule; banned in irqbalance where it moves interrupts"
	case n.Mechanism == IfIoctl && system == "freebsd":
		return "/etc/start_if.{if}: ifconfig {if} OPTION || :"
	case n.Mechanism == IfIoctl:
		return "networksetup, as far as it knows the setting"
	case n.Mechanism == Link:
		return "an ifupdown or networkd-dispatcher hook: ip link set dev {if} " + n.Name + " VALUE"
	case n.Mechanism == WinTCP:
		return "the cmdlet without -PolicyStore ActiveStore, or netsh with store=persistent"
	case n.Mechanism == WinReg:
		return "the value stays in the registry"
	}
	return ""
}

// MaxUndoTime is the upper limit of UndoTime.
const MaxUndoTime = 15 * time.Minute

const (
	undoBase = 30 * time.Second // a busy machine, a driver that takes seconds, the journal on a slow disk
	undoOne  = time.Second
	// undoBounce is for a driver that resets its link, which stalls for 1 to 10 s
	// (EffectBounce), undoReinit for one that reinitialises its card.
	undoBounce = 15 * time.Second
	undoReinit = 30 * time.Second
)

// UndoTime is the time allowed for the undo of settings, by their number and kind: the common
// timeout of controller, agent and watchdog. An unknown setting counts as one that bounces its
// link.
func (x *Index) UndoTime(ids ...model.KnobID) time.Duration {
	all := undoBase
	for _, id := range ids {
		k, known := x.ByID(id)
		switch {
		case !known, k.Effect == EffectBounce:
			all += undoBounce
		case k.Effect == EffectReinit:
			all += undoReinit
		default:
			all += undoOne
		}
	}
	return min(all, MaxUndoTime)
}
