package origin

import (
	"linerate/internal/core/model"
	"linerate/internal/host/files/sysctl"
)

// sysctlD reads sysctl.d(5) and sysctl.conf(5) by the rules of package files/sysctl. Lines
// of /etc/sysctl.conf that systemd-sysctl does not read are said as never read.
func (f *finder) sysctlD() {
	boot := sysctl.Read(f.tree.Root)
	for key := range f.sysctls {
		counts, counted := boot.Counting(key)
		for _, l := range boot.Lines {
			if l.Key == key && !l.Bare && l != counts {
				f.sysctlLine(key, l.FileLine, false)
			}
		}
		if counted {
			f.sysctlLine(key, counts.FileLine, false)
		}
	}
	if boot.BySystemd {
		f.sysctlConf()
	}
}

// sysctlConf reads /etc/sysctl.conf where no program does.
func (f *finder) sysctlConf() {
	for _, l := range sysctl.Lines(f.tree, "etc/sysctl.conf") {
		if !l.Bare {
			f.sysctlLine(l.Key, l.FileLine, true)
		}
	}
}

// sysctlLine says what the kernel makes of a line; what it refuses is said as it stands.
func (f *finder) sysctlLine(key string, l model.FileLine, never bool) {
	source := Sysctl
	if l.File == "/etc/sysctl.conf" {
		source = SysctlConf
	}
	text, err := sysctl.Kernel(key, l.Text)
	if err != nil {
		text = l.Text
	}
	first := len(f.Settings)
	f.sysctl(source, key, l, text)
	for i := range f.Settings[first:] {
		f.Settings[first+i].Never = never
	}
}
