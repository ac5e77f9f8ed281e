package networkmanager

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
)

// version is a version of NetworkManager; the zero value is unknown.
type version struct{ major, minor int }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v version) before(o version) bool {
	return v.major < o.major || v.major == o.major && v.minor < o.minor
}

// key is a key of nm-settings-keyfile(5) for a setting.
type key struct {
	section, name string
	knob          model.KnobID
	since         version // the first version that knows it; zero: all
	read          func(text string) string
	write         func(value string) (text string, ok bool)
}

// keys returns the keys that hold settings of links. The versions are the Since tags of
// libnm-core-impl (nm-setting-ethtool.c, nm-setting-link.c).
func keys() []key {
	as := func(v string) (string, bool) { return v, true }
	same := func(s string) string { return s }
	truth := func(v string) (string, bool) { return strconv.FormatBool(v == "1"), true }
	all := []key{
		{"ethernet", "mtu", "link.mtu", version{}, same, as},
		{"ethernet", "auto-negotiate", "nic.media.autoneg", version{}, command.Truth, truth},
		{"ethernet", "speed", "nic.media.speed", version{}, same, as},
		{"ethernet", "duplex", "nic.media.duplex", version{}, same, as},
		{"ethernet", "wake-on-lan", "nic.wol", version{}, readWakeOnLAN, writeWakeOnLAN},
		{"link", "tx-queue-length", "txqueuelen", version{1, 44}, same, as},
		{"link", "gso-max-size", "nic.gso_max_size", version{1, 44}, same, as},
		{"link", "gro-max-size", "nic.gro_max_size", version{1, 44}, same, as},
		{"ethtool", "eee-enabled", "nic.eee", version{1, 46}, command.Truth, truth},
	}
	since := map[string]version{"ring": {1, 26}, "coalesce": {1, 26}, "pause": {1, 32}, "channels": {1, 46}}
	for option, o := range command.Options() { // "ring rx"
		group, word, _ := strings.Cut(option, " ")
		k := key{"ethtool", group + "-" + word, o.Knob, since[group], o.Text, as}
		if group == "pause" {
			k.write = truth
		}
		all = append(all, k)
	}
	for word, id := range command.Features() {
		all = append(all, key{"ethtool", "feature-" + word, id, version{1, 14}, command.Truth, truth})
	}
	return all
}

// sectionOf returns the name that keys uses for a section.
func sectionOf(section string) string {
	switch section {
	case "802-3-ethernet", "wifi", "802-11-wireless", "infiniband":
		return "ethernet"
	}
	return section
}

// Set is a setting that a profile makes.
type Set struct {
	Knob           model.KnobID
	model.FileLine // Text is canonical
}

// Settings returns what a profile sets.
func (p Profile) Settings() []Set {
	var all []Set
	table := keys()
	for _, e := range p.INI {
		i := slices.IndexFunc(table, func(k key) bool { return k.section == sectionOf(e.Section) && k.name == e.Key })
		if i < 0 || e.Text == "" || slices.Contains([]string{"mtu", "speed"}, e.Key) && e.Text == "0" { // 0 means automatic
			continue
		}
		l := e.FileLine
		l.Text = table[i].read(e.Text)
		all = append(all, Set{table[i].knob, l})
		if e.Key == "speed" && p.Text(e.Section, "duplex") != "" && p.Text(e.Section, "auto-negotiate") == "" { // false is not written
			l.Text = "0"
			all = append(all, Set{"nic.media.autoneg", l})
		}
	}
	return all
}

// wakeFlags are NMSettingWiredWakeOnLan of libnm.
var wakeFlags = [...]struct {
	word string
	flag int
}{{"phy", 2}, {"ucast", 4}, {"mcast", 8}, {"bcast", 16}, {"arp", 32}, {"magic", 64}}

func readWakeOnLAN(text string) string {
	n, err := strconv.Atoi(text)
	if err != nil {
		return text
	}
	var words []string
	for _, f := range wakeFlags {
		if n&f.flag != 0 {
			words = append(words, f.word)
		}
	}
	return strings.Join(words, ",")
}

// writeWakeOnLAN returns the sum of flags. 0 means the driver's default there, not "none".
func writeWakeOnLAN(value string) (string, bool) {
	sum := 0
	for w := range strings.SplitSeq(value, ",") {
		i := slices.IndexFunc(wakeFlags[:], func(f struct {
			word string
			flag int
		}) bool {
			return f.word == w
		})
		if i < 0 {
			return "", false
		}
		sum |= wakeFlags[i].flag
	}
	return strconv.Itoa(sum), true
}
