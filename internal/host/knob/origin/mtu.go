package origin

import (
	"path"
	"strings"
)

// rcMTU reads rc.conf(5): ifconfig_em0="inet 192.0.2.1/24 mtu 9000".
func (t tree) rcMTU(link string) *Line {
	if link == "" {
		return nil
	}
	l, ok := t.assignments("etc/defaults/rc.conf", "etc/rc.conf", "etc/rc.conf.local")["ifconfig_"+link]
	if !ok {
		return nil
	}
	return after(l, "mtu")
}

// after returns the word of a line that follows a word, nil where there is none.
func after(l Line, word string) *Line {
	words := strings.Fields(l.Text)
	for i := 0; i+1 < len(words); i++ {
		if words[i] == word {
			l.Text = words[i+1]
			return &l
		}
	}
	return nil
}

// linuxMTU asks the owners of interfaces. Where several name an MTU the one that
// comes last at the start of the machine counts: udev, then the others.
func (t tree) linuxMTU(link string) *Line {
	if link == "" {
		return nil
	}
	systemd := func(ending, name string) *Line {
		for _, file := range t.byName(ending, "etc/systemd/network", "run/systemd/network", "usr/local/lib/systemd/network", "usr/lib/systemd/network", "lib/systemd/network") {
			f := t.ini(file)
			if !f.names("Match", name, link) {
				continue
			}
			return f.get("Link", "MTUBytes") // the first file that matches is the only one
		}
		return nil
	}
	for _, found := range []*Line{
		systemd(".network", "Name"), t.networkManager(link), t.ifupdown(link), systemd(".link", "OriginalName"),
	} {
		if found != nil {
			return found
		}
	}
	return nil
}

// networkManager reads keyfiles, nm-settings-keyfile(5):
//
//	[connection]
//	interface-name=eth0
//	[ethernet]
//	mtu=9000
func (t tree) networkManager(link string) *Line {
	for _, file := range t.byName(".nmconnection", "etc/NetworkManager/system-connections", "run/NetworkManager/system-connections", "usr/lib/NetworkManager/system-connections") {
		f := t.ini(file)
		if !f.names("connection", "interface-name", link) {
			continue
		}
		for _, section := range []string{"ethernet", "802-3-ethernet"} {
			if l := f.get(section, "mtu"); l != nil && l.Text != "0" {
				return l
			}
		}
	}
	return nil
}

// ifupdown reads interfaces(5):
//
//	iface eth0 inet static
//	    mtu 9000
func (t tree) ifupdown(link string) *Line {
	files := append([]string{"etc/network/interfaces"}, t.byName("", "etc/network/interfaces.d")...)
	var found *Line
	for _, name := range files {
		ours := false
		for _, l := range t.lines(name, "#") {
			words := strings.Fields(l.Text)
			switch {
			case words[0] == "iface":
				ours = len(words) > 1 && words[1] == link
			case words[0] == "auto", words[0] == "mapping", words[0] == "source", words[0] == "source-directory", strings.HasPrefix(words[0], "allow-"):
				ours = false
			case ours && words[0] == "mtu":
				if m := after(l, "mtu"); m != nil {
					found = m
				}
			}
		}
	}
	return found
}

// ini is a file of sections with keys; the last value of a key counts.
type ini map[[2]string]Line

func (t tree) ini(name string) ini {
	all := make(ini)
	section := ""
	for _, l := range t.lines(name, "#;") {
		if strings.HasPrefix(l.Text, "[") {
			section = strings.Trim(l.Text, "[]")
			continue
		}
		if key, value, ok := strings.Cut(l.Text, "="); ok {
			l.Text = strings.TrimSpace(value)
			all[[2]string{section, strings.TrimSpace(key)}] = l
		}
	}
	return all
}

func (f ini) get(section, key string) *Line {
	if l, ok := f[[2]string{section, key}]; ok && l.Text != "" {
		return &l
	}
	return nil
}

// names reports whether a key lists link, by its name or a pattern of shells. A
// file that tells its interfaces in another way matches none: that is not known.
func (f ini) names(section, key, link string) bool {
	for pattern := range strings.FieldsSeq(f[[2]string{section, key}].Text) {
		if ok, err := path.Match(pattern, link); ok && err == nil {
			return true
		}
	}
	return false
}
