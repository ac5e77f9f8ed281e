package native

import (
	"slices"
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/sysctl"
)

// owner is who keeps the settings of an interface on Linux.
type owner interface {
	// render takes the entries that it can hold.
	render(r *rendering)
	// why says why it cannot hold a setting.
	why(e *entry) string
}

// linux renders the settings of the kernel, and those of a link by its owner.
func (r *rendering) linux(o owner) {
	r.sysctls()
	o.render(r)
	for _, e := range r.entries {
		if !e.used {
			r.omit(e, "%s", o.why(e))
		}
	}
}

// sysctls renders sysctl.d(5), and modules-load.d(5) for congestion controls.
func (r *rendering) sysctls() {
	req := files.Request{Head: r.head()}
	for _, t := range r.texts(r.take(knob.Sysctl)) {
		req.Settings = append(req.Settings, t.setting())
	}
	r.draft(sysctl.Export(req))
}

// ownerless leaves the settings of links out.
type ownerless struct{}

func (ownerless) render(*rendering) {}
func (ownerless) why(e *entry) string {
	if e.native.Mechanism == knob.IRQ || e.native.Mechanism == knob.Qdisc || e.native.Mechanism == knob.Route {
		return noOwner(e)
	}
	return "not a sysctl: the owner of the interface keeps it (systemd-networkd, netplan, networkmanager, ifupdown)"
}

// noOwner is why no owner of an interface has a key for e.
func noOwner(e *entry) string {
	switch {
	case e.knob.ID == "qdisc":
		return "set qdisc.default (net.core.default_qdisc) instead, or run tc from a hook"
	case e.native.Mechanism == knob.Qdisc:
		return "run tc from a hook"
	case e.native.Mechanism == knob.Route:
		return "belongs to a route: put it where that route is configured"
	case e.native.Mechanism == knob.IRQ:
		return e.native.Permanent("linux")
	}
	return "there is no key for " + e.name + "; an ifupdown or networkd-dispatcher hook can set it"
}

// yes writes a canonical switch as a word of unit files.
func yes(value string) string {
	if value == "1" {
		return "yes"
	}
	return "no"
}

// truth writes a canonical switch as YAML and keyfiles have it.
func truth(value string) string {
	if value == "1" {
		return "true"
	}
	return "false"
}

// keys is the line or the lines that a value becomes; none where the owner
// cannot say the value.
type keys func(value string) []string

func key(format string) keys {
	return func(v string) []string { return []string{strings.ReplaceAll(format, "VALUE", v)} }
}

func keyOf(format string, word func(string) string) keys {
	return func(v string) []string { return []string{strings.ReplaceAll(format, "VALUE", word(v))} }
}

// lines takes the entries that a table has keys for and returns them with their
// lines, each line once.
func (r *rendering) lines(table map[model.KnobID]keys) []keyed {
	var all []keyed
	seen := map[string]bool{}
	for _, e := range r.entries {
		k, ok := table[e.knob.ID]
		if !ok || e.used {
			continue
		}
		lines := k(e.value)
		if len(lines) == 0 {
			continue
		}
		e.used = true
		all = append(all, keyed{e, slices.DeleteFunc(lines, func(l string) bool { return seen[l] })})
		for _, l := range lines {
			seen[l] = true
		}
	}
	return all
}

// has reports whether there is an entry for id.
func (r *rendering) has(id model.KnobID) bool {
	return slices.ContainsFunc(r.entries, func(e *entry) bool { return e.knob.ID == id })
}

// keyed is an entry with its lines.
type keyed struct {
	*entry
	lines []string
}
