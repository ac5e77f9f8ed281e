// Package origin finds the permanent file that says what a setting is at the
// start of the machine.
//
// It reads the files of which the order is documented: sysctl.d(5) and
// sysctl.conf(5), the MTU of an interface in systemd.link(5), systemd.network(5),
// interfaces(5) and NetworkManager's keyfiles on Linux; sysctl.conf(5),
// loader.conf(5) and rc.conf(5) on FreeBSD. A program that sets something by
// itself leaves no trace there: what is not found is not known.
package origin

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/knob"
)

// Line is one line of a permanent file that sets a setting.
type Line struct {
	File   string // "/etc/sysctl.d/90-net.conf"
	Number int    // 1…
	Text   string // the native text that it sets
}

// maxFile bounds what is read of one file in bytes.
const maxFile = 1 << 20

// Find returns the lines that set the knobs of system, the last one that counts
// for each. root is the root of the machine's files; link is the interface of
// knobs of links, "" for none. Files that cannot be read are passed over.
func Find(root fs.FS, system, link string, ids []model.KnobID) map[model.KnobID]Line {
	t := tree{root}
	var sysctls map[string]Line
	var mtu *Line
	switch system {
	case "linux":
		sysctls = t.sysctlD()
		mtu = t.linuxMTU(link)
	case "freebsd":
		sysctls = t.assignments("boot/loader.conf", "boot/loader.conf.local", "etc/sysctl.conf", "etc/sysctl.conf.local")
		mtu = t.rcMTU(link)
	default:
		return nil
	}
	found := make(map[model.KnobID]Line)
	for _, id := range ids {
		k, ok := knob.ByID(id)
		n := k.Native[system]
		switch {
		case !ok:
		case id == "link.mtu" && mtu != nil:
			found[id] = *mtu
		case n.Mechanism == knob.Sysctl:
			if l, ok := sysctls[strings.ReplaceAll(n.Name, "{if}", link)]; ok {
				found[id] = l
			}
		}
	}
	return found
}

type tree struct{ root fs.FS }

// lines returns the lines of a file that is not too long, without comments.
func (t tree) lines(name string, comments string) []Line {
	f, err := t.root.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil
	}
	var all []Line
	s := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; s.Scan(); n++ {
		text := strings.TrimSpace(s.Text())
		if text != "" && !strings.ContainsAny(text[:1], comments) {
			all = append(all, Line{File: "/" + name, Number: n, Text: text})
		}
	}
	return all
}

// byName returns the files with an ending in directories, sorted by their names; a
// file of a directory stands in for those of its name in later directories.
func (t tree) byName(ending string, dirs ...string) []string {
	where := make(map[string]string)
	for _, dir := range dirs {
		entries, err := fs.ReadDir(t.root, dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if _, hidden := where[e.Name()]; !hidden && strings.HasSuffix(e.Name(), ending) {
				where[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	names := make([]string, 0, len(where))
	for name := range where {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = where[name]
	}
	return names
}

// sysctlD reads the files of sysctl.d(5) in their order, then /etc/sysctl.conf,
// which sysctl(8) --system reads last:
//
//	# comment
//	-net.ipv4.tcp_rmem = 4096 131072 6291456
//	net/core/rmem_max=8388608
func (t tree) sysctlD() map[string]Line {
	all := make(map[string]Line)
	files := t.byName(".conf", "etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d")
	for _, name := range append(files, "etc/sysctl.conf") {
		for _, l := range t.lines(name, "#;") {
			key, value, ok := strings.Cut(strings.TrimPrefix(l.Text, "-"), "=")
			if !ok {
				continue
			}
			key, l.Text = sysctlName(strings.TrimSpace(key)), strings.TrimSpace(value)
			if had, twice := all[key]; !twice || name != "etc/sysctl.conf" || had.Text != l.Text { // 99-sysctl.conf is often a link to it
				all[key] = l
			}
		}
	}
	return all
}

// sysctlName turns the slashes of sysctl.d(5) into dots: where the first of both
// is a slash, dots and slashes are swapped.
func sysctlName(s string) string {
	if i := strings.IndexAny(s, "./"); i >= 0 && s[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(s)
	}
	return s
}

// assignments reads NAME=VALUE and NAME="VALUE" as shells do, a later file over
// an earlier one.
func (t tree) assignments(names ...string) map[string]Line {
	all := make(map[string]Line)
	for _, name := range names {
		for _, l := range t.lines(name, "#") {
			key, value, ok := strings.Cut(l.Text, "=")
			if ok {
				l.Text = unquote(value)
				all[strings.TrimSpace(key)] = l
			}
		}
	}
	return all
}

// unquote takes a comment and quotes off a value.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		if end := strings.IndexByte(s[1:], s[0]); end >= 0 {
			return s[1 : 1+end]
		}
	}
	s, _, _ = strings.Cut(s, "#")
	return strings.TrimSpace(s)
}
