package native_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/persist/native"
	"linerate/internal/must"
)

// article is a profile in testdata/articles, for one role.
type article struct {
	name, role, link string
}

// exports lists the articles for each format that fits their systems.
func exports() map[model.FileFormat][]article {
	crossed := []article{{"crossed", "both", "eth0"}}
	return map[model.FileFormat][]article{
		model.FormatLinuxSysctl: crossed, model.FormatSystemdNetworkd: crossed, model.FormatNetplan: crossed, model.FormatNetworkManager: crossed, model.FormatIfupdown: crossed,
		model.FormatFreeBSD: {
			{"gigabit", "near", "em0"}, {"fileshare", "far", "bge0"}, {"virtio2", "both", "vtnet0"}, {"virtio3", "both", "vtnet0"}, {"oldpc", "both", "xl0"},
		},
		model.FormatMacOS:             {{"fileshare", "near", "en0"}},
		model.FormatWindowsReg:        {{"gigabit", "far", "LAN"}},
		model.FormatWindowsPowerShell: {{"gigabit", "far", "LAN"}},
	}
}

// input reads the article's settings for its role.
func (a article) input(t *testing.T) native.Input {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("testdata", "articles", a.name+".yaml")))(t)
	var p struct {
		Profile int
		Title   string
		Hosts   []struct {
			Role, System string
			Knobs        yaml.MapSlice
		}
	}
	must.Do(t, yaml.UnmarshalWithOptions(b, &p, yaml.Strict()))
	in := native.Input{Interface: a.link, AdapterKey: "0007", Comments: []string{p.Title}}
	for _, h := range p.Hosts {
		if h.Role != a.role {
			continue
		}
		in.System = h.System
		for _, item := range h.Knobs {
			k, ok := knob.NewIndex().ByID(model.KnobID(fmt.Sprint(item.Key)))
			must.Need(t, ok, "%s: no knob %v", a.name, item.Key)
			v := must.Get(k.Parse(fmt.Sprint(item.Value)))(t)
			in.Settings = append(in.Settings, model.Assignment{Knob: k.ID, Value: v})
		}
	}
	must.Need(t, len(in.Settings) != 0, "%s has nothing for %s", a.name, a.role)
	return in
}

// want reads the expected export: each section begins with an unindented line, and its lines
// begin with a tab.
func (a article) want(t *testing.T, f model.FileFormat) map[string][]string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("testdata", "articles", fmt.Sprintf("%s.%s.%s.want", a.name, a.role, f))))(t)
	all := map[string][]string{}
	section := ""
	for l := range strings.Lines(string(b)) {
		l = strings.TrimSuffix(l, "\n")
		if text, ok := strings.CutPrefix(l, "\t"); ok {
			all[section] = append(all[section], text)
			continue
		}
		section = l
	}
	return all
}

// acting returns the lines of a text that a system acts on.
func acting(path, text string) []string {
	mark := "#"
	switch filepath.Ext(path) {
	case ".reg":
		mark = ";"
	case ".plist":
		mark = "<!--"
	}
	var all []string
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		if s := strings.TrimSpace(l); s != "" && !strings.HasPrefix(s, mark) {
			all = append(all, l)
		}
	}
	return all
}

// TestArticles compares the exports of the articles' settings, line by line, with the
// expected ones.
func TestArticles(t *testing.T) {
	for f, all := range exports() {
		for _, a := range all {
			t.Run(a.name+" "+string(f), func(t *testing.T) {
				in, want := a.input(t), a.want(t, f)
				in.Anyway = a.name == "virtio3" // see TestArticlesThatDoNotFit
				out := must.Get(native.Render(f, in))(t)
				got := map[string][]string{}
				for _, file := range out.Files {
					got[file.Path] = acting(file.Path, file.Text())
				}
				for _, o := range out.Omitted {
					got["left out"] = append(got["left out"], string(o.Knob))
				}
				if len(want["commands"]) > 0 {
					got["commands"] = out.Commands
				}
				diff := cmp.Diff(want, got)
				must.True(t, diff == "", "want -, got +\n%s\n%s", diff, print(out))
				must.True(t, len(out.Commands) != 0, "no command puts it to use")
			})
		}
	}
}

// TestArticlesByAnsible: the tasks hold the same lines as the files.
func TestArticlesByAnsible(t *testing.T) {
	for f, a := range map[model.FileFormat]article{
		model.FormatSystemdNetworkd: {"crossed", "both", "eth0"}, model.FormatFreeBSD: {"gigabit", "near", "em0"}, model.FormatMacOS: {"fileshare", "near", "en0"},
	} {
		want := a.want(t, f)
		delete(want, "commands") // comments in the tasks
		out := must.Get(native.Render(model.FormatAnsible, a.input(t)))(t)
		var tasks []struct {
			Copy struct {
				Dest, Content string
			} `yaml:"ansible.builtin.copy"`
			Block struct {
				Path, Block string
			} `yaml:"ansible.builtin.blockinfile"`
		}
		must.Do(t, yaml.Unmarshal(out.Files[0].Content, &tasks))
		got := map[string][]string{}
		for _, task := range tasks {
			if c := task.Copy; c.Dest != "" {
				got[c.Dest] = acting(c.Dest, c.Content)
				continue
			}
			got[task.Block.Path] = acting(task.Block.Path, task.Block.Block)
		}
		must.NoDiff(t, cmp.Diff(want, got), "%s", a.name)
	}
}

// TestArticlesThatDoNotFit: settings that an article got wrong, or that do not fit the
// reader's system, are refused with the reason.
func TestArticlesThatDoNotFit(t *testing.T) {
	stock := func(bytes string) map[string]string { // all three, as FreeBSD has them
		return map[string]string{"kern.ipc.maxsockbuf": bytes, "net.inet.tcp.sendbuf_max": bytes, "net.inet.tcp.recvbuf_max": bytes}
	}
	gigabit, share, virtio := article{"gigabit", "near", "em0"}, article{"fileshare", "far", "bge0"}, article{"virtio3", "both", "vtnet0"}
	for _, c := range []struct {
		name   string
		from   article
		before map[string]string
		more   []model.Assignment
		want   string // "" if it fits
	}{
		{"fits in its time", gigabit, map[string]string{"kern.ipc.maxsockbuf": "262144"}, nil, ""},
		{"a limit below what is there today", gigabit, stock("2097152"), nil, "tcp.recv_buffer_max 2097152 is above 8/9 of socket.buffer_max 1048576, which is 932067"},
		{"no multiple is needed", gigabit, nil, settings("tcp.recv_buffer_initial=932067"), ""},
		{"8/9 is", gigabit, nil, settings("tcp.recv_buffer_initial=932068"), "tcp.recv_buffer_initial 932068 is above 8/9 of socket.buffer_max 1048576, which is 932067"},
		{"sizes without their limit", share, map[string]string{"kern.ipc.maxsockbuf": "262144"}, nil, "tcp.recv_buffer_initial 524288 is above 8/9 of socket.buffer_max 262144, which is 233016"},
		{"sizes under the limit of today", share, map[string]string{"kern.ipc.maxsockbuf": "2097152"}, nil, ""},
		{"ceilings without their limit", virtio, nil, nil, "tcp.recv_buffer_max 16777216 is above 8/9 of socket.buffer_max 4000000, which is 3555555"},
		{"ceilings of stock", virtio, nil, settings("socket.buffer_max=2097152", "tcp.send_buffer_max=2097152", "tcp.recv_buffer_max=2097152"),
			"tcp.recv_buffer_max 2097152 is above 8/9 of socket.buffer_max 2097152, which is 1864135"},
		{"beyond the type", virtio, nil, settings("tcp.recv_buffer_max=4294967296"), "want a size from 4 KiB to 2.15 GB"},
		{"a first size above the ceiling", gigabit, nil, settings("socket.buffer_max=8388608", "tcp.send_buffer_max=131072"), "tcp.send_buffer_initial 262144 is above tcp.send_buffer_max 131072"},
		{"half duplex that is negotiated", article{"oldpc", "both", "xl0"}, nil, settings("nic.media.autoneg=1"), "contradicts a fixed speed or duplex"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := c.from.input(t)
			in.Before = c.before
			for _, a := range c.more {
				in.Settings = slices.DeleteFunc(in.Settings, func(o model.Assignment) bool { return o.Knob == a.Knob })
				in.Settings = append(in.Settings, a)
			}
			_, err := native.Render(model.FormatFreeBSD, in)
			must.True(t, (c.want != "" || err == nil) && (c.want == "" || err != nil && strings.Contains(err.Error(), c.want)), "want %q, got %v", c.want, err)
			must.True(t, !strings.Contains(c.want, "8/9") || errors.Is(err, knob.ErrConstraint), "%v is no constraint", err)
		})
	}
}

// TestArticlesWithAdvice: doubtful settings are exported with advice in the file.
func TestArticlesWithAdvice(t *testing.T) {
	for _, c := range []struct {
		f    model.FileFormat
		from article
		want string
	}{
		{model.FormatFreeBSD, article{"gigabit", "near", "em0"}, "note: link.mtu 9014 is what drivers of Windows call a packet of 9000 bytes (C-08: "},
		{model.FormatFreeBSD, article{"gigabit", "near", "em0"}, "note: what stands in /boot/loader.conf takes effect at the next boot"},
		{model.FormatFreeBSD, article{"gigabit", "near", "em0"}, "a kernel with DEVICE_POLLING only; at most HZ × burst_max packets a second"},
		{model.FormatFreeBSD, article{"gigabit", "near", "em0"}, "above 8/9 of socket.buffer_max no TCP socket can be made at all"},
		{model.FormatFreeBSD, article{"virtio2", "both", "vtnet0"}, "without a larger socket.buffer_max the window scale does not grow"},
		{model.FormatFreeBSD, article{"oldpc", "both", "xl0"}, "where mediaopt is left out a fixed medium is half duplex"},
		{model.FormatWindowsReg, article{"gigabit", "far", "LAN"}, "9014 is 9000 and 4088 is 4074, whatever the vendor calls it"},
		{model.FormatWindowsReg, article{"gigabit", "far", "LAN"}, "left out: tcp.recv_buffer_max 262144: AutoTuningLevelLocal is set by a cmdlet"},
		{model.FormatLinuxSysctl, article{"crossed", "both", "eth0"}, "left out: link.mtu 9000: not a sysctl: the owner of the interface keeps it"},
	} {
		out := must.Get(native.Render(c.f, c.from.input(t)))(t)
		all := ""
		for _, file := range out.Files {
			all += file.Text()
		}
		must.Contain(t, all, c.want, "%s of %s", c.f, c.from.name)
	}
}

// TestArticleNames: a name from an article leads to today's knob, or to an explanation of
// what became of the setting.
func TestArticleNames(t *testing.T) {
	for name, c := range map[string]struct {
		knob model.KnobID // the knob itself or its replacement; "" for none
		says string       // part of the explanation
	}{
		// gigabit
		"kern.polling.enable=1":              {"polling", "polling is a capability of each interface"},
		"net.inet.ip.check_interface=0":      {"", "renamed to net.inet.ip.rfc1122_strong_es"},
		"net.inet.tcp.sendspace=262144":      {"tcp.send_buffer_initial", "above 8/9 of socket.buffer_max"},
		"net.inet.tcp.recvspace=262144":      {"tcp.recv_buffer_initial", "above 8/9 of socket.buffer_max"},
		"kern.ipc.maxsockbuf=1048576":        {"socket.buffer_max", "a buffer may have 8/9 of it"},
		"net.inet.tcp.inflight_enable=1":     {"tcp.congestion_control", "removed"},
		"net.inet.tcp.inflight_debug=0":      {"tcp.congestion_control", "removed"},
		"net.inet.tcp.inflight_min=6144":     {"tcp.congestion_control", "removed"},
		"net.inet.tcp.inflight.min":          {"tcp.congestion_control", "removed"},
		"net.inet.tcp.msl=30000":             {"tcp.msl", "a closed connection is remembered for twice that"},
		"net.isr.enable=1":                   {"netisr.dispatch", "replaced by one setting with three words"},
		`kern.ipc.nmbclusters="30720"`:       {"mbuf.clusters", "/boot/loader.conf"},
		"GlobalMaxTcpWindowSize":             {"tcp.autotune_level", "not read since Vista"},
		"MaxTcpWindowSize":                   {"tcp.recv_buffer_max", "the value that was read is TcpWindowSize"},
		"SackOpts":                           {"", "always on"},
		"Tcp1323Opts":                        {"tcp.timestamps", "scaling belongs to autotuning"},
		"*JumboPacket":                       {"link.frame_mtu", "9014 is 9000 and 4088 is 4074"},
		"mtu":                                {"link.mtu", "largest IP packet"},
		"/etc/sysctl.conf":                   {"", "LaunchDaemons"}, // fileshare
		"sysctl net.inet.tcp.sendspace":      {"tcp.send_buffer_initial", "darwin"},
		"sysctl -w net.core.rmem_max=262144": {"socket.recv_buffer_max", "linux"}, // crossed
		"net.core.wmem_max":                  {"socket.send_buffer_max", "linux"},
		"net.core.rmem_default":              {"socket.recv_buffer_default", "not TCP"},
		"net.core.wmem_default":              {"socket.send_buffer_default", "not TCP"},
		"net.core.rmem_max for autotuning":   {"tcp.recv_buffer_max", "never limited them"},
		"net.inet.tcp.sendbuf_max":           {"tcp.send_buffer_max", "freebsd"}, // virtio
		"net.inet.tcp.recvbuf_max":           {"tcp.recv_buffer_max", "without a larger socket.buffer_max"},
		"window":                             {"window", "no autotuning"},
		"options DEVICE_POLLING":             {"polling", "at most HZ × burst_max"}, // oldpc
		"options HZ=1000":                    {"polling.hz", "the kernel option HZ is its default"},
		"kern.hz":                            {"polling.hz", string(knob.EffectBoot)},
	} {
		e, ok := knob.NewIndex().Explain(name)
		if !ok {
			t.Errorf("%s: unknown", name)
			continue
		}
		found := e.Replaced()
		if e.Knob != nil {
			found = append(found, e.Knob.ID)
		}
		for _, u := range e.Uses {
			found = append(found, u.Knob.ID)
		}
		must.True(t, (c.knob != "" || len(found) == 0) && (c.knob == "" || slices.Contains(found, c.knob)), "%s: is %v, want %q", name, found, c.knob)
		said := fmt.Sprintf("%+v %+v", e.Uses, e.Dead)
		if e.Knob != nil {
			said += fmt.Sprintf("%+v", *e.Knob)
		}
		must.Contain(t, said, c.says, "%s", name)
	}
}
