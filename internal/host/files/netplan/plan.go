package netplan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/networkd"
	"linerate/internal/host/files/tree"
)

// Plan implements files.Format.
func (f Format) Plan(ctx context.Context, h files.Host, r files.Request) (files.Draft, error) {
	earlier := readFiles(h.Tree(), strings.TrimPrefix(own, "/"))
	h.Root = files.Without(h.Root, func(name string) bool { return "/"+name == own })
	p := plan{host: h, request: r, definitions: Read(h.Tree()), draft: files.Draft{Want: make(map[string]string)}}
	made := h
	a, err := generate(ctx, h)
	switch {
	case err == nil:
		made.Root = files.Overlay(files.Without(h.Root, isGenerated), a.Files)
	case errors.Is(err, errors.ErrUnsupported):
		p.rules = true
	default:
		return files.Draft{}, err
	}
	for _, s := range r.Settings {
		if err := p.setting(made, s); err != nil {
			return files.Draft{}, err
		}
	}
	if len(p.entries) == 0 {
		return p.draft, nil
	}
	for _, def := range earlier {
		p.stay(def)
	}
	p.draft.Files = append([]files.File{{Path: own, Mode: 0o600, Content: p.text()}}, p.draft.Files...)
	p.draft.Commands = append(p.draft.Commands, "netplan try")
	return p.draft, p.beside(ctx, h, made)
}

type plan struct {
	host        files.Host
	request     files.Request
	definitions []*Definition
	entries     []entry
	draft       files.Draft
	rules       bool // the generator is not installed
}

// entry is the part of linerate's file about one definition.
type entry struct {
	def   *Definition
	lines []string
}

func (p *plan) setting(made files.Host, s files.Setting) error {
	if s.Text != "" {
		return nil // a kernel setting: another format holds it
	}
	if len(lines(s.Knob, s.Value)) == 0 {
		p.draft.Omitted = append(p.draft.Omitted, missing(s))
		return nil
	}
	steps := []networkd.Step{{MTU: s.Value}}
	steps[0].Device, _ = p.host.Device(p.request.Link)
	if s.Knob == "link.mtu" && !p.rules {
		var err error
		if steps, err = networkd.Steps(made, p.request.Link, s.Value); err != nil {
			return err
		}
	}
	for _, one := range steps {
		def, err := p.owner(one.Device, s)
		if err != nil {
			return err
		}
		remarks := s.Remarks
		if one.Device.Name != p.request.Link {
			remarks = []string{files.Comment("the MTU of " + p.request.Link + " needs it")}
			if one.Keeps {
				remarks = []string{files.Comment("keeps what it has, beside the MTU of " + p.request.Link)}
			}
		}
		p.add(def, remarks, lines(s.Knob, one.MTU))
		networkd.Want(p.draft.Want, one.Device.Name, s.Knob, one.MTU)
	}
	return nil
}

// owner returns the only definition of a device, which may take a setting.
func (p *plan) owner(d device.Device, s files.Setting) (*Definition, error) {
	var def *Definition
	for _, one := range p.definitions {
		switch one.IsFor(d) {
		case device.Maybe:
			return nil, files.Refuse(one.Last, "match it by macaddress, with set-name", "whether this definition is the one of %s cannot be known", d.Name)
		case device.Yes:
			if def != nil {
				return nil, files.Refuse(one.Last, "join both definitions", "%s is defined twice: %s:%d is about it too", d.Name, def.Last.File, def.Last.Number)
			}
			def = one
		case device.No:
		}
	}
	switch {
	case def == nil:
		return nil, files.Refuse(model.FileLine{}, "define it in a file of /etc/netplan", "netplan does not define %s", d.Name)
	case p.rules && (def.Kind != "ethernets" || d.Master != ""):
		return nil, files.Refuse(def.Last, "install netplan.io, or write the change by hand", "what netplan makes of %s cannot be proven: its generator is not installed", d.Name)
	case path.Base(def.Last.File) >= path.Base(own):
		return nil, files.Refuse(def.Last, "rename the file", "the file sorts behind %s, whose word would not count", own)
	case def.Kind == "ethernets" && !def.single(), def.Kind == "ethernets" && p.devices(def) > 1:
		return nil, files.Refuse(def.Last, "give "+d.Name+" a definition of its own", "this definition is about more devices than %s, which would get the setting too", d.Name)
	case def.Matched && def.Words["set-name"].Text == "" && d.KernelName != d.Name:
		return nil, files.Refuse(def.Last, "add set-name: "+d.Name, "%s is matched without set-name: netplan would write a .link file, and the interface would lose its name", d.Name)
	case def.Kind == "ethernets" && !def.Matched && d.KernelName != d.Name && s.Knob != "link.mtu":
		return nil, files.Refuse(def.Last, "match it by macaddress, with set-name: "+d.Name, "udev renames %s: the .link file that netplan would write matches it by its name, and may never apply", d.Name)
	}
	return def, nil
}

// devices counts the devices of a definition.
func (p *plan) devices(def *Definition) int {
	n := 0
	for _, d := range p.host.Devices {
		if def.IsFor(d) == device.Yes {
			n++
		}
	}
	return n
}

func (p *plan) add(def *Definition, remarks, text []string) {
	i := slices.IndexFunc(p.entries, func(e entry) bool { return e.def == def })
	if i < 0 {
		p.entries = append(p.entries, entry{def: def})
		i = len(p.entries) - 1
	}
	for _, r := range remarks {
		p.entries[i].lines = append(p.entries[i].lines, "# "+r)
	}
	p.entries[i].lines = append(p.entries[i].lines, text...)
}

// stay keeps what an earlier keep wrote into a definition that is still there, for this or
// another interface, but for the keys that are written now.
func (p *plan) stay(before *Definition) {
	i := slices.IndexFunc(p.definitions, func(d *Definition) bool { return d.Kind == before.Kind && d.ID == before.ID })
	if i < 0 {
		return
	}
	now := slices.IndexFunc(p.entries, func(e entry) bool { return e.def == p.definitions[i] })
	for _, name := range slices.Sorted(maps.Keys(before.Words)) {
		text := name + ": " + before.Words[name].Text
		_, _, known := Setting(name, before.Words[name].Text)
		if set := now >= 0 && slices.ContainsFunc(p.entries[now].lines, func(l string) bool { return strings.HasPrefix(l, name+":") }); !set && (known || name == "tcp6-segmentation-offload") {
			p.add(p.definitions[i], []string{files.Comment("kept before")}, []string{text})
		}
	}
}

// text returns linerate's file.
func (p *plan) text() []byte {
	var b strings.Builder
	b.WriteString(files.Comments(p.request.Head...) + "network:\n  version: 2\n")
	slices.SortStableFunc(p.entries, func(x, y entry) int { return cmp.Compare(order(x.def.Kind), order(y.def.Kind)) })
	kind := ""
	for _, e := range p.entries {
		if e.def.Kind != kind {
			kind = e.def.Kind
			fmt.Fprintf(&b, "  %s:\n", kind)
		}
		fmt.Fprintf(&b, "    %s:\n", quoted(e.def.ID))
		for _, l := range e.lines {
			fmt.Fprintf(&b, "      %s\n", l)
		}
	}
	return []byte(b.String())
}

// order sorts the sections: those that others build on come first.
func order(kind string) int {
	return slices.Index([]string{"ethernets", "wifis", "modems", "bonds", "bridges", "vlans"}, kind)
}

// quoted returns a name in YAML, which accepts JSON strings.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

// beside adds drop-ins for the .link files that netplan writes for the first time, so that
// they keep what the present .link file of the device sets.
func (p *plan) beside(ctx context.Context, h, made files.Host) error {
	if p.rules {
		p.draft.Notes = append(p.draft.Notes, "netplan's generator is not installed: whether its .link file takes the name of the interface is not proven")
		return nil
	}
	a, err := generate(ctx, h.With(p.draft.Files))
	if err != nil {
		return err
	}
	if strings.Contains(a.Text, own) {
		return files.Refuse(model.FileLine{File: own}, "", "netplan warns of it: %s", strings.Join(strings.Fields(a.Text), " "))
	}
	for _, f := range a.Files {
		if path.Ext(f.Path) != networkd.LinkFile || (tree.Tree{Root: made.Root}).Exists(f.Path) {
			continue
		}
		id := strings.TrimSuffix(strings.TrimPrefix(path.Base(f.Path), "10-netplan-"), networkd.LinkFile)
		for _, e := range p.entries {
			if e.def.ID != id {
				continue
			}
			for _, d := range p.host.Devices {
				if e.def.IsFor(d) != device.Yes {
					continue
				}
				extra, err := networkd.Linked(made, d, path.Base(f.Path), p.request.Head, p.request.Settings)
				if err != nil {
					return err
				}
				p.draft.Files = append(p.draft.Files, extra.Files...)
			}
		}
	}
	return nil
}

// Export implements files.Format. The type of the interface is not known, so the definition
// is a comment.
func (Format) Export(r files.Request) files.Draft {
	var d files.Draft
	var body []string
	for _, s := range r.Settings {
		switch text := lines(s.Knob, s.Value); {
		case s.Text != "":
		case len(text) == 0:
			d.Omitted = append(d.Omitted, missing(s))
		default:
			for _, remark := range s.Remarks {
				body = append(body, "#      # "+remark)
			}
			for _, l := range text {
				body = append(body, "#      "+l)
			}
		}
	}
	if len(body) == 0 {
		return d
	}
	text := files.Comments(append(slices.Clone(r.Head), "Not proven: the machine was not looked at. netplan refuses all of its files where an ID has two types,",
		"so that the settings are comments: put the section (ethernets, bonds, bridges, vlans) and the ID of the",
		"definition that owns "+r.Link+", take the # away, and run netplan generate. Members need the MTU too.")...)
	text += "network:\n  version: 2\n#  ethernets:\n#    " + quoted(r.Link) + ":\n" + strings.Join(body, "\n") + "\n"
	d.Files = []files.File{{Path: own, Mode: 0o600, Content: []byte(text)}}
	d.Commands = []string{"netplan generate", "netplan try"}
	d.Notes = []string{"netplan: the settings are comments, until you put the type and ID of the definition that owns " + r.Link}
	return d
}
