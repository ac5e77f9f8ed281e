package origin

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// sysctlDirs are the folders of sysctl.d(5), the strongest first.
var sysctlDirs = [...]string{"etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d"}

// sysctlD reads the files of sysctl.d(5) in their order, then /etc/sysctl.conf,
// which sysctl(8) --system reads last and systemd-sysctl(8) not at all, unless a
// link among the others leads to it, as in Debian 12 and RHEL:
//
//	# comment
//	-net.ipv4.tcp_rmem = 4096 131072 6291456
//	net/core/rmem_max=8388608
func (f *finder) sysctlD() {
	linked := false
	files := f.tree.ByName(".conf", sysctlDirs[:]...)
	for _, name := range files {
		if target, err := fs.ReadLink(f.tree.Root, name); err == nil && path.Base(target) == "sysctl.conf" {
			linked = true
		}
		f.sysctlLines(Sysctl, name, false)
	}
	bySystemd := slices.ContainsFunc([]string{"usr/lib/systemd/systemd-sysctl", "lib/systemd/systemd-sysctl"}, f.tree.Exists)
	if !linked {
		f.sysctlConf(bySystemd)
	}
}

// sysctlConf reads /etc/sysctl.conf; never says that the system does not.
func (f *finder) sysctlConf(never bool) { f.sysctlLines(SysctlConf, "etc/sysctl.conf", never) }

func (f *finder) sysctlLines(source Source, name string, never bool) {
	first := len(f.Settings)
	for _, l := range f.tree.Lines(name, "#;") {
		key, value, ok := strings.Cut(strings.TrimPrefix(l.Text, "-"), "=")
		if !ok {
			continue
		}
		f.sysctl(source, SysctlName(strings.TrimSpace(key)), l, strings.TrimSpace(value))
	}
	for i := range f.Settings[first:] {
		f.Settings[first+i].Never = never
	}
}

// SysctlName turns the slashes of sysctl.d(5) into dots: where the first of both
// is a slash, dots and slashes are swapped.
func SysctlName(s string) string {
	if i := strings.IndexAny(s, "./"); i >= 0 && s[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(s)
	}
	return s
}
