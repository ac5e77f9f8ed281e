// Package tree reads the configuration files below a root, with the number of
// each line.
//
// The package does not interpret files. A file that is missing or unreadable has no lines.
package tree

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
)

// Tree is the files of a machine.
type Tree struct{ Root fs.FS }

// MaxFile bounds how much of a file is read, in bytes.
const MaxFile = 1 << 20

// maxEntries bounds the files considered in one directory.
const maxEntries = 4096

// Read returns the first MaxFile bytes of a file, or nil if it cannot be read. name may begin
// with a slash.
func (t Tree) Read(name string) []byte {
	f, err := t.Root.Open(strings.TrimPrefix(name, "/"))
	if err != nil {
		return nil
	}
	defer f.Close() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, MaxFile))
	if err != nil {
		return nil
	}
	return b
}

// Word returns the text of a one-line file, such as in sysfs, without surrounding blanks.
func (t Tree) Word(name string) string { return strings.TrimSpace(string(t.Read(name))) }

// Exists reports whether a file or directory exists.
func (t Tree) Exists(name string) bool {
	_, err := fs.Stat(t.Root, strings.TrimPrefix(name, "/"))
	return err == nil
}

// Lines returns the lines of a file that are not empty and do not start with one of the bytes
// in comments.
func (t Tree) Lines(name, comments string) []model.FileLine {
	var all []model.FileLine
	s := bufio.NewScanner(bytes.NewReader(t.Read(name)))
	s.Buffer(nil, MaxFile+1)
	for n := 1; s.Scan(); n++ {
		text := strings.TrimSpace(s.Text())
		if text != "" && !strings.ContainsAny(text[:1], comments) {
			all = append(all, model.FileLine{File: "/" + strings.TrimPrefix(name, "/"), Number: n, Text: text})
		}
	}
	return all
}

// Joined is Lines, except that a line continues in the next one if its last character is a
// backslash; it has the number of its first line.
func (t Tree) Joined(name, comments string, rules Continuation) []model.FileLine {
	var all []model.FileLine
	open := false
	s := bufio.NewScanner(bytes.NewReader(t.Read(name)))
	s.Buffer(nil, MaxFile+1)
	for n := 1; s.Scan(); n++ {
		text := strings.TrimSpace(s.Text())
		comment := text != "" && strings.ContainsAny(text[:1], comments)
		if comment && (!open || rules == Systemd) {
			continue
		}
		backslashes := len(s.Text()) - len(strings.TrimRight(s.Text(), `\`))
		more := backslashes%2 == 1 || backslashes > 0 && rules == Interfaces
		if more {
			text = strings.TrimSpace(strings.TrimSuffix(text, `\`))
		}
		if open {
			last := &all[len(all)-1]
			last.Text = strings.TrimSpace(last.Text + " " + text)
		} else {
			all = append(all, model.FileLine{File: "/" + strings.TrimPrefix(name, "/"), Number: n, Text: text})
		}
		open = more
	}
	return slices.DeleteFunc(all, func(l model.FileLine) bool { return l.Text == "" })
}

// Continuation is how a program continues lines.
type Continuation int

// The rules. For both, an empty line ends what a backslash continues.
const (
	Systemd    Continuation = iota // systemd.syntax(7): a comment in between is skipped, and two backslashes are one
	Interfaces                     // ifupdown 0.8.41: what looks like a comment is part of the line, and any backslash continues it
)

// ByName returns the files of directories with a suffix, sorted by name. A file hides those
// of the same name in later directories: the rule of sysctl.d(5), systemd.network(5) and
// netplan, which also ignore names with a leading dot: see Visible.
func (t Tree) ByName(ending string, dirs ...string) []string {
	where := make(map[string]string)
	for _, dir := range dirs {
		dir = strings.TrimPrefix(dir, "/")
		entries, err := fs.ReadDir(t.Root, dir)
		if err != nil {
			continue
		}
		for _, e := range entries[:min(len(entries), maxEntries)] {
			if _, hidden := where[e.Name()]; !hidden && !e.IsDir() && strings.HasSuffix(e.Name(), ending) {
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

// Visible is ByName without files whose name has a leading dot.
func (t Tree) Visible(ending string, dirs ...string) []string {
	return slices.DeleteFunc(t.ByName(ending, dirs...), func(name string) bool { return strings.HasPrefix(path.Base(name), ".") })
}

// Match reports whether a text matches a pattern of glob(7), in which "[!a]" is any character
// but a.
func Match(pattern, text string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), text)
	return ok && err == nil || err != nil && pattern == text
}

// Entry is an assignment in a section.
type Entry struct {
	Section, Key   string
	model.FileLine // Text is the value
}

// INI is a file of sections with assignments, in order.
type INI []Entry

// INI parses systemd.syntax(7). A file with a broken heading has no lines: systemd does not
// load it.
//
//	[Match]
//	Name=eth0
func (t Tree) INI(name string) INI {
	all, _ := ini(t.Joined(name, "#;", Systemd))
	return all
}

// Keyfile parses GLib's keyfiles. ok is false if GLib refuses the file: it knows no other
// comments than lines that begin with a number sign.
func (t Tree) Keyfile(name string) (all INI, ok bool) {
	lines := t.Lines(name, "#")
	all, ok = ini(lines)
	return all, ok && !slices.ContainsFunc(lines, func(l model.FileLine) bool { return l.Text[0] != '[' && !strings.Contains(l.Text, "=") })
}

// ini parses lines; ok is false if a heading is broken.
func ini(lines []model.FileLine) (all INI, ok bool) {
	section := ""
	for _, l := range lines {
		if strings.HasPrefix(l.Text, "[") {
			if !strings.HasSuffix(l.Text, "]") {
				return nil, false
			}
			section = l.Text[1 : len(l.Text)-1]
			continue
		}
		if key, value, ok := strings.Cut(l.Text, "="); ok {
			l.Text = strings.TrimSpace(value)
			all = append(all, Entry{section, strings.TrimSpace(key), l})
		}
	}
	return all, true
}

// Get returns the last value of a key, or nil if it is missing or empty.
func (f INI) Get(section, key string) *model.FileLine {
	for _, e := range slices.Backward(f) {
		if e.Section == section && e.Key == key {
			if e.Text == "" {
				return nil
			}
			return &e.FileLine
		}
	}
	return nil
}

// Text returns the last value of a key, "" if it has none.
func (f INI) Text(section, key string) string {
	if l := f.Get(section, key); l != nil {
		return l.Text
	}
	return ""
}

// Section returns the assignments of a section.
func (f INI) Section(name string) []Entry {
	var all []Entry
	for _, e := range f {
		if e.Section == name {
			all = append(all, e)
		}
	}
	return all
}

// Assignments parses NAME=VALUE and NAME="VALUE" as shells do; later files override earlier
// ones.
func (t Tree) Assignments(names ...string) map[string]model.FileLine {
	all := make(map[string]model.FileLine)
	for _, name := range names {
		for _, l := range t.Lines(name, "#") {
			key, value, ok := strings.Cut(strings.TrimPrefix(l.Text, "export "), "=")
			if ok {
				l.Text = unquote(value)
				all[strings.TrimSpace(key)] = l
			}
		}
	}
	return all
}

// unquote removes a comment and quotes from a value.
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
