package sysctl_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"linerate/internal/fault"
	"linerate/internal/host/files"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/sysctl"
	"linerate/internal/must"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
}

// bySystemd is the program whose presence means that systemd reads the files.
const bySystemd = "usr/lib/systemd/systemd-sysctl"

// TestHolds: which line decides, by the rules of sysctl.d(5).
func TestHolds(t *testing.T) {
	for name, c := range map[string]struct {
		files fstest.MapFS
		key   string
		want  string // "FILE:LINE TEXT", "" if no line decides
	}{
		"a later name wins whatever its folder": {fstest.MapFS{
			"etc/sysctl.d/10-mine.conf":           file("net.core.rmem_max = 1\n"),
			"usr/lib/sysctl.d/99-vendor-net.conf": file("# vendor\nnet/core/rmem_max=2\n"),
		}, "net/core/rmem_max", "/usr/lib/sysctl.d/99-vendor-net.conf:2 2"},
		"one name hides another": {fstest.MapFS{
			"usr/lib/sysctl.d/50-a.conf": file("net.core.rmem_max = 1\n"),
			"etc/sysctl.d/50-a.conf":     file("net.core.rmem_max = 2\n"),
			"run/sysctl.d/50-a.conf":     file("net.core.rmem_max = 3\n"),
		}, "net/core/rmem_max", "/etc/sysctl.d/50-a.conf:1 2"},
		"systemd does not read sysctl.conf": {fstest.MapFS{
			bySystemd: file(""), "etc/sysctl.conf": file("net.core.rmem_max = 1\n"),
		}, "net/core/rmem_max", ""},
		"but through a link, in the order of its name": {fstest.MapFS{
			bySystemd: file(""), "etc/sysctl.conf": file("net.core.rmem_max = 1\n"), "etc/sysctl.d/99-sysctl.conf": link("../sysctl.conf"),
			"usr/lib/sysctl.d/99-a.conf": file("net.core.rmem_max = 2\n"),
		}, "net/core/rmem_max", "/etc/sysctl.d/99-sysctl.conf:1 1"},
		"procps reads sysctl.conf last": {fstest.MapFS{
			"etc/sysctl.conf": file("net.core.rmem_max = 1\n"), "etc/sysctl.d/zz.conf": file("net.core.rmem_max = 2\n"),
		}, "net/core/rmem_max", "/etc/sysctl.conf:1 1"},
		"an interface with a dot": {fstest.MapFS{
			"etc/sysctl.d/a.conf": file("net.ipv4.conf.eno1/7.rp_filter = 2\n"),
		}, "net/ipv4/conf/eno1.7/rp_filter", "/etc/sysctl.d/a.conf:1 2"},
		"a wildcard counts where no line names the key": {fstest.MapFS{
			"etc/sysctl.d/a.conf": file("net.ipv4.conf.eno1.rp_filter = 1\n"), "etc/sysctl.d/b.conf": file("-net.ipv4.conf.*.rp_filter = 2\n"),
		}, "net/ipv4/conf/eno1/rp_filter", "/etc/sysctl.d/a.conf:1 1"},
		"a wildcard": {fstest.MapFS{
			"etc/sysctl.d/b.conf": file("-net.ipv4.conf.*.rp_filter = 2\n"),
		}, "net/ipv4/conf/eno1/rp_filter", "/etc/sysctl.d/b.conf:1 2"},
		"a wildcard that is not one letter": {fstest.MapFS{
			"etc/sysctl.d/b.conf": file("net.ipv4.conf.eno[!2].rp_filter = 2\n"),
		}, "net/ipv4/conf/eno1/rp_filter", "/etc/sysctl.d/b.conf:1 2"},
		"systemd reads no hidden file": {fstest.MapFS{
			bySystemd: file(""), "etc/sysctl.d/.b.conf": file("net.core.rmem_max = 1\n"),
		}, "net/core/rmem_max", ""},
		"procps does": {fstest.MapFS{
			"etc/sysctl.d/.b.conf": file("net.core.rmem_max = 1\n"),
		}, "net/core/rmem_max", "/etc/sysctl.d/.b.conf:1 1"},
		"a key taken out of wildcards": {fstest.MapFS{
			"etc/sysctl.d/b.conf": file("-net.ipv4.conf.*.rp_filter = 2\n-net.ipv4.conf.eno1.rp_filter\n"),
		}, "net/ipv4/conf/eno1/rp_filter", ""},
		"TuneD applies /etc once more over its profile": {tuned("5", "etc/sysctl.d/10-mine.conf", "net.core.rmem_max = 1", "usr/lib/sysctl.d/99-vendor.conf", "net.core.rmem_max = 2"), "net/core/rmem_max", "/etc/sysctl.d/10-mine.conf:1 1"},
		"TuneD's profile over the vendor":               {tuned("5", "usr/lib/sysctl.d/99-vendor.conf", "net.core.rmem_max = 2"), "net/core/rmem_max", "/etc/tuned/mine/tuned.conf:2 5"},
		"TuneD that applies nothing once more":          {tuned("5", "etc/tuned/tuned-main.conf", "reapply_sysctl = 0", "etc/sysctl.d/10-mine.conf", "net.core.rmem_max = 1"), "net/core/rmem_max", "/etc/tuned/mine/tuned.conf:2 5"},
		"TuneD that only raises":                        {tuned(">5", "etc/tuned/tuned-main.conf", "reapply_sysctl = 0", "etc/sysctl.d/10-mine.conf", "net.core.rmem_max = 1"), "net/core/rmem_max", "/etc/tuned/mine/tuned.conf:2 5"},
		"and has nothing to raise":                      {tuned(">5", "etc/tuned/tuned-main.conf", "reapply_sysctl = 0", "etc/sysctl.d/10-mine.conf", "net.core.rmem_max = 7"), "net/core/rmem_max", "/etc/sysctl.d/10-mine.conf:1 7"},
		"TuneD that only lowers":                        {tuned("<5", "etc/tuned/tuned-main.conf", "reapply_sysctl = 0", "etc/sysctl.d/10-mine.conf", "net.core.rmem_max = 7"), "net/core/rmem_max", "/etc/tuned/mine/tuned.conf:2 5"},
		"and has nothing to lower":                      {tuned("<5", "etc/tuned/tuned-main.conf", "reapply_sysctl = 0", "etc/sysctl.d/10-mine.conf", "net.core.rmem_max = 1"), "net/core/rmem_max", "/etc/sysctl.d/10-mine.conf:1 1"},
		"TuneD that raises what no file sets":           {tuned(">5"), "net/core/rmem_max", "/etc/tuned/mine/tuned.conf:2 5"},
		"TuneD that is installed and does not run": {fstest.MapFS{
			"etc/tuned/active_profile": file("mine\n"), "etc/tuned/mine/tuned.conf": file("[sysctl]\nnet.core.rmem_max=5\n"),
			"etc/sysctl.d/10-mine.conf": file("net.core.rmem_max = 1\n"),
		}, "net/core/rmem_max", "/etc/sysctl.d/10-mine.conf:1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			l, ok := sysctl.Read(c.files).Holds(c.key)
			got := ""
			if ok {
				got = fmt.Sprintf("%s:%d %s", l.File, l.Number, l.Text)
			}
			must.Equal(t, got, c.want)
		})
	}
}

// tuned returns the files of a host on which TuneD sets net.core.rmem_max, with more files of one
// line each.
func tuned(value string, more ...string) fstest.MapFS {
	all := fstest.MapFS{"run/tuned/tuned.pid": file("1\n"), "etc/tuned/active_profile": file("mine\n"), "etc/tuned/mine/tuned.conf": file("[sysctl]\nnet.core.rmem_max=" + value + "\n")}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = file(more[i+1] + "\n")
	}
	return all
}

// TestKernelLimits: the kernel refuses a number that its type cannot hold.
func TestKernelLimits(t *testing.T) {
	for text, says := range map[string]string{
		"net/ipv4/tcp_rmem 4096 131072 99999999999": "it takes 1 to 2147483647", "net/ipv4/tcp_wmem 0 1 2": "it takes 1 to", "net/core/rmem_max 4294967296": "to 2147483647", "net/ipv4/tcp_mem 1 2 99999999999": "", "net/core/busy_read -1": "",
	} {
		key, value, _ := strings.Cut(text, " ")
		got, err := sysctl.Kernel(key, value)
		must.True(t, says == "" && err == nil && got == value || says != "" && err != nil && strings.Contains(err.Error(), says), "%s: %q, %v", text, got, err)
	}
}

// TestPropose plans the file, and refuses it if it would have no effect.
func TestPropose(t *testing.T) {
	r := files.Request{Head: []string{"why"}, Settings: []files.Setting{
		{Knob: "socket.recv_buffer_max", Name: "net.core.rmem_max", Text: "8388608", Remarks: []string{"largest buffer"}},
		{Knob: "tcp.congestion_control", Name: "net.ipv4.tcp_congestion_control", Text: "bbr"}, {Knob: "link.mtu", Name: "mtu", Value: "9000"},
	}}
	root := fstest.MapFS{bySystemd: file(""), "usr/lib/sysctl.d/99-a.conf": file("net.core.rmem_max = 2\nnet.core.wmem_max = 16M\n")}
	p := must.Get(files.Propose(t.Context(), sysctl.Format{}, files.Host{Root: root, System: "linux"}, r))(t)
	must.Need(t, len(p.Files) == 2, "%+v", p)
	const want = "# why\n\n# largest buffer\nnet.core.rmem_max = 8388608\n\nnet.ipv4.tcp_congestion_control = bbr\n"
	got := string(p.Files[0].Content)
	must.True(t, got == want && p.Files[0].Path == sysctl.Path && strings.HasSuffix(string(p.Files[1].Content), "\ntcp_bbr\n"), "%s", got)
	must.True(t, len(p.Notes) == 1 && strings.Contains(p.Notes[0], "/usr/lib/sysctl.d/99-a.conf:2 sets no net.core.wmem_max"), "notes %q", p.Notes)
	var refusal *files.Refusal
	root["run/sysctl.d/zzz.conf"] = file("\nnet.core.rmem_max = 2\n")
	_, err := files.Propose(t.Context(), sysctl.Format{}, files.Host{Root: root, System: "linux"}, r)
	must.True(t, errors.As(err, &refusal) && refusal.File == "/run/sysctl.d/zzz.conf" && refusal.Line == 2, "a later file: %v", err)
	root["run/sysctl.d/zzz.conf"] = file("\nnet.core.rmem_max = 8388608 # the same\n")
	must.OK(t, must.Err(files.Propose(t.Context(), sysctl.Format{}, files.Host{Root: root, System: "linux"}, r)), "a later file with the same value")
	for name, c := range map[string]struct {
		place string
		file  *fstest.MapFile
		want  string // of the refusal and its hint
	}{
		"a mask":               {sysctl.Path, link("/dev/null"), sysctl.Path + ": a link to /dev/null masks every file called zz-linerate.conf, in all folders; if the mask is not needed, remove it by hand: rm " + sysctl.Path},
		"a link":               {sysctl.Path, link("../mine.conf"), sysctl.Path + ": it is a link to ../mine.conf, and linerate replaces no links; move the link away"},
		"a directory":          {sysctl.Path, &fstest.MapFile{Mode: fs.ModeDir}, sysctl.Path + ": it is no regular file; move it away"},
		"a mask of the module": {"/etc/modules-load.d/linerate.conf", link("/dev/null"), "/etc/modules-load.d/linerate.conf: a link to /dev/null"},
		"another folder":       {"/usr/lib/sysctl.d/zz-linerate.conf", file("\nnet.core.wmem_max = 3\n"), "/usr/lib/sysctl.d/zz-linerate.conf:2: " + sysctl.Path + " would hide it; rename that file"},
	} {
		h := files.Host{Root: fstest.MapFS{bySystemd: file(""), strings.TrimPrefix(c.place, "/"): c.file}, System: "linux"}
		must.Contain(t, fault.Sentence(must.Err(files.Propose(t.Context(), sysctl.Format{}, h, r))), c.want, "%s", name)
	}
	edited := func(string) (time.Time, bool) { return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), true }
	for text, want := range map[string]string{
		got + "# mine\n": `:7: it was edited by hand after linerate wrote it on 2026-11-21; writing it again would lose "# mine"; move it away by hand`,
		"# why\n":        ": it was edited by hand after linerate wrote it on 2026-11-21, and lines of it are gone; if what was removed shall be kept",
	} {
		h := files.Host{Root: fstest.MapFS{bySystemd: file(""), strings.TrimPrefix(sysctl.Path, "/"): file(text)}, System: "linux", Edited: edited}
		must.Contain(t, fault.Sentence(must.Err(files.Propose(t.Context(), sysctl.Format{}, h, r))), sysctl.Path+want)
	}
	r.Link = "br0" // its MTU, and what its port needs for that, belong to another format
	must.OK(t, must.Err(files.Propose(t.Context(), sysctl.Format{}, files.Host{Root: root, System: "linux", Devices: []device.Device{{Name: "br0", Kind: "bridge"}, {Name: "eth0", Master: "br0"}}}, r)), "beside the MTU of a bridge")
}
