// Package sysctl computes what the files of sysctl.d(5) make of the kernel's settings at the
// next boot of a Linux machine.
//
// The programs that read these files agree on the following rules:
//
//  1. Of files with the same name one hides the others: /etc before /run before
//     /usr/local/lib before /usr/lib.
//  2. The remaining files are read in the order of their names, whatever their
//     folder.
//  3. The last line that names a key counts; a line with wildcards counts only
//     for keys that no other line names.
//  4. The kernel takes or refuses the whole text after the equals sign: a value
//     cannot have a comment. After a refused line the value of a key is unknown:
//     systemd tries only the last line, procps each of them, and the kernel may have
//     taken the first of several numbers.
//
// They differ about /etc/sysctl.conf: systemd-sysctl reads it only through a link in
// sysctl.d, procps reads it last. If TuneD runs, its profile comes after all of them,
// followed once more by the files in /run and /etc.
package sysctl

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/tree"
)

// folders are the folders of sysctl.d(5), in order of precedence.
var folders = [...]string{"etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d"}

// Line is a line of a file that assigns a value to a key.
type Line struct {
	model.FileLine        // Text is the value as in the file
	Key            string // with slashes, "net/ipv4/tcp_rmem"; may hold the wildcards of glob(7)
	Bare           bool   // "-KEY" without a value: keeps KEY out of wildcards
}

// Boot holds the lines that are read when a machine boots.
type Boot struct {
	Lines     []Line // in the order of reading
	Profile   []Line // of TuneD, if it runs
	Again     []Line // files that TuneD applies over its profile
	BySystemd bool   // systemd-sysctl reads the files, else procps
}

// Read reads the files below root.
func Read(root fs.FS) Boot {
	t := tree.Tree{Root: root}
	var b Boot
	b.BySystemd = slices.ContainsFunc([]string{"usr/lib/systemd/systemd-sysctl", "lib/systemd/systemd-sysctl"}, t.Exists)
	names := t.ByName(".conf", folders[:]...)
	if b.BySystemd {
		names = t.Visible(".conf", folders[:]...)
	}
	for _, name := range names {
		b.Lines = append(b.Lines, Lines(t, name)...)
	}
	if !b.BySystemd {
		b.Lines = append(b.Lines, Lines(t, "etc/sysctl.conf")...)
	}
	b.tuned(t)
	return b
}

// Lines reads the assignments of a file:
//
//	# comment
//	net.ipv4.tcp_rmem = 4096 131072 6291456
//	-net/ipv4/conf/*/rp_filter=2
//	-net.ipv4.conf.eth0.1.rp_filter
func Lines(t tree.Tree, name string) []Line {
	var all []Line
	for _, l := range t.Lines(name, "#;") {
		key, mild := strings.CutPrefix(l.Text, "-")
		key, value, assigns := strings.Cut(key, "=")
		if !assigns && !mild {
			continue
		}
		l.Text = strings.TrimSpace(value)
		all = append(all, Line{FileLine: l, Key: Key(strings.TrimSpace(key)), Bare: !assigns})
	}
	return all
}

// Key writes a name of sysctl.d(5) with slashes. If its first separator is a dot, dots and
// slashes are swapped.
func Key(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '.' {
		name = strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// Name writes a key with slashes in the form for a file: with dots, unless a part of it
// contains a dot.
func Name(key string) string {
	if strings.Contains(key, ".") {
		return key
	}
	return strings.ReplaceAll(key, "/", ".")
}

// Counting returns the effective line for key among those that are read first. For systemd a
// bare key also cancels earlier assignments to it.
func (b Boot) Counting(key string) (Line, bool) {
	bare := false
	for _, l := range slices.Backward(b.Lines) {
		if bare = bare || l.Key == key && l.Bare; l.Key == key && (!l.Bare || b.BySystemd) {
			return l, !l.Bare
		}
	}
	for _, l := range slices.Backward(b.Lines) {
		if bare {
			break
		}
		if tree.Match(l.Key, key) && !l.Bare {
			return l, true
		}
	}
	return Line{}, false
}

// Holds returns the line that sets key, with slashes, after the next boot. ok is false if no
// line does and the kernel's own value stays.
func (b Boot) Holds(key string) (l Line, ok bool) {
	assigns := func(l Line) bool { return l.Key == key && !l.Bare }
	for _, l := range slices.Backward(b.Again) {
		if assigns(l) {
			return l, true
		}
	}
	before, ok := b.Counting(key)
	if i := slices.IndexFunc(b.Profile, assigns); i >= 0 {
		return limited(b.Profile[i], before), true
	}
	return before, ok
}

// limited returns which of two lines counts. l, of TuneD, may start with a mark: with > it
// counts only if its number is larger than the one before, with < if it is smaller
// (_process_assignment_modifiers of tuned/plugins/base.py).
func limited(l, before Line) Line {
	text := strings.TrimLeft(l.Text, "<>")
	number, err := strconv.Atoi(text)
	if err != nil || len(text)+1 != len(l.Text) {
		return l
	}
	if is, err := strconv.Atoi(before.Text); err == nil && (l.Text[0] == '>') == (is >= number) {
		return before
	}
	l.Text = text
	return l
}

// Keys returns the keys that lines name without wildcards, each once.
func (b Boot) Keys() []string {
	var all []string
	for _, l := range slices.Concat(b.Lines, b.Profile, b.Again) {
		if !l.Bare && !strings.ContainsAny(l.Key, "*?[") {
			all = append(all, l.Key)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
