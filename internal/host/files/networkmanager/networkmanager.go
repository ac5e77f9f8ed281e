// Package networkmanager handles the profiles of NetworkManager, and the defaults in its
// configuration.
//
// A device takes one profile, so a second one would replace the first along with its
// addresses. Settings go into the profile that the device will get at the next boot, which
// keeps its uuid, type and name; or, for an MTU alone, into a default of
// NetworkManager.conf(5). linerate writes only keys that the installed version knows, since
// it silently drops others.
package networkmanager

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

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// Format is nm-settings-keyfile(5), for settings of links. Its zero value is ready to use.
type Format struct{}

// Conf returns linerate's file with the default of a link.
func Conf(link string) string { return "/etc/NetworkManager/conf.d/zz-linerate-" + link + ".conf" }

// Outcome implements files.Format: for each device the profile that it gets, with all keys,
// and its default MTU. For every other profile and the configuration it has the raw keys.
func (Format) Outcome(_ context.Context, h files.Host) (files.Outcome, error) {
	t := h.Tree()
	o := files.Outcome{Judge: "documented rules of NetworkManager"}
	raw := func(all tree.INI) {
		for _, e := range all {
			if !slices.ContainsFunc(keys(), func(k key) bool { return k.section == sectionOf(e.Section) && k.name == e.Key }) {
				o.Set("networkmanager"+e.File+"/"+e.Section+"."+e.Key, e.FileLine)
			}
		}
	}
	for _, p := range Profiles(t) {
		raw(p.INI)
	}
	confs := configuration(t)
	for _, c := range confs {
		if !strings.HasPrefix(path.Base(c.File), "zz-linerate-") {
			raw(c.INI)
		}
	}
	for _, d := range h.Devices {
		p, _, ok := Owning(t, d)
		base := "link/" + d.Name + "/networkmanager/"
		if ok {
			o.Set(base+"profile", model.FileLine{File: p.File, Number: 1, Text: p.UUID()})
			for _, s := range p.Settings() {
				o.Set(files.LinkKey(d.Name, s.Knob), s.FileLine)
			}
		}
		if _, given := o.Values[files.LinkKey(d.Name, "link.mtu")]; given {
			continue
		}
		if l, found, several := defaultMTU(confs, d); several {
			o.Set(base+"default mtu", l) // unknown which of them counts
		} else if found {
			o.Set(files.LinkKey(d.Name, "link.mtu"), l)
		}
	}
	return o, nil
}

// Plan implements files.Format.
func (f Format) Plan(ctx context.Context, h files.Host, r files.Request) (files.Draft, error) {
	o, err := f.Outcome(ctx, h)
	if err != nil {
		return files.Draft{}, err
	}
	all := files.Draft{Want: make(map[string]string)}
	for _, one := range append(h.Members(o, r), r) {
		if member, _ := h.Device(one.Link); one.Link != r.Link {
			if _, _, ok := Owning(h.Tree(), member); !ok && manual(h.Tree(), member).File == "" {
				return files.Draft{}, files.Refuse(model.FileLine{File: "/etc/NetworkManager/system-connections"},
					"set the MTU of "+one.Link+" where it is made", "%s is made of %s, which no profile is for", r.Link, one.Link)
			}
		}
		d, err := planOne(ctx, h, one)
		if err != nil {
			return files.Draft{}, err
		}
		all.Files, all.Commands, all.Omitted = append(all.Files, d.Files...), append(all.Commands, d.Commands...), append(all.Omitted, d.Omitted...)
		all.Notes = lists.Once(all.Notes, d.Notes...)
		maps.Copy(all.Want, d.Want)
	}
	return all, nil
}

// planOne plans the settings of one device.
func planOne(ctx context.Context, h files.Host, r files.Request) (files.Draft, error) {
	t := h.Tree()
	d, _ := h.Device(r.Link)
	r.Settings = slices.DeleteFunc(slices.Clone(r.Settings), func(s files.Setting) bool { return s.Text != "" })
	if len(r.Settings) == 0 {
		return files.Draft{}, nil
	}
	if l := State(t, d); l.Text == "false" {
		return files.Draft{}, files.Refuse(l, "", "NetworkManager leaves %s alone", r.Link)
	}
	if managed, l := Configured(t, d, model.FileLine{}); !managed.Or(true) {
		return files.Draft{}, files.Refuse(l, "change that line", "NetworkManager leaves %s alone", r.Link)
	}
	if l := ifcfg(t, d); l.File != "" {
		return files.Draft{}, files.Refuse(l, "add a line there: MTU=VALUE, or ETHTOOL_OPTS for the card", "this file configures %s, and linerate does not write its form", r.Link)
	}
	p, rival, ok := Owning(t, d)
	idle := p
	if !ok {
		idle = manual(t, d)
	} else if p.automatic() {
		idle = Profile{}
	}
	switch {
	case rival != nil:
		return files.Draft{}, files.Refuse(rival.at("id"), "give one of them a higher autoconnect-priority",
			"%s may get this profile or %s after the next start", r.Link, p.File)
	case ok && strings.HasPrefix(path.Base(p.File), "netplan-"):
		return files.Draft{}, files.Refuse(p.at("id"), "change the definition of netplan", "netplan makes this profile anew at each start")
	case idle.File != "":
		return files.Draft{}, files.Refuse(idle.at("autoconnect"), "nmcli connection modify "+idle.UUID()+" connection.autoconnect yes", "this profile does not come up by itself")
	case !ok || !strings.HasPrefix(p.File, "/etc/"):
		return defaults(r, p)
	}
	return modify(ctx, h, r, p)
}

// defaults writes the default MTU of a link whose profile is not in a file of /etc.
func defaults(r files.Request, p Profile) (files.Draft, error) {
	d := files.Draft{Want: make(map[string]string)}
	for _, s := range r.Settings {
		if s.Knob != "link.mtu" || p.Get("ethernet", "mtu") != nil {
			return files.Draft{}, files.Refuse(model.FileLine{File: cmp.Or(p.File, "/etc/NetworkManager/system-connections")},
				"make one of what is active: nmcli connection modify ID connection.autoconnect yes, then keep again",
				"no profile in /etc/NetworkManager/system-connections is for %s", r.Link)
		}
		d.Want[files.LinkKey(r.Link, s.Knob)] = s.Value
		d.Files = []files.File{defaultMTUFile(r, s)}
		d.Commands = []string{"nmcli general reload conf"}
	}
	return d, nil
}

// defaultMTUFile returns linerate's file with the MTU of a link whose profile has none.
func defaultMTUFile(r files.Request, s files.Setting) files.File {
	return files.File{Path: Conf(r.Link), Mode: 0o644, Content: []byte(files.Comments(r.Head...) + files.Comments(s.Remarks...) +
		"[connection-linerate-" + r.Link + "]\nmatch-device=interface-name:" + r.Link + "\nethernet.mtu=" + s.Value + "\n")}
}

// modify writes the settings into the profile p.
func modify(ctx context.Context, h files.Host, r files.Request, p Profile) (files.Draft, error) {
	d := files.Draft{Want: make(map[string]string)}
	section := map[string]string{"wifi": "wifi", "infiniband": "infiniband"}[p.Type()]
	if !slices.Contains([]string{"", "ethernet", "bond", "bridge", "vlan", "team", "wifi", "infiniband"}, p.Type()) {
		return d, files.Refuse(p.at("type"), "", "the MTU of a profile of this type is not known to linerate")
	}
	now, known := installed(ctx, h)
	text := string(h.Tree().Read(p.File))
	var lines []assignment
	for _, s := range r.Settings {
		all, why := assignments(s, r, now, known)
		if why != "" {
			d.Omitted = append(d.Omitted, model.Omission{Knob: s.Knob, Value: s.Value, Reason: why})
			continue
		}
		for _, a := range all {
			if a.section == "ethernet" {
				a.section = cmp.Or(section, existing(p, "802-3-ethernet"), existing(p, "802-11-wireless"), "ethernet")
			}
			text = put(text, a)
			lines = append(lines, a)
		}
	}
	if len(lines) == 0 {
		return d, nil
	}
	mode := fs.FileMode(0o600) // NetworkManager does not load files with other modes
	if info, err := fs.Stat(h.Root, strings.TrimPrefix(p.File, "/")); err == nil && info.Mode().Perm() != 0 {
		mode = info.Mode().Perm()
	}
	d.Files = []files.File{{Path: p.File, Mode: mode, Content: []byte(text)}}
	then := Profile{File: p.File}
	then.INI, _ = h.With(d.Files).Tree().Keyfile(p.File)
	for _, s := range then.Settings() {
		if slices.ContainsFunc(lines, func(a assignment) bool { return then.Text(a.section, a.name) == a.value && a.knob == s.Knob }) || s.Knob == "nic.media.autoneg" && slices.ContainsFunc(lines, func(a assignment) bool { return a.name == "speed" }) {
			d.Want[files.LinkKey(r.Link, s.Knob)] = s.Text
		}
	}
	d.Commands = []string{"nmcli connection load " + p.File, "nmcli device reapply " + r.Link}
	d.Notes = []string{"NetworkManager takes " + p.File + " over when it is loaded; a change by nmcli before that would lose the lines"}
	return d, accepted(ctx, h, now, p, d.Files[0], lines)
}

func existing(p Profile, section string) string {
	if len(p.Section(section)) > 0 {
		return section
	}
	return ""
}

// assignment is a line of a keyfile.
type assignment struct {
	section, name, value string
	knob                 model.KnobID
}

// assignments returns the lines for a setting, or why it has no line.
func assignments(s files.Setting, r files.Request, now version, known bool) (all []assignment, why string) {
	has := func(id model.KnobID) bool {
		return slices.ContainsFunc(r.Settings, func(o files.Setting) bool { return o.Knob == id })
	}
	if s.Knob == "nic.media.speed" || s.Knob == "nic.media.duplex" {
		switch {
		case s.Value == "auto" || s.Value == "0":
			return []assignment{{"ethernet", "auto-negotiate", "true", "nic.media.autoneg"}}, ""
		case !has("nic.media.speed") || !has("nic.media.duplex"):
			return nil, "NetworkManager takes a fixed speed and a fixed duplex together only"
		}
	}
	for _, k := range keys() {
		if k.knob != s.Knob || strings.HasPrefix(k.name, "feature-") && strings.Count(k.name, "-") > 1 && k.name != "feature-rx-gro-hw" {
			continue
		}
		value, ok := k.write(s.Value)
		switch {
		case !ok:
			return nil, "NetworkManager has no word for this value"
		case k.since != version{} && !known:
			return nil, fmt.Sprintf("needs NetworkManager %s, and nmcli does not say which version is installed", k.since)
		case now.before(k.since) && known:
			return nil, fmt.Sprintf("needs NetworkManager %s; %s is installed, and would drop it without a word", k.since, now)
		}
		return []assignment{{k.section, k.name, value, s.Knob}}, ""
	}
	if s.Knob == "qdisc" {
		return nil, "tc.qdiscs would give NetworkManager all queueing disciplines of the interface; set qdisc.default (net.core.default_qdisc) instead"
	}
	return nil, "NetworkManager has no key for it"
}

// put replaces or adds an assignment in the text of a keyfile.
func put(text string, a assignment) string {
	lines := strings.SplitAfter(text, "\n")
	at := -1 // the line after which it goes
	in := false
	for i, l := range lines {
		l = strings.TrimSpace(l)
		switch {
		case strings.HasPrefix(l, "["):
			if in = l == "["+a.section+"]"; in {
				at = i
			}
		case in:
			if name, _, ok := strings.Cut(l, "="); ok && strings.TrimSpace(name) == a.name {
				lines[i] = ""
			}
		}
	}
	line := a.name + "=" + a.value + "\n"
	if at < 0 {
		return strings.TrimRight(strings.Join(lines, ""), "\n") + "\n\n[" + a.section + "]\n" + line
	}
	if !strings.HasSuffix(lines[at], "\n") {
		lines[at] += "\n"
	}
	return strings.Join(slices.Insert(lines, at+1, line), "")
}

// nmcli is the path of the program.
var nmcli = []string{"/usr/bin/nmcli"}

// installed returns the version of NetworkManager, if nmcli reports it.
func installed(ctx context.Context, h files.Host) (v version, ok bool) {
	if h.Ask == nil {
		return v, false
	}
	a, err := h.Ask(ctx, h.Root, files.Question{Programs: nmcli, Args: []string{"--version"}})
	if err != nil || a.Code != 0 {
		return v, false
	}
	_, text, _ := strings.Cut(a.Text, "version ") // "nmcli tool, version 1.42.4"
	_, err = fmt.Sscanf(text, "%d.%d", &v.major, &v.minor)
	return v, err == nil
}

// accepted has nmcli read the profile and write it back: it drops unknown keys, and refuses
// invalid ones. Versions before 1.40 cannot read files.
func accepted(ctx context.Context, h files.Host, now version, p Profile, f files.File, lines []assignment) error {
	if h.Ask == nil || now.before(version{1, 40}) {
		return nil
	}
	a, err := h.Ask(ctx, h.Root, files.Question{Programs: nmcli, Args: []string{"--offline", "connection", "modify", "connection.autoconnect-retries", "-1"}, Input: f.Content})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	if a.Code != 0 {
		return files.Refuse(p.at("id"), "", "nmcli refuses the profile with the change: %s", strings.TrimSpace(a.Text))
	}
	said, _ := tree.Tree{Root: files.Overlay(nothing{}, []files.File{{Path: "/said", Content: []byte(a.Text)}})}.Keyfile("said")
	for _, l := range lines {
		if got := cmp.Or(said.Text(l.section, l.name), said.Text(sectionOf(l.section), l.name)); got != l.value {
			return files.Refuse(p.at("id"), "", "nmcli reads %s=%s of [%s] as %q", l.name, l.value, l.section, got)
		}
	}
	return nil
}

// nothing is an empty tree.
type nothing struct{}

// Open implements fs.FS.
func (nothing) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ifcfg returns the file of the plugin ifcfg-rh that is for a device.
func ifcfg(t tree.Tree, d device.Device) model.FileLine {
	const dir = "etc/sysconfig/network-scripts"
	for _, name := range t.ByName("", dir) {
		suffix, ok := strings.CutPrefix(path.Base(name), "ifcfg-")
		if !ok || strings.ContainsAny(suffix, "~") || strings.HasSuffix(suffix, ".bak") || strings.HasSuffix(suffix, ".orig") || strings.HasSuffix(suffix, ".rpmnew") {
			continue
		}
		all := t.Assignments(name)
		if l := all["DEVICE"]; l.Text == d.Name && d.Name != "" {
			return l
		}
		if l := all["HWADDR"]; l.Text != "" && device.HasMAC(cmp.Or(d.PermanentMAC, d.MAC), []string{l.Text}) == device.Yes {
			return l
		}
	}
	return model.FileLine{}
}

// Export implements files.Format: commands, and a default for the MTU, since the profile of
// the interface is not known.
func (Format) Export(r files.Request) files.Draft {
	d := files.Draft{Notes: []string{"no profile is written: a second one for an interface replaces the first with its addresses. Put its name or uuid in the place of $CONNECTION"}}
	modify, together := "nmcli connection modify "+connection, ""
	table := keys()
	for _, s := range r.Settings {
		if s.Text != "" {
			continue
		}
		all, why := assignments(s, r, version{99, 0}, true)
		if why != "" {
			d.Omitted = append(d.Omitted, model.Omission{Knob: s.Knob, Value: s.Value, Reason: why})
			continue
		}
		if s.Knob == "link.mtu" {
			r.Head = append(slices.Clip(r.Head), "Not proven: that the profile of the interface has no MTU of its own, which would win over this default.")
			d.Files = []files.File{defaultMTUFile(r, s)}
			continue
		}
		for _, a := range all {
			section := a.section
			if section == "ethernet" {
				section = "802-3-ethernet" // nmcli's name for it
			}
			words := " " + section + "." + a.name + " " + a.value
			i := slices.IndexFunc(table, func(k key) bool { return k.section == a.section && k.name == a.name })
			if since := table[i].since; since == (version{}) {
				together += words // it refuses a speed without a duplex
			} else {
				d.Commands = append(d.Commands, modify+words+"   # NetworkManager "+since.String()+" and later")
			}
		}
	}
	if together != "" {
		d.Commands = append(d.Commands, modify+together)
	}
	if len(d.Files) > 0 {
		d.Commands = append(d.Commands, "nmcli general reload conf")
	}
	return d
}

// connection stands for the name of the user's profile in commands.
const connection = `"$CONNECTION"`
