package networkmanager

import (
	"cmp"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// folders are where NetworkManager keeps profiles, in order of precedence: the first folder
// with a uuid hides the others. In one folder it is the newest file with that uuid
// (nms_keyfile_storage_cmp of 1.42.4).
var folders = [...]string{"run/NetworkManager/system-connections", "etc/NetworkManager/system-connections", "usr/lib/NetworkManager/system-connections"}

// Profile is a keyfile of NetworkManager, nm-settings-keyfile(5).
type Profile struct {
	File string // with a leading slash
	tree.INI
}

// UUID identifies a profile; it is the file if the profile has none.
func (p Profile) UUID() string { return cmp.Or(p.Text("connection", "uuid"), p.File) }

// Type returns the type of the connection, in the words of keyfiles.
func (p Profile) Type() string {
	kind := p.Text("connection", "type")
	return cmp.Or(map[string]string{"802-3-ethernet": "ethernet", "802-11-wireless": "wifi"}[kind], kind)
}

// at returns the line of a key of [connection], or the first line of the file.
func (p Profile) at(key string) model.FileLine {
	if l := p.Get("connection", key); l != nil {
		return *l
	}
	return model.FileLine{File: p.File, Number: 1}
}

// Profiles reads the keyfiles that NetworkManager loads: those that group and others cannot
// read.
func Profiles(t tree.Tree) []Profile {
	var all []Profile
	for _, folder := range folders {
		var here []Profile
		age := make(map[string]time.Time)
		for _, name := range t.Visible("", folder) {
			info, err := fs.Stat(t.Root, name)
			if err != nil || info.Mode().Perm()&0o077 != 0 || ignored.MatchString(name) || !strings.HasSuffix(name, ".nmconnection") && !strings.HasPrefix(folder, "etc/") {
				continue
			}
			if text, ok := t.Keyfile(name); ok && len(text) > 0 {
				age["/"+name] = info.ModTime()
				here = append(here, Profile{"/" + name, text})
			}
		}
		slices.SortStableFunc(here, func(a, b Profile) int { return age[b.File].Compare(age[a.File]) })
		for _, p := range here {
			if !slices.ContainsFunc(all, func(o Profile) bool { return o.UUID() == p.UUID() }) {
				all = append(all, p)
			}
		}
	}
	return all
}

// ignored matches the names that NetworkManager does not read: of backups, of mkstemp(3), of
// certificates (nm_keyfile_utils_ignore_filename of 1.42.4).
var ignored = regexp.MustCompile(`~$|\.[a-zA-Z0-9]{6}$|\.pem$|\.der$`)

// automatic reports whether a profile connects at boot: not one that waits for its users to
// log in.
func (p Profile) automatic() bool {
	return command.Switch(p.Text("connection", "autoconnect")) != "0" && p.Text("connection", "permissions") == ""
}

// Owning returns the profile that a device gets at the next boot: of those that match it the
// one with the highest autoconnect-priority, then the one used last. rival is another one
// that may win as well.
func Owning(t tree.Tree, d device.Device) (p Profile, rival *Profile, ok bool) {
	type candidate struct {
		Profile
		answer         device.Answer
		priority, used int
	}
	active := ""
	if d.Index != "" { // connection-uuid=… in the state of a managed device
		state, _ := t.Keyfile("run/NetworkManager/devices/" + d.Index)
		active = state.Text("device", "connection-uuid")
	}
	times, _ := t.Keyfile("var/lib/NetworkManager/timestamps")
	var all []candidate
	for _, p := range Profiles(t) {
		answer := p.matches(d)
		if answer == device.No || !p.automatic() && (active == "" || p.UUID() != active) {
			continue
		}
		c := candidate{Profile: p, answer: answer}
		c.priority, _ = strconv.Atoi(p.Text("connection", "autoconnect-priority")) // its default is 0
		c.used, _ = strconv.Atoi(times.Text("timestamps", p.UUID()))
		if active != "" && p.UUID() == active {
			c.used = int(^uint(0) >> 1)
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.used, a.used), cmp.Compare(b.answer, a.answer))
	})
	sure := slices.IndexFunc(all, func(c candidate) bool { return c.answer == device.Yes })
	switch {
	case len(all) > 0 && all[0].answer == device.Maybe && all[0].used == 0 && sure > 0:
		return all[sure].Profile, &all[0].Profile, true
	case len(all) == 0 || all[0].answer == device.Maybe && all[0].used == 0:
		return Profile{}, nil, false
	case len(all) > 1 && all[0].priority == all[1].priority && all[0].used == all[1].used:
		return all[0].Profile, &all[1].Profile, true
	}
	return all[0].Profile, nil, true
}

// manual returns a profile of a device that does not connect automatically; File is "" if
// there is none.
func manual(t tree.Tree, d device.Device) Profile {
	for _, p := range Profiles(t) {
		if p.matches(d) == device.Yes && !p.automatic() {
			return p
		}
	}
	return Profile{}
}

// matches says whether a profile is for a device. A profile that names no device is for any
// device of its type.
func (p Profile) matches(d device.Device) device.Answer {
	answer, named := device.Yes, false
	and := func(a device.Answer) { answer, named = device.And(answer, a), true }
	switch kind := p.Type(); kind {
	case "bond", "bridge", "vlan":
		if d.Kind != "" && d.Kind != kind {
			return device.No
		}
	case "ethernet":
		if slices.Contains([]string{"bond", "bridge", "vlan", "wlan"}, d.Kind) || d.Type != "" && d.Type != "ether" {
			return device.No
		}
	case "":
	default:
		if d.Type == "ether" && d.Kind == "" {
			return device.No
		}
	}
	if name := p.Text("connection", "interface-name"); name != "" {
		and(sure(d.Name == name))
	}
	if names := p.Text("match", "interface-name"); names != "" {
		and(wildcards(d.Name, names))
	}
	ethernet := func(key string) string {
		return cmp.Or(p.Text("ethernet", key), p.Text("802-3-ethernet", key))
	}
	if mac := ethernet("mac-address"); mac != "" {
		and(device.HasMAC(cmp.Or(d.PermanentMAC, d.MAC), []string{mac}))
	}
	for _, key := range []string{"mac-address-blacklist", "mac-address-denylist"} {
		if device.HasMAC(cmp.Or(d.PermanentMAC, d.MAC), items(ethernet(key))) == device.Yes {
			return device.No
		}
	}
	for _, e := range p.Section("match") {
		switch e.Key {
		case "interface-name":
		case "driver":
			answer = device.And(answer, wildcards(d.Driver, e.Text))
		case "path":
			answer = device.And(answer, wildcards(d.Properties["ID_PATH"], e.Text))
		default: // the kernel's command line of the next boot
			answer = device.And(answer, device.Maybe)
		}
	}
	if !named {
		return device.Maybe
	}
	return answer
}

// items returns the elements of a list in a keyfile.
func items(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
}

// wildcards evaluates a list of [match], nm-settings(5): one of the patterns has to match, and
// each of those that begin with "&" or "!". If text is "", it is not known.
func wildcards(text, list string) device.Answer {
	if text == "" {
		return device.Maybe
	}
	optional, one, all := false, false, true
	for _, pattern := range items(list) {
		rest := strings.TrimLeft(pattern, "|&")
		bare, inverted := strings.CutPrefix(rest, "!")
		matches := tree.Match(strings.TrimPrefix(bare, `\`), text) != inverted
		if strings.HasPrefix(pattern, "&") || inverted && !strings.HasPrefix(pattern, "|") {
			all = all && matches
			continue
		}
		optional, one = true, one || matches
	}
	return sure(all && (one || !optional))
}

// DeviceList evaluates a device list of NetworkManager.conf(5):
//
//	interface-name:vboxnet*,except:interface-name:vboxnet2
func DeviceList(list string, d device.Device) device.Answer {
	result, positive := device.No, false
	for _, spec := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ';' }) {
		spec = strings.TrimSpace(spec)
		if spec == "" {
			continue
		}
		if except, ok := strings.CutPrefix(spec, "except:"); ok {
			switch deviceSpec(except, d) {
			case device.Yes:
				return device.No
			case device.Maybe:
				return device.Maybe
			case device.No:
			}
			continue
		}
		positive = true
		switch deviceSpec(spec, d) {
		case device.Yes:
			result = device.Yes
		case device.Maybe:
			if result == device.No {
				result = device.Maybe
			}
		case device.No:
		}
	}
	if !positive && strings.Contains(list, "except:") {
		return device.Yes
	}
	return result
}

func deviceSpec(spec string, d device.Device) device.Answer {
	address := cmp.Or(d.PermanentMAC, d.MAC)
	kind, text, qualified := strings.Cut(spec, ":")
	switch {
	case spec == "*":
		return device.Yes
	case qualified && kind == "interface-name":
		if literal, ok := strings.CutPrefix(text, "="); ok {
			return sure(literal == d.Name)
		}
		return device.OneOf(d.Name, []string{strings.TrimPrefix(text, "~")})
	case qualified && kind == "mac":
		return device.HasMAC(address, []string{text})
	case qualified && kind == "type":
		switch text {
		case "ethernet":
			return device.OneOf(d.Type, []string{"ether"})
		case "wifi":
			return device.OneOf(d.Type, []string{"wlan"})
		}
		return device.OneOf(d.Type, []string{text})
	case qualified && kind == "driver":
		name, _, _ := strings.Cut(text, "/")
		return device.OneOf(d.Driver, []string{name})
	case spec == d.Name:
		return device.Yes
	case device.HasMAC(address, []string{spec}) == device.Yes:
		return device.Yes
	}
	return device.No
}

// sure converts a known result to an answer.
func sure(known bool) device.Answer {
	if known {
		return device.Yes
	}
	return device.No
}
