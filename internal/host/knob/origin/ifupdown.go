package origin

import (
	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/ifupdown"
)

// interfaces reads interfaces(5).
func (f *finder) interfaces() {
	c := ifupdown.Read(f.tree.Root)
	for _, s := range c.Stanzas {
		if s.Link == f.link {
			f.define(Interfaces, s.At, "")
		}
	}
	for _, s := range c.Statements(f.link) {
		if s.Sysctl != "" {
			f.sysctl(Interfaces, s.Sysctl, s.FileLine, s.Text)
			continue
		}
		f.say(Interfaces, s.Knob, s.FileLine, s.Text)
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
