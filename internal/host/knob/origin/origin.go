// Package origin finds the permanent files that say what settings are at the
// start of the machine, or when an interface comes up.
//
// It reads the files of which form and order are documented: sysctl.d(5),
// sysctl.conf(5), systemd.link(5), systemd.network(5), netplan(5), the keyfiles
// of NetworkManager, ifcfg files and interfaces(5) on Linux; sysctl.conf(5),
// loader.conf(5) and rc.conf(5) on FreeBSD; launchd.plist(5) on macOS. A program
// that sets something by itself leaves no trace there (package manager): what is
// not found is not known.
package origin

import (
	"io/fs"
	"slices"
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/sysctl"
	"linerate/internal/host/files/tree"
	hostknob "linerate/internal/host/knob"
)

// Source is a kind of permanent files.
type Source string

// The sources.
const (
	Sysctl       Source = "sysctl.d"
	SysctlConf   Source = "sysctl.conf"
	LinkFile     Source = ".link"
	NetworkFile  Source = ".network"
	Netplan      Source = "netplan"
	Keyfile      Source = "keyfile" // of NetworkManager
	Ifcfg        Source = "ifcfg"
	Interfaces   Source = "interfaces"
	LoaderConf   Source = "loader.conf"
	RCConf       Source = "rc.conf"
	LaunchDaemon Source = "launchd"
)

// Statement is a line that sets a knob, or that is about an interface.
type Statement struct {
	Knob   model.KnobID // "" in a definition
	Source Source
	model.FileLine
	Renderer string // of a definition of netplan: "networkd", "NetworkManager"
	Never    bool   // no program reads it at the start of the machine
}

// Found is what the files of a machine say.
type Found struct {
	Settings    []Statement // in the order in which they are applied, for one knob
	Definitions []Statement // the files that are about the interface, whatever they set
	Device      device.Device
}

// Find returns the lines that set the knobs of system, the last one that counts
// for each. root is the root of the machine's files; link is the interface of
// knobs of links, "" for none. Files that cannot be read are passed over.
func Find(x *knob.Index, root fs.FS, system, link string, ids []model.KnobID) map[model.KnobID]model.FileLine {
	found := make(map[model.KnobID]model.FileLine)
	for _, s := range All(x, root, system, link, ids).Settings {
		if !s.Never {
			found[s.Knob] = s.FileLine
		}
	}
	return found
}

// All returns every line about the knobs of system and the interface link, as
// Find does the last ones. Definitions are those of Linux only.
func All(x *knob.Index, root fs.FS, system, link string, ids []model.KnobID) Found {
	f := &finder{tree: tree.Tree{Root: root}, link: link, ids: ids, sysctls: make(map[string][]model.KnobID)}
	for _, id := range ids {
		k, ok := x.ByID(id)
		if n := k.Native[system]; ok && n.Mechanism == knob.Sysctl {
			key := sysctl.Key(hostknob.Host{Interface: link}.Expand(n.Name))
			f.sysctls[key] = append(f.sysctls[key], id)
		}
	}
	switch system {
	case "linux":
		if link != "" {
			f.dev = device.Look(f.tree, link)
		}
		f.sysctlD()
		if link != "" { // what comes last at the start of the machine comes last
			f.linkFile()
			f.interfaces()
			f.ifcfg()
			f.keyfiles()
			f.networkFile()
			f.netplan()
		}
	case "freebsd":
		f.assigned(LoaderConf, "boot/loader.conf", "boot/loader.conf.local")
		f.assigned(SysctlConf, "etc/sysctl.conf", "etc/sysctl.conf.local")
		f.rcConf()
	case "darwin":
		f.launchDaemons()
		f.sysctlConf() // of no macOS of today, knobs.md section 4
	}
	f.Device = f.dev
	return f.Found
}

// finder collects what files say.
type finder struct {
	tree    tree.Tree
	link    string
	dev     device.Device
	ids     []model.KnobID
	sysctls map[string][]model.KnobID // by sysctl.Key of the native name
	Found
}

// say adds a statement if its knob is asked for.
func (f *finder) say(source Source, id model.KnobID, l model.FileLine, text string) {
	if slices.Contains(f.ids, id) {
		l.Text = text
		f.Settings = append(f.Settings, Statement{Knob: id, Source: source, FileLine: l})
	}
}

// sysctl adds a statement about a sysctl by any of its names.
func (f *finder) sysctl(source Source, name string, l model.FileLine, text string) {
	for _, id := range f.sysctls[sysctl.Key(name)] {
		f.say(source, id, l, text)
	}
}

// define adds a definition of the interface.
func (f *finder) define(source Source, l model.FileLine, renderer string) {
	f.Definitions = append(f.Definitions, Statement{Source: source, FileLine: l, Renderer: renderer})
}

// assigned reads the files of FreeBSD that assign to sysctls.
func (f *finder) assigned(source Source, names ...string) {
	for name, l := range f.tree.Assignments(names...) {
		f.sysctl(source, name, l, l.Text)
	}
}

// rcConf reads rc.conf(5): ifconfig_em0="inet 192.0.2.1/24 mtu 9000 -tso".
func (f *finder) rcConf() {
	if f.link == "" {
		return
	}
	l, ok := f.tree.Assignments("etc/defaults/rc.conf", "etc/rc.conf", "etc/rc.conf.local")["ifconfig_"+f.link]
	if !ok {
		return
	}
	f.define(RCConf, l, "")
	f.ifconfig(RCConf, l, strings.Fields(l.Text))
}

// ifconfig reads the words of ifconfig(8) on FreeBSD and macOS.
func (f *finder) ifconfig(source Source, l model.FileLine, words []string) {
	capabilities := map[string]model.KnobID{
		"rxcsum": "nic.offload.rx_csum", "txcsum": "nic.offload.tx_csum", "tso": "nic.offload.tso", "lro": "nic.offload.lro", "polling": "polling",
	}
	for i, w := range words {
		if w == "mtu" && i+1 < len(words) {
			f.say(source, "link.mtu", l, words[i+1])
		}
		name, off := strings.CutPrefix(w, "-")
		if id, ok := capabilities[name]; ok && off {
			f.say(source, id, l, "0")
		} else if ok {
			f.say(source, id, l, "1")
		}
	}
}
