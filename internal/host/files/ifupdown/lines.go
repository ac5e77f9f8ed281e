package ifupdown

import (
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/command"
)

// line is the text of one setting.
type line struct {
	knob    model.KnobID
	remarks []string
	mtu     string // for the option mtu; "" for a command
	command string // "post-up ethtool -G eno1 rx 4096 || true"
}

// render returns the lines for the settings of a link, and a draft with the keys that they
// change and the settings without a line.
func render(r files.Request) ([]line, files.Draft) {
	d := files.Draft{Want: make(map[string]string)}
	var lines []line
	for _, s := range r.Settings {
		if s.Text != "" {
			continue // a kernel setting
		}
		text, ok := shell(s.Knob, r.Link, s.Value)
		if !ok {
			d.Omitted = append(d.Omitted, model.Omission{Knob: s.Knob, Value: s.Value, Reason: "no command sets it from a hook"})
			continue
		}
		l := line{knob: s.Knob, remarks: s.Remarks, command: "post-up " + text + " || true"}
		if s.Knob == "link.mtu" {
			l.mtu = s.Value
		}
		if s.Knob == "link.mtu" || strings.HasPrefix(string(s.Knob), "nic.ring.") || strings.HasPrefix(string(s.Knob), "nic.queues.") {
			l.command = "pre-up " + text + " || true" // a change of these may take the link down
		}
		lines = append(lines, l)
		for _, one := range command.Settings(text, r.Link) {
			d.Want[files.LinkKey(r.Link, one.Knob)] = one.Text
		}
	}
	return lines, d
}

// stanzas returns linerate's stanzas, one for each interface. After the owner's stanza they
// have the option mtu, before it a command.
func stanzas(all []part, behind func(part) bool) []byte {
	var b strings.Builder
	comment := func(indent string, lines []string) {
		for _, l := range lines {
			b.WriteString(indent + "# " + l + "\n")
		}
	}
	for i, p := range all {
		if i == 0 {
			comment("", p.Head)
			comment("", []string{"A second stanza of the interface, beside your own; no line of it can fail."})
		}
		b.WriteString("iface " + p.Link + " inet manual\n")
		for _, l := range p.lines {
			comment("    ", l.remarks)
			if l.mtu != "" && behind(p) {
				b.WriteString("    mtu " + l.mtu + "\n")
				continue
			}
			b.WriteString("    " + l.command + "\n")
		}
	}
	return []byte(b.String())
}

// Export implements files.Format.
func (Format) Export(r files.Request) files.Draft {
	lines, d := render(r)
	if len(lines) == 0 {
		return d
	}
	r.Head = append(slices.Clip(r.Head),
		"Not proven: that /etc/network/interfaces has a source line that reads this file,",
		"that it brings the interface up, and that no later stanza sets the same.")
	d.Files = []files.File{{Path: Own, Mode: 0o644, Content: stanzas([]part{{r, lines}}, func(part) bool { return false })}}
	d.Commands = []string{"ifquery " + r.Link, "ifup --no-act --force -v " + r.Link}
	d.Notes = append(d.Notes, "the lines hold from the next time that ifup brings "+r.Link+" up; look at what ifup would run before")
	return d
}

// shell returns the command that sets a knob of a link.
func shell(id model.KnobID, link, value string) (string, bool) {
	format, ok := commands()[id]
	if value == "0" && id == "nic.media.speed" || value == "auto" && id == "nic.media.duplex" {
		format, value = commands()["nic.media.autoneg"], "1"
	}
	word := "off"
	if value == "1" {
		word = "on"
	}
	return strings.NewReplacer("{if}", link, "{switch}", word, "{value}", value).Replace(format), ok
}

// commands returns the commands of ip-link(8), tc(8) and ethtool(8).
func commands() map[model.KnobID]string {
	all := map[model.KnobID]string{
		"link.mtu":          "ip link set dev {if} mtu {value}",
		"txqueuelen":        "ip link set dev {if} txqueuelen {value}",
		"nic.gso_max_size":  "ip link set dev {if} gso_max_size {value}",
		"nic.gro_max_size":  "ip link set dev {if} gro_max_size {value}",
		"qdisc":             "tc qdisc replace dev {if} root {value}",
		"nic.media.autoneg": "ethtool -s {if} autoneg {switch}",
		"nic.media.speed":   "ethtool -s {if} autoneg off speed {value}",
		"nic.media.duplex":  "ethtool -s {if} autoneg off duplex {value}",
		"nic.eee":           "ethtool --set-eee {if} eee {switch}",
	}
	for option, o := range command.Options() { // "ring rx"
		group, word, _ := strings.Cut(option, " ")
		value := "{value}"
		if group == "pause" || strings.HasPrefix(word, "adaptive-") {
			value = "{switch}"
		}
		all[o.Knob] = "ethtool " + map[string]string{"coalesce": "-C", "pause": "-A", "ring": "-G", "channels": "-L"}[group] + " {if} " + word + " " + value
	}
	for word, id := range command.Features() {
		if !strings.Contains(word, "-") || word == "rx-gro-hw" { // ethtool learnt the long words later
			all[id] = "ethtool -K {if} " + word + " {switch}"
		}
	}
	return all
}
