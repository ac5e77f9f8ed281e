// Package rcconf handles the permanent files of FreeBSD: rc.conf(5), sysctl.conf(5),
// loader.conf(5), and /etc/start_if.IF.
//
// In each of them the last assignment replaces earlier ones:
//
//  1. /etc/sysctl.conf, then /etc/sysctl.conf.local.
//  2. /boot/loader.conf, then its .local and the folder loader.conf.d, of which the
//     order depends on the release. A line that loader(8) cannot read ends the
//     reading of its file.
//  3. /etc/defaults/rc.conf, /etc/rc.conf, /etc/rc.conf.local, then rc.conf.d of
//     network and netif. All words of ifconfig_IF are one command, so that one
//     refused word can cost the address: nothing of ours goes there.
//  4. /etc/start_if.IF runs before that command, and its failure stops nothing.
package rcconf

import (
	"bytes"
	"context"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/tree"
	"linerate/internal/regex"
)

// Format is the files of FreeBSD. Its zero value is ready to use.
type Format struct{}

// The files with linerate's blocks.
const (
	sysctlConf = "/etc/sysctl.conf"
	loaderConf = "/boot/loader.conf"
)

// rcFiles are the files that rc.subr(8) reads for netif, in order.
var rcFiles = []string{
	"etc/defaults/rc.conf", "etc/rc.conf", "etc/rc.conf.local", "etc/rc.conf.d/network", "usr/local/etc/rc.conf.d/network", "etc/rc.conf.d/netif", "usr/local/etc/rc.conf.d/netif",
}

// startIf returns the script that runs before an interface is configured.
func startIf(link string) string { return "/etc/start_if." + link }

// inVariable returns an interface's name as used in variables (network.subr get_if_var).
func inVariable(link string) string {
	return strings.NewReplacer(".", "_", "-", "_", "/", "_", "+", "_").Replace(link)
}

// variable returns the variable of rc.conf(5) that configures an interface.
func variable(link string) string { return "ifconfig_" + inVariable(link) }

// assignment matches a plain line NAME="VALUE" of the three files.
var assignment = regex.New(`^([A-Za-z0-9_.%*]+)=(?:"([^"$` + "`" + `\\]*)"|'([^']*)'|([^\s"'$` + "`" + `\\;&|#]*))\s*(?:#.*)?$`)

// assigned parses a plain assignment.
func assigned(l model.FileLine) (name string, value model.FileLine, ok bool) {
	m := assignment.FindStringSubmatch(l.Text)
	if m == nil {
		return "", l, false
	}
	l.Text = m[2] + m[3] + m[4]
	return m[1], l, true
}

// loaderLines reads the files of loader.conf(5). broken is a line at which loader(8) stops
// reading the file.
func loaderLines(t tree.Tree) (all map[string]model.FileLine, rivals map[string]model.FileLine, broken *model.FileLine) {
	all, rivals = make(map[string]model.FileLine), make(map[string]model.FileLine)
	names := []string{"boot/device.hints", "boot/loader.conf", "boot/loader.conf.local"}
	for _, name := range append(names, t.ByName(".conf", "boot/loader.conf.d")...) {
		for _, l := range t.Lines(name, "#") {
			key, value, ok := assigned(l)
			if !ok {
				broken = &l
				break
			}
			if old, given := all[key]; given && old.Text != value.Text && strings.HasSuffix(old.File, ".local") {
				rivals[key] = old // unknown which of .local and the folder comes later
			}
			all[key] = value
		}
	}
	return all, rivals, broken
}

// sysctlLines reads the files of sysctl.conf(5).
func sysctlLines(t tree.Tree) map[string]model.FileLine {
	all := make(map[string]model.FileLine)
	for _, name := range []string{"etc/sysctl.conf", "etc/sysctl.conf.local"} {
		for _, l := range t.Lines(name, "#") {
			text, _, _ := strings.Cut(l.Text, "#")
			if key, value, ok := strings.Cut(text, "="); ok {
				l.Text = strings.Trim(strings.TrimSpace(value), `"'`)
				all[strings.TrimSpace(key)] = l
			}
		}
	}
	return all
}

// rcLines reads rc.conf(5). odd are lines that name a variable other than in a plain
// assignment.
func rcLines(t tree.Tree) (all map[string]model.FileLine, odd []model.FileLine) {
	all = make(map[string]model.FileLine)
	for _, name := range rcFiles {
		files := []string{name}
		if info, err := fs.Stat(t.Root, name); err == nil && info.IsDir() {
			files = t.ByName("", name)
		}
		for _, file := range files {
			for _, l := range t.Lines(file, "#") {
				if key, value, ok := assigned(l); ok {
					all[key] = value
					continue
				}
				odd = append(odd, l)
			}
		}
	}
	return all, odd
}

// options are the words of ifconfig(8) for linerate's settings; true means that the word has
// an argument.
var options = map[string]bool{
	"mtu": true, "media": true, "mediaopt": true, "rxcsum": false, "txcsum": false, "tso": false, "lro": false, "vlanhwtag": false, "polling": false,
	"wol": false, "wol_ucast": false, "wol_mcast": false, "wol_magic": false,
}

// ifconfig adds what the words of ifconfig(8) set.
func ifconfig(o *files.Outcome, link string, l model.FileLine, words []string) {
	for i := 0; i < len(words); i++ {
		name, off := strings.CutPrefix(words[i], "-")
		argument, ok := options[name]
		if !ok {
			continue
		}
		switch l.Text = "on"; {
		case off:
			l.Text = "off"
		case argument && i+1 < len(words):
			i++
			l.Text = words[i]
		}
		o.Set("link/"+link+"/ifconfig/"+name, l)
	}
}

// Outcome implements files.Format. It covers each interface that rc.conf names.
func (Format) Outcome(_ context.Context, h files.Host) (files.Outcome, error) {
	t := h.Tree()
	o := files.Outcome{Judge: "documented rules of rc.conf(5), sysctl.conf(5) and loader.conf(5)"}
	for name, l := range sysctlLines(t) {
		o.Set(files.SysctlKey(name), l)
	}
	boot, rivals, _ := loaderLines(t)
	for name, l := range boot {
		o.Set("loader/"+name, l)
	}
	for name, l := range rivals {
		o.Set("loader/"+name, model.FileLine{File: l.File, Number: l.Number})
	}
	rc, _ := rcLines(t)
	for name, l := range rc {
		o.Set("rc/"+name, l)
	}
	for _, file := range t.ByName("", "etc") {
		link, ok := strings.CutPrefix(file, "etc/start_if.")
		if !ok {
			continue
		}
		start(&o, t, rc, link)
	}
	return o, nil
}

// start adds what runs for an interface at boot: its script, then its lines of rc.conf.
func start(o *files.Outcome, t tree.Tree, rc map[string]model.FileLine, link string) {
	for _, l := range t.Lines(startIf(link), "#") {
		words := strings.Fields(strings.TrimSuffix(l.Text, "|| :"))
		if len(words) > 2 && strings.HasSuffix(words[0], "ifconfig") && words[1] == link {
			ifconfig(o, link, l, words[2:])
		} else {
			o.Set("link/"+link+"/start_if/"+l.Text, l)
		}
	}
	if l, ok := configured(rc, link); ok {
		ifconfig(o, link, l, strings.Fields(l.Text))
	}
	for _, name := range slices.Sorted(maps.Keys(rc)) { // these run after it (ifconfig_up and ipv4_up of network.subr)
		if rest, ok := strings.CutPrefix(name, variable(link)+"_"); ok && (rest == "ipv6" || strings.HasPrefix(rest, "alias")) {
			ifconfig(o, link, rc[name], strings.Fields(rc[name].Text))
		}
	}
}

// Options returns the words of ifconfig(8) in effect for an interface at boot: "mtu" with its
// number, "tso" with on or off.
func Options(t tree.Tree, link string) map[string]model.FileLine {
	var o files.Outcome
	rc, _ := rcLines(t)
	start(&o, t, rc, link)
	all := make(map[string]model.FileLine)
	for key, l := range o.Values {
		if option, ok := strings.CutPrefix(key, "link/"+link+"/ifconfig/"); ok {
			all[option] = l
		}
	}
	return all
}

// Sysctls returns the effective lines of sysctl.conf(5) and of loader.conf(5), by name.
func Sysctls(t tree.Tree) (running, boot map[string]model.FileLine) {
	boot, _, _ = loaderLines(t)
	return sysctlLines(t), boot
}

// configured returns the line that configures an interface.
func configured(rc map[string]model.FileLine, link string) (model.FileLine, bool) {
	for _, name := range []string{variable(link), variable(link) + "_ipv6", "ifconfig_DEFAULT"} {
		if l, ok := rc[name]; ok {
			return l, true
		}
	}
	return model.FileLine{}, false
}

// started refuses settings that keep rc.d/netif from starting an interface, and files that
// only the shell can find (rc.conf(5), autoif and list_net_interfaces of network.subr).
func started(rc map[string]model.FileLine, odd []model.FileLine, link string) error {
	if l, ok := rc["netif_enable"]; ok && !slices.Contains([]string{"YES", "TRUE", "ON", "1"}, strings.ToUpper(l.Text)) {
		return files.Refuse(l, "", "rc.d/netif starts no interface")
	}
	if l, ok := rc["network_interfaces"]; ok && !strings.EqualFold(l.Text, "auto") && !slices.Contains(strings.Fields(l.Text), link) {
		return files.Refuse(l, "add it there", "rc.d/netif starts these interfaces, and not %s", link)
	}
	if l, ok := configured(rc, link); ok && slices.ContainsFunc(strings.Fields(l.Text), func(w string) bool { return strings.EqualFold(w, "NOAUTO") }) {
		return files.Refuse(l, "take NOAUTO out", "rc.d/netif does not start %s by itself", link)
	}
	if l, ok := rc["rc_conf_files"]; ok {
		return files.Refuse(l, "", "other files than those of rc.conf(5) are read, and any of them may configure %s", link)
	}
	for _, l := range odd {
		if w := strings.Fields(l.Text); w[0] == "." || w[0] == "source" {
			return files.Refuse(l, "", "another file is read here, which may configure %s", link)
		}
	}
	return nil
}

// Plan implements files.Format.
func (f Format) Plan(ctx context.Context, h files.Host, r files.Request) (files.Draft, error) {
	d := render(r)
	t := h.Tree()
	for _, file := range d.Files {
		switch file.Path {
		case loaderConf:
			if _, _, broken := loaderLines(t); broken != nil {
				return d, files.Refuse(*broken, `write it as name="value"`, "loader(8) stops reading the file at this line")
			}
		case startIf(r.Link):
			rc, odd := rcLines(t)
			if err := started(rc, odd, r.Link); err != nil {
				return d, err
			}
			for _, l := range odd {
				if strings.Contains(l.Text, variable(r.Link)) || strings.Contains(l.Text, "ifconfig_DEFAULT") {
					return d, files.Refuse(l, `assign it once, as NAME="VALUE"`, "only a shell can tell what this line makes of %s", variable(r.Link))
				}
			}
			if _, ok := configured(rc, r.Link); !ok {
				return d, files.Refuse(model.FileLine{File: "/etc/rc.conf"}, "add one: "+variable(r.Link)+`="DHCP", or its address`, "no line configures %s", r.Link)
			}
			if mtu, err := strconv.Atoi(d.Want["link/"+r.Link+"/ifconfig/mtu"]); err == nil {
				if err := alone(t, rc, r.Link, mtu); err != nil {
					return d, err
				}
			}
			for _, l := range t.Lines(file.Path, "#") {
				if slices.ContainsFunc(strings.Fields(l.Text), func(w string) bool { return w == "exit" || w == "return" || strings.HasPrefix(w, "exec") }) {
					return d, files.Refuse(l, "take the line out", "the script may end here, before what is added")
				}
			}
		}
	}
	return d, f.replaced(ctx, h, d)
}

// replaced allows settings to disappear that an earlier block of linerate's holds and the new
// one does not.
func (f Format) replaced(ctx context.Context, h files.Host, d files.Draft) error {
	before, err := f.Outcome(ctx, h)
	if err != nil {
		return err
	}
	after, err := f.Outcome(ctx, h.With(d.Files))
	for key, l := range before.Values {
		head, inner, _, broken := files.Split(h.Tree().Read(l.File))
		first := bytes.Count(head, []byte("\n")) + 1
		if _, wanted := d.Want[key]; !wanted && broken == nil && l.Number >= first && l.Number < first+bytes.Count(inner, []byte("\n")) {
			d.Want[key] = after.Values[key].Text
		}
	}
	return err
}
