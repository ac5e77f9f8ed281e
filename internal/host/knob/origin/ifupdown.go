package origin

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/tree"
)

// interfaces reads interfaces(5), where stanzas of one interface add up:
//
//	iface eth0 inet static
//	    mtu 9000
//	    post-up ethtool -G $IFACE rx 4096
func (f *finder) interfaces() {
	s := stanzas{finder: f, seen: make(map[string]bool)}
	s.file("etc/network/interfaces")
}

// maxIncluded bounds the files that interfaces(5) includes.
const maxIncluded = 256

type stanzas struct {
	*finder
	seen map[string]bool
	ours bool // the stanza is the interface's
}

func (s *stanzas) file(name string) {
	if s.seen[name] || len(s.seen) > maxIncluded {
		return
	}
	s.seen[name] = true
	for _, l := range s.tree.Joined(name, "#") {
		words := strings.Fields(l.Text)
		switch first := words[0]; {
		case first == "iface":
			if s.ours = len(words) > 1 && words[1] == s.link; s.ours {
				s.define(Interfaces, l, "")
			}
		case first == "source" && len(words) > 1:
			s.source(path.Dir(name), words[1])
		case first == "source-directory" && len(words) > 1:
			s.directory(below(path.Dir(name), words[1]))
		case first == "auto", first == "mapping", first == "template", strings.HasPrefix(first, "allow-"), strings.HasPrefix(first, "no-"), first == "rename":
			s.ours = false
		case s.ours:
			s.option(l, first)
		}
	}
	s.ours = false // a stanza ends with its file
}

// option reads a line of the interface's stanza.
func (s *stanzas) option(l model.FileLine, name string) {
	switch name {
	case "mtu":
		if m := tree.After(l, "mtu"); m != nil {
			s.say(Interfaces, "link.mtu", l, m.Text)
		}
	case "up", "pre-up", "post-up":
		s.command(Interfaces, l, strings.TrimSpace(strings.TrimPrefix(l.Text, name)))
	}
	for group, option := range map[string]string{ // of the hook in Debian's package ethtool
		"coalesce": "ethernet-coalesce-", "pause": "ethernet-pause-", "ring": "hardware-dma-ring-", "features": "offload-",
	} {
		if word, ok := strings.CutPrefix(name, option); ok {
			value := strings.TrimSpace(strings.TrimPrefix(l.Text, name))
			for _, one := range command.EthtoolWords(group, []string{word, value}) {
				s.say(Interfaces, one.Knob, l, one.Text)
			}
		}
	}
}

// command adds what a command sets.
func (f *finder) command(source Source, l model.FileLine, text string) {
	for _, one := range command.Settings(text, f.link) {
		f.say(source, one.Knob, l, one.Text)
	}
	for name, value := range command.Sysctls(text) {
		f.sysctl(source, name, l, value)
	}
}

// below puts a path of a file into the tree; a relative one begins at dir.
func below(dir, name string) string {
	if !path.IsAbs(name) {
		name = path.Join("/", dir, name)
	}
	return strings.TrimPrefix(path.Clean(name), "/")
}

// source includes the files that match a pattern of shells.
func (s *stanzas) source(dir, pattern string) {
	names, err := fs.Glob(s.tree.Root, below(dir, pattern))
	if err != nil {
		return
	}
	for _, name := range names {
		if info, err := fs.Stat(s.tree.Root, name); err == nil && info.IsDir() {
			s.directory(name)
			continue
		}
		s.file(name)
	}
}

// directory includes the files whose names are of letters, digits, underscores
// and dashes.
func (s *stanzas) directory(dir string) {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	for _, name := range s.tree.ByName("", dir) {
		if base := path.Base(name); !slices.ContainsFunc([]rune(base), func(r rune) bool { return !plain(r) }) {
			s.file(name)
		}
	}
}
