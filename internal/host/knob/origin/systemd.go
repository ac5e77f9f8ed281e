package origin

import (
	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/networkd"
)

// linkFile reads the .link file of the interface, systemd.link(5).
func (f *finder) linkFile() {
	u, sure := networkd.Winner(f.tree, f.dev, networkd.LinkFile)
	if u.File == "" || !sure {
		return
	}
	f.define(LinkFile, model.FileLine{File: u.File, Number: 1}, "")
	for _, e := range u.Section("Link") {
		if id, value, ok := networkd.Read(e.Key, e.Text); ok && e.Text != "" {
			f.say(LinkFile, id, e.FileLine, value)
		}
	}
}

// networkFile reads the .network file of the interface, systemd.network(5).
func (f *finder) networkFile() {
	u, sure := networkd.Winner(f.tree, f.dev, networkd.NetworkFile)
	if u.File == "" || !sure || command.Switch(u.Text("Link", "Unmanaged")) == "1" {
		return
	}
	f.define(NetworkFile, model.FileLine{File: u.File, Number: 1}, "")
	if l := u.Get("Link", "MTUBytes"); l != nil {
		_, value, _ := networkd.Read("MTUBytes", l.Text)
		f.say(NetworkFile, "link.mtu", *l, value)
	}
}
