package origin

import (
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/netplan"
)

// netplan reads netplan(5).
func (f *finder) netplan() {
	for _, d := range netplan.Read(f.tree) {
		if d.IsFor(f.dev) != device.Yes {
			continue
		}
		f.define(Netplan, d.Last, d.Renderer)
		for key, l := range d.Words {
			if id, value, ok := netplan.Setting(key, l.Text); ok {
				f.say(Netplan, id, l, value)
			}
		}
	}
}
