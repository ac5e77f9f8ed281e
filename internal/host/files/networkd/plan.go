package networkd

import (
	"context"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/device"
)

// Plan implements files.Format.
func (Format) Plan(_ context.Context, h files.Host, r files.Request) (files.Draft, error) {
	p := plan{config: read(withoutOurs(h, r.Link)), request: r, draft: files.Draft{Want: make(map[string]string)}}
	if d, ok := h.Device(r.Link); ok && slices.ContainsFunc(r.Settings, func(s files.Setting) bool { return s.Text == "" }) {
		if err := p.named(d); err != nil {
			return files.Draft{}, err
		}
	}
	var rest []files.Setting
	for _, s := range r.Settings {
		switch {
		case s.Text != "": // a kernel setting: another format holds it
		case s.Knob == "link.mtu":
			all, err := Steps(withoutOurs(h, r.Link), r.Link, s.Value)
			if err != nil {
				return files.Draft{}, err
			}
			for _, one := range all {
				left, err := p.mtu(one, s)
				if err != nil {
					return files.Draft{}, err
				}
				rest = append(rest, left...)
			}
		case len(Lines(s.Knob, s.Value)) == 0:
			p.draft.Omitted = append(p.draft.Omitted, model.Omission{Knob: s.Knob, Value: s.Value, Reason: Missing(s)})
		default:
			rest = append(rest, s)
		}
	}
	if len(rest) > 0 {
		if err := p.link(rest); err != nil {
			return files.Draft{}, err
		}
	}
	return p.draft, nil
}

// Missing returns why a setting has no key in a .link file.
func Missing(s files.Setting) string {
	if s.Knob == "qdisc" {
		return "set qdisc.default (net.core.default_qdisc) instead, or run tc from a networkd-dispatcher script"
	}
	return "a .link file has no key for " + s.Name + "; a networkd-dispatcher script can set it"
}

type plan struct {
	config  *config
	request files.Request
	draft   files.Draft
}

// mtu plans the MTU of one device in a drop-in of its .network file. Without such a file, it
// leaves the setting for the .link file of the requested device.
func (p *plan) mtu(one Step, s files.Setting) (left []files.Setting, err error) {
	d := one.Device
	u, sure := p.config.winner(d, NetworkFile)
	p.draft.Want[files.LinkKey(d.Name, "link.mtu")] = one.MTU
	if master, ok := p.config.device(d.Master); ok && master.Kind == "bond" && d.Name != p.request.Link && !u.single(NetworkFile) && statedMTU(u.INI, "Link") == nil {
		return nil, nil // it follows the bond
	}
	switch {
	case !sure:
		return nil, files.Refuse(u.matchLine(), "match "+d.Name+" by Name=", "whether this file is the one of %s cannot be known before the next start", d.Name)
	case u.File == "" && d.Name == p.request.Link:
		return []files.Setting{s}, nil
	case u.File == "":
		return nil, files.Refuse(model.FileLine{}, "give it a .network file, or run linerate keep for it first", "%s needs an MTU of %s, and no .network file is about it", d.Name, one.MTU)
	case !u.single(NetworkFile):
		return nil, files.Refuse(u.matchLine(), "give "+d.Name+" a .network file of its own that sorts before it", "this file is about more than %s, which would get the MTU too", d.Name)
	}
	remarks := s.Remarks
	if d.Name != p.request.Link {
		remarks = []string{files.Comment("the MTU of " + p.request.Link + " needs it")}
		if one.Keeps {
			remarks = []string{files.Comment("keeps what it has, beside the MTU of " + p.request.Link)}
		}
	}
	p.write(dropIn(u), nil, [][]string{append(comments(remarks), "MTUBytes="+one.MTU)})
	return nil, nil
}

// named refuses a card that will have another name after the next boot, since settings for
// its present name would then not apply to it. It trusts a name policy.
func (p *plan) named(d device.Device) error {
	u, _ := p.config.winner(d, LinkFile)
	name, policy := u.Text("Link", "Name"), u.Text("Link", "NamePolicy")
	if !d.Hardware || u.File == "" || policy != "" || name == d.Name || name == "" && d.KernelName == d.Name {
		return nil
	}
	return files.Refuse(u.matchLine(), "add Name="+d.Name+" to its [Link] section", "this file counts for %s, and would not give it that name", d.Name)
}

// link plans settings in a drop-in of the .link file, or in a .link file of linerate's own if
// the present one belongs to the distribution.
func (p *plan) link(settings []files.Setting) error {
	d, _ := p.config.device(p.request.Link)
	u, err := p.linkWinner(d)
	if err != nil {
		return err
	}
	var blocks [][]string
	for _, s := range settings {
		blocks = append(blocks, append(comments(s.Remarks), Lines(s.Knob, s.Value)...))
		Want(p.draft.Want, d.Name, s.Knob, s.Value)
	}
	p.draft.Commands = append(p.draft.Commands, "udevadm control --reload")
	p.draft.Notes = append(p.draft.Notes, "the initramfs may hold copies of .link files: run update-initramfs -u, or dracut -f")
	if u.single(LinkFile) {
		p.write(dropIn(u), nil, blocks)
		return nil
	}
	own := ownLink(d.Name)
	switch vendor := strings.HasPrefix(u.File, "/usr/lib/") || strings.HasPrefix(u.File, "/lib/"); {
	case u.File != "" && !vendor:
		return files.Refuse(u.matchLine(), "give "+d.Name+" a .link file of its own that sorts before it", "this file is about more than %s, which would get the settings too", d.Name)
	case path.Base(u.File) < path.Base(own) && u.File != "":
		return files.Refuse(u.matchLine(), "", "this file sorts before %s and would hide it", own)
	case d.PermanentMAC == "":
		return files.Refuse(model.FileLine{}, "write a .link file for it by hand", "%s has no permanent address by which a .link file could find it", d.Name)
	}
	head := []string{"[Match]", "PermanentMACAddress=" + d.PermanentMAC}
	var copied []string
	for _, e := range u.Section("Link") {
		copied = append(copied, e.Key+"="+e.Text)
	}
	if u.File != "" {
		copied = append(comments([]string{"as in " + u.File + ", in whose place this file stands:"}), copied...)
	}
	p.write(own, head, append([][]string{copied}, blocks...))
	return nil
}

// linkWinner returns the .link file of a device, if it is the same for every name that udev
// may see.
func (p *plan) linkWinner(d device.Device) (Unit, error) {
	var u Unit
	for i, v := range views(d) {
		one, sure := p.config.winner(v, LinkFile)
		switch {
		case !sure:
			return one, files.Refuse(one.matchLine(), "match "+d.Name+" by PermanentMACAddress= or Path=", "whether this file is the one of %s cannot be known before the next start", d.Name)
		case i > 0 && one.File != u.File:
			return one, files.Refuse(one.matchLine(), "match "+d.Name+" by PermanentMACAddress= or Path=",
				"this file is the one of %s only where the initramfs renamed it before; else it is %s", d.Name, u.File)
		}
		u = one
	}
	return u, nil
}

// write adds a file with a [Link] section.
func (p *plan) write(name string, match []string, blocks [][]string) {
	lines := comments(p.request.Head)
	if len(match) > 0 {
		lines = append(append(lines, ""), match...)
	}
	lines = append(lines, "", "[Link]")
	for i, b := range blocks {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, b...)
	}
	text := []byte(strings.Join(lines, "\n") + "\n")
	if i := slices.IndexFunc(p.draft.Files, func(f files.File) bool { return f.Path == name }); i >= 0 {
		_, body, _ := strings.Cut(string(text), "[Link]\n")
		p.draft.Files[i].Content = append(p.draft.Files[i].Content, "\n"+body...)
		return
	}
	p.draft.Files = append(p.draft.Files, files.File{Path: name, Mode: 0o644, Content: text})
}

func comments(lines []string) []string {
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = "# " + l
	}
	return all
}

// Linked returns the drop-in that makes a generated .link file set what the present winner of
// a device sets, except for the settings in changed; no file if there is nothing to add.
func Linked(h files.Host, d device.Device, generated string, head []string, changed []files.Setting) (files.Draft, error) {
	p := plan{config: read(h), request: files.Request{Link: d.Name, Head: head}}
	u, err := p.linkWinner(d)
	if err != nil || u.File == "" || path.Base(u.File) == generated {
		return files.Draft{}, err
	}
	var copied []string
	for _, e := range u.Section("Link") {
		id, _, _ := Read(e.Key, e.Text)
		if !slices.ContainsFunc(changed, func(s files.Setting) bool { return s.Knob == id }) {
			copied = append(copied, e.Key+"="+e.Text)
		}
	}
	wakes := u.Text("Link", "WakeOnLan") == "" && d.WakeOnLAN != "" && d.WakeOnLAN != "off"
	if wakes {
		copied = append(copied, "WakeOnLan="+d.WakeOnLAN)
	}
	if len(copied) == 0 {
		return files.Draft{}, nil
	}
	p.write("/etc/systemd/network/"+generated+".d/"+ours, nil, [][]string{append(comments([]string{"as in " + u.File + ", in whose place netplan puts this file:"}), copied...)})
	return p.draft, nil
}

// Export implements files.Format: a .link file that matches the address of the card.
func (Format) Export(r files.Request) files.Draft {
	p := plan{request: r}
	var blocks [][]string
	for _, s := range r.Settings {
		switch lines := Lines(s.Knob, s.Value); {
		case s.Text != "":
		case len(lines) == 0:
			p.draft.Omitted = append(p.draft.Omitted, model.Omission{Knob: s.Knob, Value: s.Value, Reason: Missing(s)})
		default:
			blocks = append(blocks, append(comments(s.Remarks), lines...))
		}
	}
	if len(blocks) == 0 {
		return p.draft
	}
	p.request.Head = append(slices.Clone(r.Head), "Not proven: the machine was not looked at. Only the first .link file that matches a device counts:",
		"if another one than 99-default.link is about this device, put the settings into a drop-in of it instead, NAME.link.d/50-linerate.conf.",
		"What its .network file or netplan says of the MTU counts more. It is read when the device appears.")
	match := []string{"[Match]", "PermanentMACAddress=" + r.MAC}
	if r.MAC == "" {
		match = append(comments([]string{"Put the card's address here, or this file is about nothing: ip -d link show dev " + r.Link}), "[Match]", "PermanentMACAddress=")
		p.draft.Notes = append(p.draft.Notes, "the .link file finds its card by the permanent address: put it in")
	}
	p.write(ownLink(r.Link), match, append([][]string{{"NamePolicy=keep kernel database onboard slot path", "AlternativeNamesPolicy=database onboard slot path", "MACAddressPolicy=persistent"}}, blocks...))
	p.draft.Commands = []string{"udevadm control --reload"}
	return p.draft
}
