package netplan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/networkd"
	"linerate/internal/host/files/tree"
)

// Format is netplan(5), of settings of links. Its zero value is ready.
type Format struct{}

// generated are the folders below /run that the generator writes.
func generated() []string {
	return []string{"run/systemd/network", "run/NetworkManager/system-connections", "run/udev/rules.d"}
}

// isGenerated reports whether a file was made by netplan.
func isGenerated(name string) bool {
	base := path.Base(name)
	return slices.Contains(generated(), path.Dir(name)) && (strings.HasPrefix(base, "10-netplan-") || strings.HasPrefix(base, "netplan-") || strings.Contains(base, "-netplan"))
}

// Outcome implements files.Format: it has netplan's generator make its files, and
// says what udev, systemd-networkd and NetworkManager make of these. Without the
// generator it goes by netplan's merging of definitions.
func (Format) Outcome(ctx context.Context, h files.Host) (files.Outcome, error) {
	a, err := generate(ctx, h)
	if errors.Is(err, errors.ErrUnsupported) {
		return merged(h), nil
	}
	if err != nil {
		return files.Outcome{}, err
	}
	made := files.Host{Root: files.Overlay(files.Without(h.Root, isGenerated), a.Files), System: h.System, Devices: h.Devices}
	o := networkd.Outcome(made, a.Program+" over a copy, and the documented rules of systemd.network(5) and systemd.link(5)")
	byFile := make(map[string]*Definition)
	for _, d := range Read(h.Tree()) {
		byFile["/run/NetworkManager/system-connections/netplan-"+d.ID+".nmconnection"] = d
	}
	for _, f := range a.Files {
		switch {
		case path.Ext(f.Path) == ".rules":
			for i, line := range strings.Split(string(f.Content), "\n") {
				o.Set(fmt.Sprintf("udev%s/%d", f.Path, i+1), model.FileLine{File: f.Path, Number: i + 1, Text: line})
			}
		case path.Ext(f.Path) == ".nmconnection":
			connection(&o, made, f.Path, byFile[f.Path])
		}
	}
	return o, nil
}

// connection adds a profile of NetworkManager.
func connection(o *files.Outcome, h files.Host, file string, def *Definition) {
	for _, e := range h.Tree().INI(strings.TrimPrefix(file, "/")) {
		if def != nil && e.Section == "ethernet" && e.Key == "mtu" {
			for _, d := range h.Devices {
				if def.IsFor(d) == device.Yes {
					o.Set(files.LinkKey(d.Name, "link.mtu"), e.FileLine)
				}
			}
			continue
		}
		o.Set("nm"+file+"/"+e.Section+"."+e.Key, e.FileLine)
	}
}

// generate runs netplan's generator over a copy of its files. What it refuses is a
// *files.Refusal.
func generate(ctx context.Context, h files.Host) (files.Answer, error) {
	if h.Ask == nil {
		return files.Answer{}, errors.ErrUnsupported
	}
	a, err := h.Ask(ctx, h.Root, files.Question{
		Programs: []string{"/usr/libexec/netplan/generate", "/lib/netplan/generate"}, Args: []string{"--root-dir", files.CopyDir},
		Parts: dirs(), Answers: generated(),
	})
	if err != nil || a.Code == 0 {
		return a, err
	}
	r := &files.Refusal{Why: "netplan refuses its files: " + strings.Join(strings.Fields(a.Text), " "), Hint: "make netplan generate succeed first"}
	for word := range strings.FieldsSeq(a.Text) { // /etc/netplan/90-lan.yaml:4:5: Error in network definition: …
		parts := strings.Split(word, ":")
		if line, err := strconv.Atoi(parts[min(1, len(parts)-1)]); err == nil && strings.HasPrefix(parts[0], "/") {
			r.File, r.Line = parts[0], line
			break
		}
	}
	return a, r
}

// merged is the outcome by netplan's own rules of merging.
func merged(h files.Host) files.Outcome {
	o := files.Outcome{Judge: "documented rules of netplan(5); its generator is not installed"}
	for _, def := range Read(h.Tree()) {
		link := ""
		for _, d := range h.Devices {
			if def.IsFor(d) == device.Yes {
				link = d.Name
			}
		}
		for word, l := range def.Words {
			if id, value, ok := Setting(word, l.Text); ok && link != "" {
				l.Text = value
				o.Set(files.LinkKey(link, id), l)
				continue
			}
			o.Set("netplan/"+def.Kind+"/"+def.ID+"/"+word, l)
		}
	}
	return o
}

// key is a key of a definition in netplan(5), version 1.0, with its knob.
type key struct {
	name string
	knob model.KnobID
}

// keys returns the table. A knob may have two keys.
func keys() []key {
	return []key{
		{"mtu", "link.mtu"}, {"wakeonlan", "nic.wol"},
		{"receive-checksum-offload", "nic.offload.rx_csum"}, {"transmit-checksum-offload", "nic.offload.tx_csum"},
		{"tcp-segmentation-offload", "nic.offload.tso"}, {"tcp6-segmentation-offload", "nic.offload.tso"},
		{"generic-segmentation-offload", "nic.offload.gso"}, {"generic-receive-offload", "nic.offload.gro"}, {"large-receive-offload", "nic.offload.lro"},
	}
}

// Setting returns the knob that a key of a definition sets, and its canonical
// value. ok is false where no knob stands behind the key.
func Setting(name, text string) (id model.KnobID, value string, ok bool) {
	i := slices.IndexFunc(keys(), func(k key) bool { return k.name == name })
	if i < 0 || name == "tcp6-segmentation-offload" || text == "" {
		return "", "", false
	}
	switch name {
	case "mtu":
	case "wakeonlan":
		text = cmp.Or(map[string]string{"1": "magic", "0": "none"}[command.Switch(text)], text)
	default:
		text = command.Truth(text)
	}
	return keys()[i].knob, text, true
}

// lines returns the keys of a definition that set a knob; none where netplan has no
// word for the value.
func lines(id model.KnobID, value string) []string {
	var all []string
	for _, k := range keys() {
		if k.knob != id {
			continue
		}
		text := map[string]string{"1": "true", "0": "false"}[value]
		switch id {
		case "link.mtu":
			text = value
		case "nic.wol": // a switch for magic packets only
			text = map[string]string{"magic": "true", "none": "false"}[value]
		}
		if text != "" {
			all = append(all, k.name+": "+text)
		}
	}
	return all
}

// own is our file, behind those of every other name that people use.
const own = "/etc/netplan/zz-linerate.yaml"

// missing is why netplan cannot hold a setting.
func missing(s files.Setting) model.Omission {
	if len(networkd.Lines(s.Knob, s.Value)) == 0 {
		return model.Omission{Knob: s.Knob, Value: s.Value, Reason: "netplan has no key for it, and " + networkd.Missing(s)}
	}
	return model.Omission{Knob: s.Knob, Value: s.Value, Reason: "netplan has no key for " + s.Name + "; put it into a drop-in of the .link file that netplan makes"}
}

// Plan implements files.Format.
func (f Format) Plan(ctx context.Context, h files.Host, r files.Request) (files.Draft, error) {
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

// entry is what our file says of one definition.
type entry struct {
	def   *Definition
	lines []string
}

func (p *plan) setting(made files.Host, s files.Setting) error {
	if s.Text != "" {
		return nil // of the kernel: another format has it
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

// owner is the one definition of a device, into which a setting may go.
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
		return nil, &files.Refusal{Why: "netplan does not define " + d.Name, Hint: "define it in a file of /etc/netplan"}
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

// devices counts the devices that a definition is about.
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

// text is our file.
func (p *plan) text() []byte {
	var b strings.Builder
	for _, c := range p.request.Head {
		fmt.Fprintf(&b, "# %s\n", c)
	}
	b.WriteString("network:\n  version: 2\n")
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

// order is that of the sections: what others are made of comes first.
func order(kind string) int {
	return slices.Index([]string{"ethernets", "wifis", "modems", "bonds", "bridges", "vlans"}, kind)
}

// quoted is a name as YAML, which takes JSON's texts.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

// beside adds drop-ins for the .link files that netplan writes for the first time,
// so that they say what the present .link file of the device says.
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
		return &files.Refusal{File: own, Why: "netplan warns of it: " + strings.Join(strings.Fields(a.Text), " ")}
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

// Export returns a file for a machine that is not looked at. Which type the
// interface has there is not known: the definition is a comment.
func Export(r files.Request) files.Draft {
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
	var b strings.Builder
	for _, c := range append(slices.Clone(r.Head), "Not proven: the machine was not looked at. netplan refuses all of its files where an ID has two types,",
		"so that the settings are comments: put the section (ethernets, bonds, bridges, vlans) and the ID of the",
		"definition that owns "+r.Link+", take the # away, and run netplan generate. Members need the MTU too.") {
		fmt.Fprintf(&b, "# %s\n", c)
	}
	b.WriteString("network:\n  version: 2\n#  ethernets:\n#    " + quoted(r.Link) + ":\n")
	b.WriteString(strings.Join(body, "\n") + "\n")
	d.Files = []files.File{{Path: own, Mode: 0o600, Content: []byte(b.String())}}
	d.Commands = []string{"netplan generate", "netplan try"}
	d.Notes = []string{"netplan: the settings are comments, until you put the type and ID of the definition that owns " + r.Link}
	return d
}
