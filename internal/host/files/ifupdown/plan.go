package ifupdown

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

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
	if c.Flavour == Classic && above.Parent != "" && mine > c.started(above.Name) {
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
		return d, files.Refuse(c.Unproven[0], "write plain paths and names, and each option once and in a stanza", "linerate cannot tell what %q means for %s", c.Unproven[0].Text, r.Link)
	}
	if err := c.readable(ctx, h); err != nil {
		return d, err
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
		func() ([]files.File, error) { return ownBlock(h, c, all) },
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

// readable asks ifquery whether it can read the main file: after a wrong line ifup reads
// nothing. Only ifupdown's own is asked, which changes nothing.
func (c Config) readable(ctx context.Context, h files.Host) error {
	if h.Ask == nil || c.Flavour != Classic {
		return nil
	}
	a, err := h.Ask(ctx, h.Root, files.Question{Programs: []string{"/usr/sbin/ifquery", "/sbin/ifquery"}, Args: []string{"--list", "--all", "-i", files.CopyDir + Main}, Parts: []string{"etc/network"}})
	if errors.Is(err, errors.ErrUnsupported) || err == nil && a.Code == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	at := model.FileLine{File: Main}
	for word := range strings.FieldsSeq(a.Text) { // ifquery: /etc/network/interfaces:3: misplaced option
		parts := strings.Split(word, ":")
		if line, err := strconv.Atoi(parts[min(1, len(parts)-1)]); err == nil && strings.HasPrefix(parts[0], "/") {
			at.File, at.Number = parts[0], line
			break
		}
	}
	return files.Refuse(at, "make ifquery --list succeed first", "ifupdown cannot read it: %s", strings.Join(strings.Fields(a.Text), " "))
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
			if tree.Match(strings.TrimPrefix(pattern, "/"), link) && slices.Contains([]string{"auto", "allow-auto", "allow-hotplug"}, words[0]) {
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
	rest := c.rest(Own, all)
	file := files.File{Path: Own, Mode: 0o644, Content: append(stanzas(all, func(part) bool { return true }), rest...)}
	read := Read(h.With([]files.File{file}).Root).Stanzas
	ours := slices.IndexFunc(read, func(s Stanza) bool { return s.At.File == Own })
	if ours < 0 {
		return nil, errNotHere
	}
	early := false
	file.Content = append(stanzas(all, func(p part) bool {
		behind := !slices.ContainsFunc(read[ours:], func(s Stanza) bool { return s.Link == p.Link && !s.Ours })
		_, made := c.makes(p.Link)
		early = early || made && !behind // the interface does not exist yet
		return behind
	}), rest...)
	if early {
		return nil, errNotHere
	}
	return []files.File{file}, nil
}

// rest returns linerate's stanzas in a file for interfaces that a plan does not concern.
func (c Config) rest(file string, all []part) []byte {
	var b strings.Builder
	for _, s := range c.Stanzas {
		if !s.Ours || s.At.File != file || slices.ContainsFunc(all, func(p part) bool { return p.Link == s.Link }) {
			continue
		}
		b.WriteString("# kept before\niface " + s.Link + " " + s.Family + " " + s.Method + "\n")
		for _, o := range s.Options {
			b.WriteString("    " + o.Name + " " + o.Text + "\n")
		}
	}
	return []byte(b.String())
}

// ownBlock appends linerate's block to the main file.
func ownBlock(h files.Host, c Config, all []part) ([]files.File, error) {
	if proxmox(h) {
		return nil, errNotHere
	}
	text := slices.Concat([]byte(files.BlockBegin+"\n"), stanzas(all, func(part) bool { return true }), c.rest(Main, all), []byte(files.BlockEnd+"\n"))
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
