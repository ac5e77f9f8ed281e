package ifupdown

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/tree"
)

// Main is the only file that ifup reads by itself.
const Main = "/etc/network/interfaces"

// Own is linerate's file, if Main sources it.
const Own = "/etc/network/interfaces.d/linerate"

// Flavour is a program that reads interfaces(5).
type Flavour int

// The flavours, which differ in the meaning of several stanzas of one interface.
const (
	Classic Flavour = iota // ifupdown of Debian: each stanza runs, in reading order
	Two                    // ifupdown2 of Cumulus and Proxmox: stanzas are joined, the first mtu counts
	NG                     // ifupdown-ng of Alpine: stanzas are joined, the last mtu counts
)

// Option is a line of a stanza.
type Option struct {
	model.FileLine // Text is the value
	Name           string
	Ours           bool // in a file or a block of linerate
}

// Stanza is an iface line with what follows it.
type Stanza struct {
	At                   model.FileLine
	Link, Family, Method string
	Options              []Option
	Ours                 bool
}

// Config is what interfaces(5) says.
type Config struct {
	Flavour  Flavour
	Stanzas  []Stanza         // in reading order
	Auto     []model.FileLine // auto and allow-… lines; Text is the whole line
	Unproven []model.FileLine // includes that only the program itself can follow
	Files    []string         // those that were read, with a leading slash
}

// Read reads /etc/network/interfaces and what it includes:
//
//	auto eno1
//	iface eno1 inet static
//	    address 192.0.2.1/24
//	    mtu 9000
//	source /etc/network/interfaces.d/*
func Read(root fs.FS) Config {
	r := reader{tree: tree.Tree{Root: root}}
	switch {
	case r.tree.Exists("usr/share/ifupdown2"):
		r.Flavour = Two
	case r.tree.Exists("etc/network/ifupdown-ng.conf"), r.tree.Exists("usr/libexec/ifupdown-ng"):
		r.Flavour = NG
	}
	r.file(strings.TrimPrefix(Main, "/"))
	for i, s := range r.Stanzas {
		r.Stanzas[i].Options = r.inherited(s, 0)
	}
	return r.Config
}

// maxIncluded bounds the files that interfaces(5) includes.
const maxIncluded = 256

type reader struct {
	Config
	tree tree.Tree
}

func (r *reader) file(name string) {
	if slices.Contains(r.Files, "/"+name) || len(r.Files) > maxIncluded {
		return
	}
	r.Files = append(r.Files, "/"+name)
	begin, end := block(r.tree.Read(name))
	var open *Stanza
	for _, l := range r.tree.Joined(name, "#", tree.Interfaces) {
		first, rest, _ := strings.Cut(strings.Join(strings.Fields(l.Text), " "), " ")
		ours := "/"+name == Own || l.Number >= begin && l.Number < end
		words := strings.Fields(rest)
		switch {
		case first == "iface" && len(words) > 0, first == "template" && len(words) > 0 && r.Flavour != Classic:
			s := Stanza{At: l, Link: words[0], Ours: ours}
			s.header(words[1:])
			r.Stanzas = append(r.Stanzas, s)
			open = &r.Stanzas[len(r.Stanzas)-1]
			continue
		case first == "source" && len(words) > 0:
			r.source(path.Dir(name), l, words)
		case first == "source-directory" && len(words) > 0:
			r.directory(below(path.Dir(name), words[0]))
		case first == "auto", strings.HasPrefix(first, "allow-"):
			l.Text = first + " " + rest
			r.Auto = append(r.Auto, l)
		case first == "mapping", first == "rename":
			l.Text = first + " " + rest
			r.Unproven = append(r.Unproven, l)
		case strings.HasPrefix(first, "no-"):
		case open != nil:
			l.Text = rest
			if first == "mtu" && r.Flavour == Classic && slices.ContainsFunc(open.Options, func(o Option) bool { return o.Name == first }) {
				r.Unproven = append(r.Unproven, model.FileLine{File: l.File, Number: l.Number, Text: "a second mtu"}) // ifup joins both
			}
			open.Options = append(open.Options, Option{FileLine: l, Name: first, Ours: ours})
			continue
		default: // ifupdown reads nothing then: "misplaced option"
			r.Unproven = append(r.Unproven, model.FileLine{File: l.File, Number: l.Number, Text: first})
		}
		open = nil
	}
}

// block returns the numbers of the first line of linerate's block in a file and of the line
// after it.
func block(text []byte) (begin, end int) {
	head, inner, _, err := files.Split(text)
	if err != nil || len(inner) == 0 {
		return 0, 0
	}
	begin = strings.Count(string(head), "\n") + 1
	return begin, begin + strings.Count(string(inner), "\n")
}

// header parses what follows the name: "inet static inherits base".
func (s *Stanza) header(words []string) {
	for i, w := range words {
		if w == "inherits" && i+1 < len(words) {
			s.Options = append(s.Options, Option{FileLine: model.FileLine{File: s.At.File, Number: s.At.Number, Text: words[i+1]}, Name: "inherits"})
			words = words[:i]
			break
		}
	}
	if len(words) > 0 {
		s.Family = words[0]
	}
	if len(words) > 1 {
		s.Method = words[1]
	}
}

// inherited returns the options of a stanza, preceded by those of the stanzas it inherits.
func (r *reader) inherited(s Stanza, depth int) []Option {
	var all []Option
	for _, o := range s.Options {
		if o.Name == "inherits" || r.Flavour == NG && (o.Name == "inherit" || o.Name == "template") {
			for _, other := range r.Stanzas {
				if other.Link == o.Text && depth < 8 && other.At != s.At {
					all = append(all, r.inherited(other, depth+1)...)
				}
			}
			continue
		}
		all = append(all, o)
	}
	return all
}

// below returns the path of a file in the tree; a relative one starts at dir.
func below(dir, name string) string {
	if !path.IsAbs(name) {
		name = path.Join("/", dir, name)
	}
	return strings.TrimPrefix(path.Clean(name), "/")
}

// source includes the files that match shell patterns. It does not follow other expansions of
// wordexp(3).
func (r *reader) source(dir string, l model.FileLine, patterns []string) {
	for _, pattern := range patterns {
		if strings.ContainsAny(pattern, "$`~\"'\\{") {
			r.Unproven = append(r.Unproven, l)
			continue
		}
		names, err := fs.Glob(r.tree.Root, strings.ReplaceAll(below(dir, pattern), "[!", "[^"))
		if err != nil {
			r.Unproven = append(r.Unproven, l)
		}
		for _, name := range names {
			if strings.HasPrefix(path.Base(name), ".") && !strings.HasPrefix(path.Base(pattern), ".") {
				continue // a wildcard does not match it
			}
			if info, err := fs.Stat(r.tree.Root, name); err == nil && info.IsDir() {
				if r.Flavour != Classic { // "Is a directory"
					r.directory(name)
				}
				continue
			}
			r.file(name)
		}
	}
}

// directory includes the files with names of letters, digits, underscores and dashes;
// ifupdown-ng includes all.
func (r *reader) directory(dir string) {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
	}
	for _, name := range r.tree.ByName("", dir) {
		if r.Flavour == NG || !slices.ContainsFunc([]rune(path.Base(name)), func(c rune) bool { return !plain(c) }) {
			r.file(name)
		}
	}
}
