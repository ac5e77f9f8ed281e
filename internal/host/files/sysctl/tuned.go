package sysctl

import (
	"linerate/internal/host/files/tree"
	"linerate/internal/host/files/tuned"
)

// adminFolders are SYSCTL_CONFIG_DIRS of TuneD's sysctl plugin, in order of precedence:
// unlike for systemd, /run hides /etc.
var adminFolders = [...]string{"run/sysctl.d", "etc/sysctl.d"}

// tuned adds what TuneD applies after it has started.
func (b *Boot) tuned(t tree.Tree) {
	if !tuned.Active(t) {
		return
	}
	p := tuned.Read(t)
	for _, u := range p.Units {
		if u.Kind() != "sysctl" || u.Disabled() {
			continue
		}
		for key, l := range u.Options {
			l.Text = p.Expand(l.Text)
			b.Profile = append(b.Profile, Line{FileLine: l, Key: Key(key)})
		}
	}
	if !p.SetsSysctls || !p.Reapplies {
		return
	}
	for _, name := range t.ByName(".conf", adminFolders[:]...) {
		b.Again = append(b.Again, Lines(t, name)...)
	}
	b.Again = append(b.Again, Lines(t, "etc/sysctl.conf")...)
}
