// Package ifupdown handles interfaces(5), the permanent files of ifupdown, ifupdown2 and
// ifupdown-ng.
//
// A line of linerate's must never cost an interface its address:
//
//  1. Every command ends in "|| true": after a failed command, ifup does not run the
//     following stanzas.
//  2. The MTU is the option mtu only after the stanza that sets the address; before it,
//     it is a command.
//  3. No line of linerate's brings an interface up: there is no auto line and no
//     address.
//
// Plan tries three places and takes the first that is proven: a file of linerate's own, if a
// source line reads it; a block at the end of /etc/network/interfaces; the owner's stanza.
package ifupdown

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/command"
)

// Format is interfaces(5), for settings of links. Its zero value is ready to use.
type Format struct{}

// Outcome implements files.Format. Besides the settings of each interface it has a key for
// every other line that is not linerate's.
func (Format) Outcome(_ context.Context, h files.Host) (files.Outcome, error) {
	c := Read(h.Root)
	o := files.Outcome{Judge: "documented rules of interfaces(5)"}
	for _, a := range c.Auto {
		for link := range strings.FieldsSeq(a.Text) {
			o.Set("link/"+link+"/ifupdown/"+strings.Fields(a.Text)[0], model.FileLine{File: a.File, Number: a.Number, Text: "yes"})
		}
	}
	var links []string
	for _, s := range c.Stanzas {
		links = append(links, s.Link)
		if s.Ours {
			continue
		}
		base := "link/" + s.Link + "/ifupdown/" + s.Family + "/"
		o.Set(base+"method/"+s.Method, model.FileLine{File: s.At.File, Number: s.At.Number, Text: "yes"})
		for _, option := range s.Options {
			if option.Name != "mtu" && !harmless(option, s.Link) {
				o.Set(base+option.Name+"/"+option.Text, model.FileLine{File: option.File, Number: option.Number, Text: "yes"})
			}
		}
	}
	slices.Sort(links)
	for _, link := range slices.Compact(links) {
		for id, l := range c.Settings(link) {
			o.Set(files.LinkKey(link, id), l)
		}
	}
	return o, nil
}

// Statement is what one option sets: a knob, or a sysctl by its name.
type Statement struct {
	model.FileLine // Text is the value
	Knob           model.KnobID
	Sysctl         string
}

// Statements returns what the stanzas of an interface set, in the order in which ifup applies
// them.
func (c Config) Statements(link string) []Statement {
	var all []Statement
	for _, run := range c.runs(link) {
		for _, o := range run {
			all = append(all, o.statements(link, all)...)
		}
	}
	return all
}

// Settings returns the last statement about each knob.
func (c Config) Settings(link string) map[model.KnobID]model.FileLine {
	all := make(map[model.KnobID]model.FileLine)
	for _, s := range c.Statements(link) {
		if s.Knob != "" {
			all[s.Knob] = s.FileLine
		}
	}
	return all
}

// runs returns the options of an interface that set something, in the order in which ifup
// applies them: one list for each stanza, or one for all.
func (c Config) runs(link string) [][]Option {
	var all [][]Option
	for _, s := range c.Stanzas {
		if s.Link != link {
			continue
		}
		var run []Option
		for _, o := range s.Options {
			if o.Name == "mtu" && c.Flavour == Classic {
				if !takesMTU(s.Family, s.Method) {
					continue
				}
				if s.Family == "inet6" {
					o.Name = "mtu6"
				}
			}
			run = append(run, o)
		}
		if c.Flavour != Classic && len(all) > 0 {
			all[0] = append(all[0], run...)
			continue
		}
		all = append(all, run)
	}
	for _, run := range all {
		if c.Flavour == Two { // get_attr_value_first of its addon address
			first := slices.IndexFunc(run, func(o Option) bool { return o.Name == "mtu" })
			for i := range run {
				if run[i].Name == "mtu" && i != first {
					run[i].Name = "(second mtu)"
				}
			}
		}
		slices.SortStableFunc(run, func(a, b Option) int { return cmp.Compare(phase(a.Name), phase(b.Name)) })
	}
	return all
}

// phase orders the options of one run of ifup. What the hook of Debian's package ethtool
// reads comes last: /etc/network/if-up.d runs after the commands of up.
func phase(name string) int {
	switch {
	case name == "pre-up":
		return 0
	case name == "up", name == "post-up":
		return 2
	case hooked(Option{Name: name}, "") != "":
		return 3
	}
	return 1
}

// takesMTU reports whether a method has the option mtu, interfaces(5) of 0.8.41.
func takesMTU(family, method string) bool {
	switch family {
	case "inet":
		return slices.Contains([]string{"static", "manual", "tunnel"}, method)
	case "inet6":
		return slices.Contains([]string{"static", "manual", "tunnel", "v4tunnel", "6to4"}, method)
	}
	return false
}

// statements returns what one option sets, given the statements before it.
func (o Option) statements(link string, before []Statement) []Statement {
	about := func(id model.KnobID, sysctl, text string) Statement {
		return Statement{Knob: id, Sysctl: sysctl, FileLine: model.FileLine{File: o.File, Number: o.Number, Text: text}}
	}
	var all []Statement
	text := hooked(o, link)
	switch o.Name {
	case "mtu":
		return []Statement{about("link.mtu", "", o.Text)}
	case "mtu6": // raises the link MTU; below that it sets only net.ipv6.conf.IF.mtu
		is := 1500
		for _, s := range before {
			if n, err := number(s.Text); s.Knob == "link.mtu" && err == nil {
				is = n
			}
		}
		if want, err := number(o.Text); err == nil && want <= is {
			return nil
		}
		return []Statement{about("link.mtu", "", o.Text)}
	case "pre-up", "up", "post-up":
		text = o.Text
	}
	for _, one := range command.Settings(text, link) {
		all = append(all, about(one.Knob, "", one.Text))
	}
	sysctls := command.Sysctls(text)
	for _, name := range slices.Sorted(maps.Keys(sysctls)) {
		all = append(all, about("", name, sysctls[name]))
	}
	return all
}

// hooked returns the command that the hook of Debian's package ethtool makes from an option
// (/etc/network/if-up.d/ethtool of 6.1), "" if the hook does not read the option.
func hooked(o Option, link string) string {
	for _, one := range []struct{ option, word string }{
		{"link-speed", "speed"}, {"link-duplex", "duplex"}, {"ethernet-wol", "wol"}, {"ethernet-autoneg", "autoneg"},
	} {
		if o.Name == one.option {
			if one.word == "autoneg" && o.Text != "on" && o.Text != "off" {
				return "ethtool -s " + link + " autoneg on advertise " + o.Text
			}
			return "ethtool -s " + link + " " + one.word + " " + o.Text
		}
	}
	for _, one := range []struct{ prefix, flag string }{
		{"ethernet-pause-", "-A"}, {"hardware-irq-coalesce-", "-C"}, {"hardware-dma-ring-", "-G"}, {"offload-", "-K"},
	} {
		if word, ok := strings.CutPrefix(o.Name, one.prefix); ok {
			return "ethtool " + one.flag + " " + link + " " + word + " " + o.Text
		}
	}
	return ""
}

// harmless reports whether an option is a command that sets only what Settings understands,
// and that cannot fail.
func harmless(o Option, link string) bool {
	return slices.Contains([]string{"pre-up", "up", "post-up"}, o.Name) && strings.HasSuffix(o.Text, "|| true") && len(command.Settings(o.Text, link)) > 0 && strings.Count(o.Text, "|") == 2
}

func number(s string) (n int, err error) {
	_, err = fmt.Sscanf(s, "%d", &n)
	return n, err
}
