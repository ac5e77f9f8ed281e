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
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
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

// part holds the lines that a plan adds for one interface.
type part struct {
	files.Request
	lines []line
}

// parts returns the lines for the interface of a request, after those that its MTU needs for
// its ports and parents. Lines of an earlier keep are rewritten.
func parts(h files.Host, c Config, o files.Outcome, r files.Request) (all []part, d files.Draft) {
	lines, d := render(r)
	if len(lines) == 0 {
		return nil, d
	}
	lasting := files.Outcome{Values: maps.Clone(o.Values)}
	maps.DeleteFunc(lasting.Values, func(_ string, l model.FileLine) bool { return c.ours(l) })
	for _, member := range h.Members(lasting, r) {
		lines, more := render(member)
		maps.Copy(d.Want, more.Want)
		all = append(all, part{member, lines})
	}
	return append(all, part{r, lines}), d
}

// startsBefore refuses an interface that no line brings up, or that comes up after the VLAN
// above it.
func (c Config) startsBefore(link string, above device.Device) error {
	owner := slices.IndexFunc(c.Stanzas, func(s Stanza) bool { return s.Link == link && !s.Ours })
	if owner < 0 {
		return files.Refuse(model.FileLine{File: Main}, "define "+link+" there first", "no iface line defines %s", link)
	}
	at, mine := c.Stanzas[owner].At, c.started(link)
	if mine < 0 {
		return files.Refuse(at, "add a line: auto "+link, "no auto line brings %s up at the start", link)
	}
	if c.Flavour == Classic && above.Kind == "vlan" && mine > c.started(above.Name) {
		return files.Refuse(c.Auto[mine/maxWords], "put "+link+" before "+above.Name, "%s comes up behind %s, which needs its MTU", link, above.Name)
	}
	return nil
}

// Plan implements files.Format.
func (f Format) Plan(ctx context.Context, h files.Host, r files.Request) (files.Draft, error) {
	c := Read(h.Root)
	before, err := f.Outcome(ctx, h)
	if err != nil {
		return files.Draft{}, err
	}
	all, d := parts(h, c, before, r)
	if len(all) == 0 {
		return d, nil
	}
	if len(c.Unproven) > 0 {
		return d, files.Refuse(c.Unproven[0], "write plain paths and names there", "linerate cannot tell what %q means for %s", c.Unproven[0].Text, r.Link)
	}
	for i, p := range all {
		above, _ := h.Device(all[min(i+1, len(all)-1)].Link)
		if err := c.startsBefore(p.Link, above); err != nil {
			return d, err
		}
	}
	want := d.Want
	var refusal error
	for _, try := range []func() ([]files.File, error){
		func() ([]files.File, error) { return ownFile(h, c, all) },
		func() ([]files.File, error) { return ownBlock(h, all) },
		func() ([]files.File, error) { return ownersStanzas(h, all) },
	} {
		written, err := try()
		if errors.Is(err, errNotHere) {
			continue
		}
		if err == nil {
			d.Files = written
			var after files.Outcome
			if after, err = f.Outcome(ctx, h.With(d.Files)); err == nil {
				d.Want = maps.Clone(want)
				for _, p := range all {
					for id, l := range c.Settings(p.Link) { // replaced lines of linerate's
						key := files.LinkKey(p.Link, id)
						if _, wanted := want[key]; !wanted && c.ours(l) {
							d.Want[key] = after.Values[key].Text
						}
					}
				}
				err = files.Prove(before, after, d.Want)
			}
		}
		if err == nil {
			return d, nil
		}
		refusal = err
	}
	d.Files = nil
	return d, refusal
}

// ours reports whether a line is in a file or a block of linerate's.
func (c Config) ours(l model.FileLine) bool {
	return slices.ContainsFunc(c.Stanzas, func(s Stanza) bool {
		return slices.ContainsFunc(s.Options, func(o Option) bool { return o.Ours && o.File == l.File && o.Number == l.Number })
	})
}

// errNotHere makes Plan try the next place.
var errNotHere = errors.New("not in this place")

// maxWords is more than the number of names in an auto line.
const maxWords = 1 << 16

// started returns when an auto or allow-… line brings an interface up: the line's index times
// maxWords, plus that of the name in the line. ifupdown2 also brings up the parts of an
// interface. -1 means never.
func (c Config) started(link string) int {
	for i, a := range c.Auto {
		words := strings.Fields(a.Text)
		for j, pattern := range words[1:] {
			if ok, err := path.Match(strings.TrimPrefix(pattern, "/"), link); ok && err == nil && slices.Contains([]string{"auto", "allow-auto", "allow-hotplug"}, words[0]) {
				return i*maxWords + j
			}
		}
	}
	if c.Flavour == Classic {
		return -1
	}
	for _, s := range c.Stanzas {
		for _, o := range s.Options {
			if makesDevice(o.Name) && s.Link != link && slices.Contains(strings.Fields(o.Text), link) {
				if at := c.started(s.Link); at >= 0 {
					return at
				}
			}
		}
	}
	return -1
}

// makesDevice reports whether an option makes a bridge, a bond or a VLAN of other interfaces.
func makesDevice(option string) bool {
	return slices.Contains([]string{"bridge_ports", "bridge-ports", "bond-slaves", "bond_slaves", "slaves", "vlan-raw-device", "vlan_raw_device"}, option)
}

// makes returns the line that creates an interface, which does not exist before its stanza
// has run.
func (c Config) makes(link string) (model.FileLine, bool) {
	for _, s := range c.Stanzas {
		if s.Link != link || s.Ours {
			continue
		}
		for _, o := range s.Options {
			if makesDevice(o.Name) || strings.HasPrefix(o.Name, "tunnel") || strings.Contains(o.Text, "link add") {
				return o.FileLine, true
			}
		}
		if strings.Contains(link, ".") || strings.HasPrefix(link, "vlan") || s.Method == "tunnel" {
			return s.At, true
		}
	}
	return model.FileLine{}, false
}

// ownFile writes a file of linerate's own, which a source line must read.
func ownFile(h files.Host, c Config, all []part) ([]files.File, error) {
	if proxmox(h) {
		return nil, errNotHere
	}
	file := files.File{Path: Own, Mode: 0o644, Content: stanzas(all, func(part) bool { return true })}
	read := Read(h.With([]files.File{file}).Root).Stanzas
	ours := slices.IndexFunc(read, func(s Stanza) bool { return s.At.File == Own })
	if ours < 0 {
		return nil, errNotHere
	}
	early := false
	file.Content = stanzas(all, func(p part) bool {
		behind := !slices.ContainsFunc(read[ours:], func(s Stanza) bool { return s.Link == p.Link && !s.Ours })
		_, made := c.makes(p.Link)
		early = early || made && !behind // the interface does not exist yet
		return behind
	})
	if early {
		return nil, errNotHere
	}
	return []files.File{file}, nil
}

// ownBlock appends linerate's block to the main file.
func ownBlock(h files.Host, all []part) ([]files.File, error) {
	if proxmox(h) {
		return nil, errNotHere
	}
	text := slices.Concat([]byte(files.BlockBegin+"\n"), stanzas(all, func(part) bool { return true }), []byte(files.BlockEnd+"\n"))
	return []files.File{{Path: Main, Mode: 0o644, Block: true, Content: text}}, nil
}

// proxmox reports whether the web interface of Proxmox VE rewrites the main file. It knows
// one stanza of each interface.
func proxmox(h files.Host) bool {
	return h.Tree().Exists("usr/share/perl5/PVE") || strings.Contains(string(h.Tree().Read(Main)), "web interface of Proxmox") || slices.ContainsFunc([]string{"etc/pve", "usr/share/pve-manager"}, h.Tree().Exists)
}

// ownersStanzas puts the lines of each interface into its owner's stanza.
func ownersStanzas(h files.Host, all []part) (written []files.File, err error) {
	for _, p := range all {
		file, err := ownersStanza(h.With(written), p.Request, p.lines)
		if err != nil {
			return nil, err
		}
		written = append(slices.DeleteFunc(written, func(f files.File) bool { return f.Path == file.Path }), file)
	}
	return written, nil
}

// ownersStanza puts the lines into the owner's stanza: an mtu replaces the one there.
func ownersStanza(h files.Host, r files.Request, lines []line) (files.File, error) {
	c := Read(h.Root)
	var owner Stanza
	for _, s := range c.Stanzas {
		if s.Link == r.Link && !s.Ours && (owner.Link == "" || s.Family == "inet" && owner.Family != "inet") {
			owner = s
		}
	}
	file := owner.At.File
	text := strings.SplitAfter(string(h.Tree().Read(file)), "\n")
	var added []string
	at := owner.At.Number
	if at > len(text) || !strings.HasSuffix(text[at-1], "\n") || strings.HasSuffix(strings.TrimSpace(text[at-1]), `\`) {
		return files.File{}, files.Refuse(owner.At, "end the line there", "nothing can be written behind this line")
	}
	for _, l := range lines {
		for _, o := range owner.Options { // of an earlier keep
			if o.File == file && harmless(o, r.Link) && command.Settings(o.Text, r.Link)[0].Knob == l.knob {
				text[o.Number-1] = ""
			}
		}
		if l.mtu == "" || c.Flavour == Classic && !takesMTU(owner.Family, owner.Method) {
			added = append(added, "    "+l.command+"\n")
			continue
		}
		i := slices.IndexFunc(owner.Options, func(o Option) bool { return o.Name == "mtu" && o.File == file })
		if i < 0 {
			added = append(added, "    mtu "+l.mtu+"\n")
			continue
		}
		n := owner.Options[i].Number - 1
		indent := text[n][:len(text[n])-len(strings.TrimLeft(text[n], " \t"))]
		text[n] = indent + "mtu " + l.mtu + "\n"
	}
	text = slices.Insert(text, at, added...)
	mode := fs.FileMode(0o644)
	if info, err := fs.Stat(h.Root, strings.TrimPrefix(file, "/")); err == nil {
		mode = info.Mode().Perm()
	}
	return files.File{Path: file, Mode: mode, Content: []byte(strings.Join(text, ""))}, nil
}
